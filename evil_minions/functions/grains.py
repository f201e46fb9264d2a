"""The module `grains`: Salt's own functions on the grains of a simulated minion."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import salt.modules.grains

from evil_minions.functions.call import CURRENT
from evil_minions.functions.registry import Function

if TYPE_CHECKING:
    from collections.abc import Callable


def _on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with the grains of the current minion, as Salt's loader would inject them."""

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> object:
        salt.modules.grains.__grains__ = CURRENT.get().host.grains()
        return function(*args, **keywords)

    return call


FUNCTIONS: Final = {
    "grains.items": Function(_on_host(salt.modules.grains.items), "salt.modules.grains:items", "nested"),
    "grains.item": Function(_on_host(salt.modules.grains.item), "salt.modules.grains:item", "nested"),
    "grains.get": Function(_on_host(salt.modules.grains.get), "salt.modules.grains:get"),
    "grains.ls": Function(_on_host(salt.modules.grains.ls), "salt.modules.grains:ls"),
}
