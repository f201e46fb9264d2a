"""The functions that minions know: a module for each of Salt's, each with its own `FUNCTIONS`, and the table of all.

A module in this folder is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from evil_minions.functions import Function


def _table() -> dict[str, Function]:
    """Return the functions by their names.

    Raises:
        ValueError: if two modules have one of the same name.
    """
    table: dict[str, Function] = {}
    homes: dict[str, str] = {}
    for found in pkgutil.iter_modules(__path__, f"{__name__}."):
        functions = importlib.import_module(found.name).FUNCTIONS
        if twice := sorted(table.keys() & functions.keys()):
            both = ", ".join(f"{name} (also in {homes[name]})" for name in twice)
            raise ValueError(f"{found.name} has functions that another module has: take one away of {both}.")
        table.update(functions)
        homes.update(dict.fromkeys(functions, found.name))
    return table


FUNCTIONS: Final = _table()
