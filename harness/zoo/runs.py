"""Runs of the zoo: a bug on a release of Salt, or on one of our two trees."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.bed.settings import Tree, release
from harness.errors import HarnessError, SettingsError
from harness.paths import ROOT, TREES
from harness.scenarios import scenario, thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.zoo.bugs import Bug

# it imports Salt, which the harness itself does not
INSIDE = Path(__file__).with_name("inside.py")
# what a run may take
SECONDS = 300
BASE = "3008.5"
WRONG, RIGHT, ABSENT = "wrong", "right", "absent"


@dataclass(frozen=True)
class Outcome:
    """What a run found: `wrong`, `right`, or `absent` for a release that lacks the code, and the sentences about it."""

    state: str
    found: tuple[str, ...]
    seconds: float


def place(salt: str, environment: Mapping[str, str]) -> tuple[Tree, dict[str, str]]:
    """Return the tree of a release or of "patched", and the environment of its processes.

    The pristine tree is the base's release; another one is installed from the package index, once.
    """
    if salt == "patched":
        path = TREES["patched"]
    elif salt == BASE:
        path = TREES["stock"]
    elif salt.replace(".", "").isdecimal():
        path = release(ROOT, salt)
    else:
        raise SettingsError(f"{salt!r} is no Salt: give patched, or a release such as 3006.30.")
    tree = Tree(path)
    if not tree.found():
        raise SettingsError(f"{path} has no Salt: make both trees with `nox -s apply`.")
    return tree, tree.environment(environment)


def run(bug: Bug, salt: str, environment: Mapping[str, str]) -> Outcome:
    """Run a bug's check or scenario on a Salt. Raises HarnessError if that fails, which says nothing about the bug."""
    tree, own = place(salt, environment)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zoo-", ignore_cleanup_errors=True) as folder:
        found = _checked(bug.check, tree, own, folder) if bug.check else _loaded(bug, tree, own, folder)
    state = ABSENT if found is None else WRONG if found else RIGHT
    return Outcome(state, tuple(found or ()), round(time.monotonic() - begun, 1))


def _checked(check: Path, tree: Tree, environment: dict[str, str], folder: str) -> list[str] | None:
    """Run a check in the Python of a Salt."""
    paths = [path for path in (environment.get("PYTHONPATH"), str(ROOT)) if path]
    environment = {**environment, "PYTHONPATH": ":".join(paths)}
    # not with the folder of the script, whose names would hide others
    command = [tree.python(), "-P", str(INSIDE), str(check), folder]
    answer = json.loads(_output(command, environment, check.stem))
    imported = Path(answer["salt"])
    if not imported.is_relative_to(tree.path.absolute()):
        raise HarnessError(f"{check.stem} ran the Salt of {imported}; run `nox -s apply` and try again.")
    wrong: list[str] | None = answer["wrong"]
    return wrong


def _loaded(bug: Bug, tree: Tree, environment: dict[str, str], folder: str) -> list[str]:
    """Run a scenario on a tree; return the thresholds that it missed."""
    load = ["load", "--scenario", str(bug.path), "--tree", str(tree.path), "--folder", folder, "--json"]
    answer = json.loads(_output([sys.executable, "-m", "harness", *load], environment, bug.path.name))
    (result,) = answer["trees"].values()
    verdicts = thresholds.judge(scenario.load(bug.path).thresholds, {"patched": result})
    return [verdict.text for verdict in verdicts if not verdict.passed]


def _output(command: list[str], environment: dict[str, str], name: str) -> str:
    """Return what a command prints. Raises HarnessError if it fails or takes too long."""
    try:
        done: subprocess.CompletedProcess[Any] = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"{name} did not end within {SECONDS} seconds.") from None
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise HarnessError(f"{name} failed with exit code {done.returncode}:\n{done.stderr[-3000:]}")
    return str(done.stdout)
