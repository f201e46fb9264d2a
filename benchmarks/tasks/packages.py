"""Thirty packages with their locks, in a root of its own: a run of Salt's, and what the package manager alone needs.

Prints one JSON object: the seconds of each turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.client
import salt.config
import yaml

from harness.saltprocess.tasks import packages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMES = tuple(f"pb-n{number}" for number in range(10, 40))
GRAINS = {
    "apt": {},
    "dnf": {"os": "CentOS Stream", "os_family": "RedHat", "osrelease": "9", "osmajorrelease": 9, "osarch": "x86_64"},
    "zypper": {"os": "Leap", "os_family": "Suse", "osrelease": "15.6", "osmajorrelease": 15, "osarch": "x86_64"},
}
TRIES = 10
SLS = Path("/srv/salt/wanted.sls")
# refresh the lists, install, lock: what a person types for the same
ALONE: dict[str, tuple[Sequence[str], ...]] = {
    "apt": (
        ("apt-get", "-q", "update"),
        ("apt-get", "-q", "-y", "install", *(f"{name}=1.0" for name in NAMES)),
        ("apt-mark", "hold", *NAMES),
    ),
    "dnf": (
        ("dnf", "-q", "-y", "--refresh", "install", *(f"{name}-1.0" for name in NAMES)),
        ("dnf", "-q", "versionlock", "add", *NAMES),
    ),
    "zypper": (
        ("zypper", "-q", "-n", "refresh"),
        ("zypper", "-q", "-n", "install", *(f"{name}=1.0" for name in NAMES)),
        ("zypper", "-q", "-n", "addlock", *NAMES),
    ),
}
CLEAN = {
    "apt": f"apt-mark unhold {' '.join(NAMES)}; dpkg --purge {' '.join(NAMES)}; rm -f /etc/apt/preferences.d/00salt*",
    "dnf": "rm -f /var/lib/salt/*; : > /etc/dnf/plugins/versionlock.list",
    "zypper": "rm -f /var/lib/salt/* /etc/zypp/locks",
}
RPM = "rpm -qa --qf '%{NAME}\\n' 'pb-*' | xargs -r rpm -e"


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stdout}{done.stderr}")


def _timed(action: Callable[[int], object], changed: int) -> float:
    begin = time.perf_counter()
    action(changed)
    return time.perf_counter() - begin


def _clean(manager: str) -> None:
    """Bring the root back to where none of the packages is there, nor a lock."""
    script = CLEAN[manager] if manager == "apt" else f"{CLEAN[manager]}; {RPM}"
    subprocess.run(["sh", "-c", script], capture_output=True, check=False)
    # zypper fails if it reads rpm's database while that is still being written; whoever comes next finds a warm cache
    for _ in range(TRIES if manager == "zypper" else 0):
        if not subprocess.run(["zypper", "-q", "-n", "search", "pb-n10"], capture_output=True, check=False).returncode:
            break


def _alone(manager: str) -> None:
    for command in ALONE[manager]:
        _run(command)


def _apply(caller: Any, changed: int) -> None:
    """Apply the state and check that so many packages were changed."""
    found = caller.cmd("state.apply", "wanted")
    failed = [one["comment"] for one in found.values() if not one["result"]]
    count = sum(bool(one["changes"]) for name, one in found.items() if "package_states pb-" in name)
    if failed or count != changed:
        raise SystemExit(f"{count} packages were changed instead of {changed}: {failed[:3]}")


def main(manager: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of the first and second run, of Salt's and of the manager's alone, turn by turn."""
    Path("/etc/salt").mkdir(exist_ok=True)
    options = {"file_client": "local", "id": "root", "log_level": "error", "grains": GRAINS[manager]}
    Path("/etc/salt/minion").write_text(yaml.safe_dump(options))
    SLS.parent.mkdir(parents=True, exist_ok=True)
    SLS.write_text(packages.render([(name, "installed", "=1.0") for name in NAMES], manager))
    caller = salt.client.Caller(mopts=salt.config.minion_config("/etc/salt/minion"))
    caller.cmd("test.ping")
    found: dict[str, list[float]] = {"first": [], "second": [], "first_alone": [], "second_alone": []}
    # the first turn fills caches
    for turn in range(rounds + 1):
        turns: dict[str, Callable[[int], object]] = {
            "": lambda changed: _apply(caller, changed),
            "_alone": lambda _: _alone(manager),
        }
        for name in list(turns) if turn % 2 else list(turns)[::-1]:
            _clean(manager)
            for run, changed in (("first", len(NAMES)), ("second", 0)):
                seconds = _timed(turns[name], changed)
                if turn:
                    found[f"{run}{name}"].append(seconds)
    return found


if __name__ == "__main__":
    # what Salt and package managers print is no answer
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))), file=answers, flush=True)
