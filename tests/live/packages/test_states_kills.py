"""Runs of package states that are killed at any moment: the next run ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.saltprocess.process import SaltProcess
from tests.live.helpers.applied_states import COMPILER, TASKS
from tests.live.helpers.apt_root import AptRoot, Caller, roots
from tests.live.helpers.rpm_root import NOTES, RpmRoot, rpm_root
from tests.live.packages.test_states_rpm import Rpms

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(3000)]
MOMENTS = int(os.environ.get("SALTBED_MOMENTS", "60"))
KERNEL = "rpm -i /srv/rpms/noarch/sb-kernel-1.0-1.noarch.rpm"
SLS = "susemanager.packages-web"
Entries = list[tuple[str, str, str]]


def _wanted(manager: str, version: str) -> Entries:
    """Return what is wanted in turn: the old versions with some packages, or the new ones without them."""
    names = ["sb-tool", "sb-app", "sb-lib"]
    if manager != "apt":
        names += [f"sb-c{number}" for number in range(10, 40)]
        # beside an older one
        kernels = [("sb-kernel", "latest", "")]
    else:
        kernels = []
    there = "installed" if version == "1.0" else "removed"
    entries = [(name, "installed", f"={version}") for name in names]
    entries += [(f"sb-n{number}", there, "") for number in range(10, 30)]
    return [*entries, *kernels, ("sb-unwanted", "removed" if there == "installed" else "installed", "")]


@pytest.fixture(params=["apt", "dnf", "zypper"])
def manager(request: pytest.FixtureRequest) -> str:
    """Return the name of a manager."""
    return str(request.param)


@pytest.fixture
def machine(manager: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root."""
    if manager == "apt":
        yield from roots(root, tmp_path_factory)
    else:
        with rpm_root(root, tmp_path_factory) as made:
            yield made


def _salt(machine: AptRoot, manager: str) -> Caller:
    return machine.caller_for(manager) if isinstance(machine, RpmRoot) else machine.caller()


def _below(pid: int) -> list[int]:
    """Return a process and all below it, the process first."""
    found = [pid]
    for place in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(one) for one in place.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += _below(child)
    return found


def _kill(salt: Caller, victim: str) -> None:
    """Kill the minion alone, what it has started, or both."""
    # nsenter is the parent of Salt in the root
    mine = _below(salt.pid)[1:]
    for pid in {"minion": mine[:1], "manager": mine[1:], "both": mine}[victim]:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


def _check(machine: AptRoot, manager: str, entries: Entries) -> None:
    """Check that everything is as it should be, the databases and the locks as well."""
    there = {name.partition(":")[0]: version for name, version in machine.installed().items()}
    right = {
        name: condition.removeprefix("=") or {"sb-unwanted": "2.0"}.get(name, "1.0")
        for name, wanted, condition in entries
        if wanted == "installed"
    }
    if manager != "apt":
        assert sorted(there.pop("sb-kernel").split()) == ["1.0-1", "2.0-1"]
    assert {name: version.removesuffix("-1") for name, version in there.items()} == right
    assert machine.read(NOTES) == ""
    if manager == "apt":
        assert machine.run("dpkg", "--audit").stdout == ""
        machine.run("apt-get", "check")
        pins = machine.read("/etc/apt/preferences.d/00salt-package-states")
        assert pins.count("\nPackage: ") == len(entries)
        return
    machine.run("rpmdb", "--verifydb")
    with SaltProcess("patched", COMPILER, {}, TASKS) as compiler:
        locks, mine = Rpms(machine, None, compiler, manager).owners()  # type: ignore[arg-type] # no Salt
    assert locks == mine
    assert len(locks) == len([name for name, wanted, _ in entries if wanted != "latest"])


def test_a_run_that_is_killed(machine: AptRoot, manager: str) -> None:
    """Whatever is killed, and when: the next run does the rest, and the one after it finds nothing to do."""
    seed = int(os.environ.get("SALTBED_SEED", "0")) or random.SystemRandom().randrange(10**6)
    rng = random.Random(seed)  # noqa: S311 - a test's
    print("SALTBED_SEED", seed)
    recovered = 0
    with SaltProcess("patched", COMPILER, {}, TASKS) as compiler:
        texts = {version: compiler.run("render", _wanted(manager, version))[1] for version in ("1.0", "2.0")}
    lasts = 0.0
    for moment in range(MOMENTS + 1):
        version = ("2.0", "1.0")[moment % 2]
        machine.write("/srv/salt/susemanager/packages-web.sls", texts[version])
        victim = rng.choice(("minion", "manager", "both"))
        if manager != "apt":
            machine.run("sh", "-c", "rpm -q sb-kernel-2.0 && rpm -e sb-kernel-2.0 || rpm -q sb-kernel || " + KERNEL)
        with _salt(machine, manager) as salt:
            salt.cmd("test.ping")
            begin = time.monotonic()
            if moment == 0:
                assert all(one["result"] for one in salt.cmd("state.apply", SLS).values())
                lasts = time.monotonic() - begin
                continue
            salt.send("state.apply", SLS)
            # not a wait for anything: the moment of the kill
            time.sleep(rng.uniform(0, lasts))
            print(moment, victim, round(time.monotonic() - begin, 2), "of", round(lasts, 2))
            _kill(salt, victim)
            if victim == "manager":
                # the minion goes on: what it tells may be a failure
                salt.receive()
        with _salt(machine, manager) as salt:
            found = salt.cmd("state.apply", SLS)
            assert isinstance(found, dict), found
            failed = {name: one["comment"] for name, one in found.items() if not one["result"]}
            assert failed == {}, (moment, victim)
            recovered += any("ended too early" in one["comment"] for one in found.values())
            again = salt.cmd("state.apply", SLS)
            assert {name: one["changes"] for name, one in again.items() if one["changes"]} == {}
        _check(machine, manager, _wanted(manager, version))
    print(json.dumps({"moments": MOMENTS, "recognised": recovered}))
    assert recovered or MOMENTS < 10
