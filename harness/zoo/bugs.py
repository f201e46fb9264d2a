"""The bugs of the zoo, as the files in `harness/scenarios/zoo` describe them, and runs of their checks."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evil_minions import read_table
from harness.bed.settings import Tree, release
from harness.errors import HarnessError, ScenarioError, SettingsError
from harness.paths import ROOT, TREES
from harness.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = scenario.FOLDER / "zoo"
# it imports Salt, which the harness itself does not
CHECKS = Path(__file__).with_name("checks.py")
ADDRESS = "https://github.com/saltstack/salt/issues"
# what a run may take
SECONDS = 300
BASE = "3008.5"
WRONG, RIGHT, ABSENT = "wrong", "right", "absent"


@dataclass(frozen=True)
class Bug:
    """One bug: the table `[bug]` of `NUMBER.toml`, whose check is `bug_NUMBER` in `CHECKS`."""

    # of the issue of Salt
    number: str
    # what goes wrong
    title: str
    # what the check counts
    counts: str
    # the releases of Salt that mend it, in words; "" if none does
    mended_in: str = ""
    # our topic that mends it, "" if none does
    topic: str = ""
    # other releases than the usual ones that it is run on
    also: tuple[str, ...] = ()


def numbers() -> list[str]:
    """Return the numbers of all bugs."""
    return sorted((path.stem for path in FOLDER.glob("*.toml")), key=int)


def load(number: str) -> Bug:
    """Return a bug. Raises ScenarioError if there is none of that number, or its file is not understood."""
    path = FOLDER / f"{number}.toml"
    if not path.is_file():
        raise ScenarioError(f"The zoo has no bug {number}: give one of {', '.join(numbers())}.")
    table = read_table(path, path.name, ScenarioError).allow("bug")
    bug = table.table("bug").allow("title", "counts", "mended_in", "topic", "also")
    return Bug(
        number=number,
        title=bug.take("title", str),
        counts=bug.take("counts", str),
        mended_in=bug.take("mended_in", str, ""),
        topic=bug.take("topic", str, ""),
        also=tuple(bug.texts("also", ())),
    )


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
    """Run a bug's check in the Python of a Salt.

    Raises HarnessError if the check fails, which says nothing about the bug.
    """
    tree, own = place(salt, environment)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zoo-", ignore_cleanup_errors=True) as folder:
        # not with the folder of the script, whose names would hide others
        command = [tree.python(), "-P", str(CHECKS), bug.number, folder]
        try:
            done = subprocess.run(
                command, env=own, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise HarnessError(f"The check of {bug.number} did not end within {SECONDS} seconds.") from None
    if done.returncode or not done.stdout.strip():
        raise HarnessError(f"The check of {bug.number} failed with exit code {done.returncode}:\n{done.stderr[-3000:]}")
    answer = json.loads(done.stdout)
    imported = Path(answer["salt"])
    if not imported.is_relative_to(tree.path.absolute()):
        raise HarnessError(f"The check of {bug.number} ran the Salt of {imported}; run `nox -s apply` and try again.")
    wrong: list[str] | None = answer["wrong"]
    state = ABSENT if wrong is None else WRONG if wrong else RIGHT
    return Outcome(state, tuple(wrong or ()), round(time.monotonic() - begun, 1))
