"""All commands by name, and what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patches.commands import checks, releases, tree

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from patches.commands.result import CommandResult
    from patches.repository import Repository

    Command = Callable[[Repository, argparse.Namespace], CommandResult]

LOCKED: dict[str, Command] = {
    "apply": tree.run_apply,
    "save": tree.run_save,
    "check": checks.run_check,
    "submit": releases.run_submit,
    "export": releases.run_export,
    "bump": releases.run_bump,
    "drop": tree.run_drop,
    "keep": releases.run_keep,
    "features": releases.run_features,
    "wheels": releases.run_wheels,
}
# these leave the tree alone: they need not wait for a check that takes minutes
OWN_LOCKS = {"wheels": "wheels.lock"}
# these change nothing, and a test run may take minutes
UNLOCKED: dict[str, Command] = {
    "status": tree.run_status,
    "style": checks.run_style,
    "suite": checks.run_suite,
}
