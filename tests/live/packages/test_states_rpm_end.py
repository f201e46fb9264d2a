"""Package states as their page says, with a real master, PostgreSQL, and a real minion in a root with dnf or zypper."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.bed import Bed, BedSettings
from harness.database import sources
from harness.processes.deadline import Deadline, until
from tests.live.helpers.rpm_root import GRAINS, LOCKS, RpmRoot, rpm_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(900)]
NAME = "web1"


@pytest.fixture(scope="module")
def machine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpmRoot]:
    """Yield a root."""
    with rpm_root(root, tmp_path_factory) as made:
        yield made


class Commands:
    """What a person types."""

    def __init__(self, bed: Bed) -> None:
        """Take the master."""
        self._bed = bed

    def typed(self, command: str, *arguments: str) -> Any:
        """Return what a command of Salt answers, and why it failed if it did."""
        done = self._bed.run(command, [*arguments, "--out=json", "--out-indent=-1"])
        assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def states(self, function: str, *arguments: str) -> Any:
        """Call a function of the runner."""
        return self.typed("salt-run", f"package_states.{function}", *arguments)

    def minion(self, function: str, *arguments: str) -> Any:
        """Call a function of the minion."""
        return self.typed("salt", NAME, function, *arguments, "--static", "--timeout=180")[NAME]

    def apply(self) -> dict[str, Any]:
        """Apply what is wanted, and return the changes that there were."""
        found = self.minion("state.apply", "susemanager.packages")
        assert all(state["result"] for state in found.values()), found
        return {name.split("_|-")[1]: state["changes"] for name, state in found.items() if state["changes"]}


@pytest.mark.parametrize("manager", GRAINS)
def test_first_steps(machine: RpmRoot, tmp_path: Path, manager: str) -> None:
    """Set up, save, apply, see, repair what was changed past Salt, and turn it off: nothing of it is left."""
    machine.begin()
    # the other minion had another master
    machine.run("rm", "-rf", "/etc/salt/pki", "/var/cache/salt")
    with sources.served(tmp_path) as server:
        sources.make(server, "states")
        files = tmp_path / "srv"
        files.mkdir()
        settings = BedSettings(
            tree=machine.project / "salt",
            folder=tmp_path / "bed",
            master_options={
                "package_states": {"postgres": server.salt_options() | {"db": "states"}},
                "nodegroups": {"Webservers": f"L@{NAME}"},
                "engines": [{"pkgset": {"window": 1, "rest": 1}}, {"package_states": {}}],
                "file_roots": {"base": [str(files)]},
            },
            pillar="none",
            postgres="none",
            api=None,
        )
        with Bed(settings) as bed:
            beacons = {"pkgset": [{"interval": 2}]}
            minion = machine.start_minion(NAME, bed.master, grains=GRAINS[manager], beacons=beacons)
            minion.wait_ready()
            try:
                _walk(Commands(bed), machine, manager)
            finally:
                minion.stop()


def _walk(do: Commands, machine: RpmRoot, manager: str) -> None:
    do.states("setup")
    assert do.minion("pkgset.install_plugin")["written"]
    do.states("set", "web")
    do.states("set", "web", "sb-tool", "installed", ">=1.2,<2.0~~", "comment=as tested")
    do.states("assign", "web", "group", "Webservers", "priority=10")
    assert do.states("dry_run", NAME)["sb-tool"]["version"] == "1.10-1"
    assert set(do.apply()) == {"package_states locks", "package_states sb-tool"}
    assert do.apply() == {}
    assert do.states("refresh", NAME)["consistent"] is True
    assert f"\n{NAME} is consistent.\n" in do.states("status", NAME)
    assert do.states("status", NAME, "table=False")["current"] is True
    (row,) = do.states("available", "sb-to*", f"minion={NAME}")["packages"]
    assert row["versions"] == ["2.0-1", "2.0~rc1-1", "1.10-1", "1.2-1", "1.0-1"]
    assert "sb-tool" in machine.read(LOCKS[manager])
    do.states("set", NAME, "sb-unwanted", "absent")
    assert set(do.apply()) == {"package_states locks"}
    tool = ("dnf", "-y") if manager == "dnf" else ("zypper", "-n")
    machine.run(*tool, "install", "sb-unwanted", check=False)
    assert set(machine.installed()) == {"sb-tool"}
    # past the locks, and the hook of the package manager tells
    machine.run("rpm", "-e", "sb-tool")
    # zypper fails while another one reads the database, as for the inventory of the minion
    install = (*tool, "install", "sb-n10")
    until(lambda: not machine.run(*install, check=False).returncode, Deadline(60), lambda: "sb-n10 can't be installed")
    until(
        lambda: not do.states("status", NAME, "table=False")["consistent"],
        Deadline(90),
        lambda: f"nobody noticed:\n{minion_log(machine)}",
    )
    assert set(do.apply()) == {"package_states sb-tool"}
    do.states("unassign", "web", "group", "Webservers")
    do.states("restore", NAME, "0", "comment=the end of package states")
    assert set(do.apply()) == {"package_states locks"}
    assert "sb-" not in machine.read(LOCKS[manager])
    assert do.minion("pkgset.remove_plugin")


def minion_log(machine: RpmRoot) -> str:
    """Return the end of what the minion has logged."""
    return machine.read("/var/log/salt/minion")[-2000:]
