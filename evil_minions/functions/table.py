"""The table of all functions that simulated minions know, from every module in the folder `modules`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Final

from evil_minions.functions import modules

if TYPE_CHECKING:
    from evil_minions.functions.registry import Function


def _table() -> dict[str, Function]:
    """Return the functions by their names.

    Raises:
        ValueError: if two modules have one of the same name.

    """
    table: dict[str, Function] = {}
    homes: dict[str, str] = {}
    for found in pkgutil.iter_modules(modules.__path__, f"{modules.__name__}."):
        functions = importlib.import_module(found.name).FUNCTIONS
        if twice := sorted(table.keys() & functions.keys()):
            both = ", ".join(f"{name} (also in {homes[name]})" for name in twice)
            raise ValueError(f"{found.name} has functions that another module has: take one away of {both}.")
        table.update(functions)
        homes.update(dict.fromkeys(functions, found.name))
    return table


FUNCTIONS: Final = _table()
