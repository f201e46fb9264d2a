"""Key states: minions whose keys wait, are rejected or are denied by the master.

The master decides about keys. With `auto_accept: False` it reads `autosign_file` and `autoreject_file`, which are
written into the fleet's folder. A denied key is that of a machine which was reinstalled under an id that the master
knows already: such a minion signs in, loses its key, and comes back with another one.

A master with `autosign_grains_dir` accepts those who know what is in a file there.
Source: AuthFuncs in salt/master.py and AutoKey in salt/daemons/masterapi.py of Salt 3008.5.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from evil_minions.assignments import assign, assignment_of, check
from evil_minions.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from evil_minions.assignments import Assignment
    from evil_minions.fleet.settings import FleetSettings

PENDING, REJECTED, DENIED, ACCEPTED = "pending", "rejected", "denied", "accepted"
STATES: Final = (ACCEPTED, PENDING, DENIED, REJECTED)
AUTOSIGN: Final = "autosign.txt"
AUTOREJECT: Final = "autoreject.txt"


def parts_of(text: str) -> tuple[Assignment, ...]:
    """Return the shares in a text such as `pending=10%,denied=5%`.

    Raises:
        UsageError: if it is something else.

    """
    found = tuple(assignment_of(word.strip(), "--keys") for word in text.split(","))
    for each in found:
        if each.name not in STATES:
            raise UsageError(f"--keys {each.name} is no state of a key: there are {', '.join(STATES)}.")
    check(found, "--keys")
    return found


def states(settings: FleetSettings) -> dict[int, str]:
    """Return the states of the keys of a worker's minions by their numbers, without those that are accepted."""
    found = assign(settings.shares.keys, settings.size.numbers, range(*settings.whole), settings.seed, "keys")
    return {number: state for number, state in found.items() if state != ACCEPTED}


def grains(file: Path) -> dict[str, str]:
    """Return the grain that a file of the master's `autosign_grains_dir` is about, with a value that it accepts.

    Raises:
        UsageError: if there is none.

    """
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The file of --autosign can't be read: {error}; give another one.") from error
    values = [line for line in lines if line and not line.startswith("#")]
    if not values:
        raise UsageError(f"{file} has no line with a value: give --autosign a file of the master's.")
    return {file.name: values[0]}


def write(settings: FleetSettings) -> None:
    """Write the files that the master needs into the fleet's folder.

    Raises:
        OSError: if that can't be done.

    """
    by_state: dict[str, list[str]] = {}
    for number, state in states(settings).items():
        by_state.setdefault(state, []).append(re.escape(settings.size.id_format.format(number)))
    # one expression for all, as the master tries line after line for each sign-in
    wait = "|".join([*by_state.get(PENDING, []), *by_state.get(REJECTED, [])])
    reject = "|".join(by_state.get(REJECTED, []))
    # written whole: the master may read them at any time
    for name, line in ((AUTOSIGN, f"(?!(?:{wait})$).*" if wait else ".*"), (AUTOREJECT, f"(?:{reject})")):
        draft = settings.folder / f".{name}"
        draft.write_text(f"{line}\n" if line != "(?:)" else "")
        draft.chmod(0o644)
        draft.replace(settings.folder / name)
