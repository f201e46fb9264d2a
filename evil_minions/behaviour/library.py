"""The behaviours that come with the package, and those in a user's files."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

from evil_minions.behaviour.behaviour import Behaviour, behaviour_of
from evil_minions.behaviour.sequel import SWITCH
from evil_minions.errors import UsageError
from evil_minions.tables import read_table

FOLDER: Final = Path(__file__).parent.parent / "data" / "behaviours"
_SUFFIX: Final = ".toml"


def names() -> list[str]:
    """Return the names of the presets."""
    return sorted(path.stem for path in FOLDER.glob(f"*{_SUFFIX}"))


def find(name: str | Path, beside: Path = FOLDER) -> Path:
    """Return the file of a preset by its name, or of a user's file by its path, which ends in `.toml`.

    A relative path is looked for in the folder `beside`.

    Raises:
        UsageError: if there is none.

    """
    text = str(name)
    path = beside / text if text.endswith(_SUFFIX) else FOLDER / f"{text}{_SUFFIX}"
    if not path.is_file():
        near = difflib.get_close_matches(text, names(), n=1)
        hint = f"the nearest preset is {near[0]}" if near else "`python -m evil_minions behaviours` lists all presets"
        raise UsageError(f"There is no behaviour {text}: {hint}.")
    return path


def load(name: str | Path, beside: Path | None = None) -> Behaviour:
    """Return a behaviour by name or path, after a look at those that it switches to.

    Raises:
        UsageError: if it can't be read.

    """
    return next(iter(family(name, beside).values()))


def family(name: str | Path, beside: Path | None = None) -> dict[Path, Behaviour]:
    """Return a behaviour and all that it may switch to by their files, the first one first.

    Raises:
        UsageError: if one of them can't be read.

    """
    waiting = [find(name, beside or Path.cwd())]
    found: dict[Path, Behaviour] = {}
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        behaviour = behaviour_of(read_table(path), path.stem)
        found[path] = behaviour
        for rule in (*behaviour.rules, *behaviour.timers):
            if rule.sequel.kind == SWITCH:
                try:
                    waiting.append(find(rule.sequel.behaviour, path.parent))
                except UsageError as error:
                    raise UsageError(f"{path}: the rule {rule.name!r} can't go on. {error}") from error
    return found
