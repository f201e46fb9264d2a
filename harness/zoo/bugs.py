"""The bugs of the zoo, as the files in `harness/scenarios/zoo` describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evil_minions import read_table
from harness.errors import ScenarioError
from harness.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = scenario.FOLDER / "zoo"
ADDRESS = "https://github.com/saltstack/salt/issues"


@dataclass(frozen=True)
class Bug:
    """One bug: `NUMBER.toml`, which is a scenario, or a description with the check `bug_NUMBER.py` beside it."""

    # of the issue of Salt
    number: str
    # what goes wrong
    title: str
    # what the check counts
    counts: str
    # the releases of Salt that mend it, in words; "" if none does
    mended_in: str
    # our topic that mends it, "" if none does
    topic: str
    # other releases than the usual ones that it is run on
    also: tuple[str, ...]
    path: Path

    @property
    def check(self) -> Path | None:
        """Return the file of its check, None for a scenario."""
        path = self.path.with_name(f"bug_{self.number}.py")
        return path if path.exists() else None


def numbers() -> list[str]:
    """Return the numbers of all bugs."""
    return sorted((path.stem for path in FOLDER.glob("*.toml")), key=int)


def load(number: str) -> Bug:
    """Return a bug. Raises ScenarioError if there is none of that number, or its file is not understood."""
    path = FOLDER / f"{number}.toml"
    if not path.is_file():
        raise ScenarioError(f"The zoo has no bug {number}: give one of {', '.join(numbers())}.")
    table = read_table(path, path.name, ScenarioError)
    bug = table.table("bug").allow("title", "counts", "mended_in", "topic", "also")
    found = Bug(
        number,
        bug.take("title", str),
        bug.take("counts", str),
        bug.take("mended_in", str, ""),
        bug.take("topic", str, ""),
        tuple(bug.texts("also", ())),
        path,
    )
    if found.check:
        table.allow("bug")
    else:
        scenario.load(path)
    return found
