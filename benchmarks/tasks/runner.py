"""Calls functions of runners, with the modules loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import salt.config
import salt.loader

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return what calls a function by its name."""
    opts = {**salt.config.master_config(None), **settings}
    runner = salt.loader.runner(opts, context={})

    def call(name: str, arguments: dict[str, Any]) -> Any:
        """Return the result of one call."""
        return runner[name](**arguments)

    return call
