"""The bugs of the zoo, as the files in `harness/scenarios/zoo` describe them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evil_minions import read_table
from harness.errors import ScenarioError
from harness.scenarios import scenario

FOLDER = scenario.FOLDER / "zoo"
CHECKS = Path(__file__).with_name("checks")
ADDRESS = "https://github.com/saltstack/salt/issues"


@dataclass(frozen=True)
class Bug:
    """One bug: `NUMBER.toml`, which is a scenario, or a description, with a check `bug_NUMBER.py` in `CHECKS`."""

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
        path = CHECKS / f"bug_{self.number}.py"
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
        number=number,
        title=bug.take("title", str),
        counts=bug.take("counts", str),
        mended_in=bug.take("mended_in", str, ""),
        topic=bug.take("topic", str, ""),
        also=tuple(bug.texts("also", ())),
        path=path,
    )
    if found.check:
        table.allow("bug")
    else:
        scenario.load(path)
    return found
