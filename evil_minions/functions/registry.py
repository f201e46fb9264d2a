"""What a function of a simulated minion is.

A function is a plain callable with the signature of Salt's own, so that wrong arguments fail with the same words. It
finds its minion in `CURRENT`, see `evil_minions.functions.call`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import salt.utils.args

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

START_SECONDS: Final = 0.085
MISSING_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Function:
    """An execution function.

    `origin` is where Salt has it (`salt.modules.test:ping`), for documentation in error messages. `outputter` is what
    Salt's module declares for it. `seconds` is what a real minion takes on average beyond the start of any job.
    """

    call: Callable[..., Any]
    origin: str
    outputter: str | None = None
    seconds: float = 0.0

    def documentation(self) -> str:
        """Return the docstring of Salt's own function, or of ours if Salt has none; imported when somebody asks."""
        module, _, name = self.origin.partition(":")
        try:
            return getattr(importlib.import_module(module), name).__doc__ or ""
        except (ImportError, AttributeError):
            # a function of a site; an error here would leave its caller without any return
            return self.call.__doc__ or ""


@lru_cache(maxsize=256)
def _signature(call: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    """Return the argument names of a function, and whether it takes any keyword."""
    specification = salt.utils.args.get_function_argspec(call)
    return frozenset(specification.args), bool(specification.keywords)


def bind(call: Callable[..., Any], args: Sequence[Any], load: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments and keywords that a published argument list stands for.

    Source: load_args_and_kwargs in salt/minion.py of Salt 3008.5, whose module would cost 20 MB for each process.

    Raises:
        SaltInvocationError: if a keyword isn't one of the function's.

    """
    names, takes_any = _signature(call)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    invalid: list[str] = []
    for arg in args:
        if isinstance(arg, dict) and arg.get("__kwarg__", False) is True:
            found = {name: value for name, value in arg.items() if name != "__kwarg__"}
        else:
            found = salt.utils.args.parse_input([arg], condition=False)[1]
            if not found:
                positional.append(arg)
        for name, value in found.items():
            if takes_any or name in names:
                keywords[name] = value
            else:
                invalid.append(f"{name}={value}")
    if invalid:
        salt.utils.args.invalid_kwargs(invalid)
    if takes_any:
        keywords.update({f"__pub_{name}": value for name, value in load.items()})
    return positional, keywords
