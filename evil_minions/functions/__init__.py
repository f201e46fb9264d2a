"""Execution functions of simulated minions: one module for each of Salt's, one table for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from evil_minions.functions import cmd, cp, event, grains, machine, mine, network, pillar, saltutil, state, test

if TYPE_CHECKING:
    from evil_minions.functions.registry import Function

FUNCTIONS: Final[dict[str, Function]] = {
    **test.FUNCTIONS,
    **grains.FUNCTIONS,
    **pillar.FUNCTIONS,
    **cmd.FUNCTIONS,
    **state.FUNCTIONS,
    **saltutil.FUNCTIONS,
    **mine.FUNCTIONS,
    **event.FUNCTIONS,
    **cp.FUNCTIONS,
    **network.FUNCTIONS,
    **machine.FUNCTIONS,
}
