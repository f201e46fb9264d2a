"""Makes what a master publishes repeatable: Python imports this by itself when its folder is in PYTHONPATH.

The key of publications and the vectors of their encryption are the same bytes always. And the file SALTBED_CALLS gets
the name of every function of the job handler that is called, in whichever process of Salt.
"""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path
from typing import Any

import salt.crypt


class FixedOs:
    """The module `os`, as `salt.crypt` sees it, without random numbers."""

    def __getattr__(self, name: str) -> Any:
        """Return what the module has."""
        return getattr(os, name)

    @staticmethod
    def urandom(size: int) -> bytes:
        """Return so many bytes, the same ones each time."""
        return bytes(range(size))


def noted(name: str, function: Any) -> Any:
    """Return the function, with a note of each call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with Path(os.environ["SALTBED_CALLS"]).open("a") as file:
            print(name, file=file)
        return function(*args, **kwargs)

    return call


salt.crypt.os = FixedOs()
for part in ("client", "config", "control", "handover", "store"):
    try:
        module = importlib.import_module(f"salt.job_handler.{part}")
    except ImportError:
        # stock Salt
        break
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__:
            setattr(module, name, noted(f"{part}.{name}", function))
