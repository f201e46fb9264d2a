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
    "submit": releases.run_submit,
    "export": releases.run_export,
    "bump": releases.run_bump,
    "drop": tree.run_drop,
    "keep": releases.run_keep,
    "wheels": releases.run_wheels,
}
# these leave the tree alone: they need not wait for a check that takes minutes
OWN_LOCKS = {"wheels": "wheels.lock"}
# these change nothing, and a test run may take minutes: what of theirs needs the lock takes it
UNLOCKED: dict[str, Command] = {
    "check": checks.run_check,
    "features": releases.run_features,
    "status": tree.run_status,
    "style": checks.run_style,
    "suite": checks.run_suite,
}
