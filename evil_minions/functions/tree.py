"""Made-up states: what a highstate returns in a fleet that does not run the master's own.

The first states are those of `data/states.json`, which a real minion can run too. Further ones, as many as are asked
for, are like those of real fleets, with Salt's comments, changes and diffs: so returns have realistic sizes.
"""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATES_FILE: Final = Path(__file__).parent.parent / "data" / "states.json"
_MODULES: Final = ("base", "users", "monitoring", "database", "webserver", "backup", "security", "app")
_WORDS: Final = ("access", "agent", "audit", "cache", "client", "exporter", "limits", "node", "proxy", "relay", "sync")
_LINES: Final = (6, 60)
_CHANGED: Final = 0.2


@dataclass(frozen=True, slots=True)
class State:
    """One state of the simulated tree; `dry` is its outcome with test=True, `milliseconds` what it takes on average."""

    identifier: str
    name: str
    function: str
    sls: str
    outcome: dict[str, Any]
    dry: dict[str, Any]
    milliseconds: float


def load_states(path: Path = STATES_FILE) -> tuple[State, ...]:
    """Read the states of a tree that is kept in a file."""
    return tuple(State(**entry) for entry in json.loads(path.read_text())["states"])


def make_states(count: int | None, seed: int = 1) -> tuple[State, ...]:
    """Return `count` states, the same for the same seed; those of the file alone if it is None."""
    states = load_states()
    if count is None:
        return states
    return tuple(itertools.islice(itertools.chain(states, _further(random.Random(seed))), count))  # noqa: S311 - no secret


def _further(rng: random.Random) -> Iterator[State]:
    """Return states without end, each under a name of its own."""
    for number in itertools.count(1):
        make, function, milliseconds = rng.choice(_KINDS)
        name = f"{rng.choice(_WORDS)}-{rng.choice(_WORDS)}-{number}"
        identifier = f"{name}-{function.partition('.')[0]}"
        changed = rng.random() < _CHANGED
        target, outcome, dry = make(name, rng, changed=changed)
        sls = _MODULES[number * len(_MODULES) // (number + 40) % len(_MODULES)]
        yield State(
            identifier, target, function, sls, outcome, dry, round(milliseconds * rng.lognormvariate(0, 0.5), 3)
        )


# the name of a state, its outcome, and that of its dry run
Made = tuple[str, dict[str, Any], dict[str, Any]]


def _outcomes(
    right: str, made: str, planned: str, changes: dict[str, Any], *, changed: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the outcome of a state and that of its dry run."""
    if not changed:
        same = {"changes": {}, "result": True, "comment": right}
        return same, same
    return (
        {"changes": changes, "result": True, "comment": made},
        {"changes": changes, "result": None, "comment": planned},
    )


def _package(name: str, rng: random.Random, *, changed: bool) -> Made:
    version = f"{rng.randint(0, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}-{rng.randint(1, 4)}+deb12u1"
    return name, *_outcomes(
        "All specified packages are already installed",
        f"The following packages were installed/updated: {name}",
        f"The following packages would be installed/updated: {name}",
        {name: {"new": version, "old": ""}},
        changed=changed,
    )


def _file(name: str, rng: random.Random, *, changed: bool) -> Made:
    """Return a file state, with a diff if it changed."""
    path = f"/etc/{name.partition('-')[0]}/{name}.conf"
    lines = [f"+{rng.choice(_WORDS)}_{number} = {rng.randint(1, 10**6)}" for number in range(rng.randint(*_LINES))]
    diff = "\n".join(["--- ", "+++ ", f"@@ -1,3 +1,{3 + len(lines)} @@", " # managed by salt", *lines, " # end", ""])
    return path, *_outcomes(
        f"File {path} is in the correct state",
        f"File {path} updated",
        f"The file {path} is set to be changed\nNote: No changes made, actual changes may\n"
        "be different due to other states.",
        {"diff": diff, "mode": "0644"},
        changed=changed,
    )


def _service(name: str, rng: random.Random, *, changed: bool) -> Made:  # noqa: ARG001 - as the others
    return name, *_outcomes(
        f"The service {name} is already running",
        f"Service {name} has been enabled, and is running",
        f"Service {name} is set to start",
        {name: True},
        changed=changed,
    )


def _user(name: str, rng: random.Random, *, changed: bool) -> Made:
    uid = rng.randint(1000, 60000)
    entry = {"name": name, "uid": uid, "gid": uid, "groups": [name], "home": f"/home/{name}", "shell": "/bin/bash"}
    return name, *_outcomes(
        f"User {name} is present and up to date",
        f"New user {name} created",
        f"User {name} set to be added",
        entry,
        changed=changed,
    )


def _command(name: str, rng: random.Random, *, changed: bool) -> Made:
    line = f"/usr/local/sbin/{name} --apply --quiet"
    ran = {
        "pid": rng.randint(1000, 30000),
        "retcode": 0,
        "stdout": f"{rng.randint(1, 99)} entries checked",
        "stderr": "",
    }
    return line, *_outcomes(
        "unless condition is true",
        f'Command "{line}" run',
        f'Command "{line}" would have been executed',
        ran,
        changed=changed,
    )


_KINDS: Final[list[tuple[Callable[..., Any], str, float]]] = [
    (_package, "pkg.installed", 30.0),
    (_file, "file.managed", 25.0),
    (_file, "file.managed", 25.0),
    (_service, "service.running", 40.0),
    (_user, "user.present", 8.0),
    (_command, "cmd.run", 15.0),
]
