"""Interfaces of modules on real minions: they change no result, and say what a platform lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from harness.bed import Bed, BedSettings
from tests.live.helpers.apt_root import AptRoot, roots

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

MODES = (False, True)
MINION = "door-{}"
# differ from run to run
MOMENTARY = {"start_time", "duration", "pid", "__run_num__"}
INIT = """#!/bin/sh
### BEGIN INIT INFO
# Provides: sb-daemon
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
### END INIT INFO
case $1 in
start) touch /run/sb-daemon ;;
stop) rm -f /run/sb-daemon ;;
status) test -e /run/sb-daemon || exit 3 ;;
esac
"""
UP: dict[str, Any] = {
    "sb-tool": {"pkg.installed": []},
    "sbgroup": {"group.present": [{"gid": 4711}]},
    "sbuser": {"user.present": [{"uid": 4711}, {"gid": 4711}, {"shell": "/bin/sh"}]},
    "sb-daemon": {"service.running": []},
}
DOWN: dict[str, Any] = {
    "sb-tool": {"pkg.purged": []},
    "sb-daemon": {"service.dead": []},
    "sbuser": {"user.absent": [{"purge": True}]},
    "sbgroup": {"group.absent": []},
}
DOOR = """
from salt.interfaces import Interface


class DoorInterface(Interface):
    __modulename__ = "door"

    def close(self, name):
        "Close"
        return {}

    @Interface.not_applicable(kernel=["Linux"])
    def knock(self, name):
        "Knock"
        return {"heard": False}

    @Interface.supported(os=["BeOS"])
    def salute(self, name):
        "Salute"
        return {}


__virtualname__ = DoorInterface(__name__)()


def __virtual__():
    return __virtualname__


def open(name):
    return name
"""


@pytest.fixture(scope="module")
def bed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a master with states."""
    folder = tmp_path_factory.mktemp("interfaces")
    states = folder / "states"
    states.mkdir()
    for name, content in (("up", UP), ("down", DOWN)):
        (states / f"{name}.sls").write_text(yaml.safe_dump(content, sort_keys=False))
    options = {"file_roots": {"base": [str(states)]}}
    wanted = BedSettings(
        tree=root / "salt", folder=folder, master_options=options, pillar="none", postgres="none", api=None
    )
    with Bed(wanted) as found:
        yield found


@pytest.fixture(scope="module")
def apt_root(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root with a service and a module that declares an interface."""
    for made in roots(root, tmp_path_factory):
        made.write("/etc/init.d/sb-daemon", INIT, 0o755)
        # with systemctl and without systemd, Salt leaves services alone
        made.run("rm", "-f", "/usr/bin/systemctl", "/bin/systemctl", "/usr/sbin/runlevel", "/sbin/runlevel")
        made.write("/usr/sbin/runlevel", "#!/bin/sh\necho N 2\n", 0o755)
        made.write("/srv/modules/modules/wooden_door.py", DOOR)
        yield made


def plain(value: object) -> object:
    """Return a result without what differs between any two runs."""
    if isinstance(value, dict):
        return {name: plain(child) for name, child in value.items() if name not in MOMENTARY}
    return [plain(child) for child in value] if isinstance(value, list) else value


def failed(states: dict[str, Any]) -> dict[str, Any]:
    """Return the comments of the states that did not succeed, or changed nothing."""
    return {
        name: state["comment"] for name, state in states.items() if not (state["result"] is True and state["changes"])
    }


def ask(bed: Bed, minion: str, *arguments: str) -> Any:
    """Return what a function returns to the master."""
    done = bed.salt([minion, *arguments, "--out=json", "--timeout=60"])
    return json.loads(done.stdout)[minion]


@pytest.mark.long
@pytest.mark.needs_root
def test_results_are_the_same(bed: Bed, apt_root: AptRoot) -> None:
    """A real minion lists packages and services and applies states alike, with and without interfaces."""
    found: dict[bool, list[object]] = {}
    doors: dict[bool, list[object]] = {}
    for mode in MODES:
        name = MINION.format(str(mode).lower())
        minion = apt_root.start_minion(name, bed.master, smi=mode, module_dirs=["/srv/modules"])
        try:
            minion.wait_ready()
            results = [
                ask(bed, name, *what)
                for what in (
                    ("pkg.list_pkgs",),
                    ("service.get_all",),
                    ("state.apply", "up"),
                    ("pkg.version", "sb-tool"),
                    ("service.status", "sb-daemon"),
                    ("user.info", "sbuser"),
                    ("group.info", "sbgroup"),
                    ("state.apply", "down"),
                )
            ]
            doors[mode] = [ask(bed, name, f"door.{one}", "front") for one in ("open", "close", "salute", "knock")]
        finally:
            minion.stop()
        # its interface doesn't have `open`, and each job says so once; Salt's own modules are called without a warning
        warned = [line for line in minion.log.splitlines() if "is deprecated" in line]
        assert len(warned) == mode
        assert all("'door.open'" in line for line in warned)
        found[mode] = [plain(one) for one in results]
        for states in (results[2], results[7]):
            assert len(states) == len(UP)
            assert not failed(states)
    assert found[False][3] == "2.0"
    assert found[True] == found[False]
    assert doors[False] == ["front", *(f"'door.{one}' is not available." for one in ("close", "salute", "knock"))]
    assert doors[True] == [
        "front",
        "'door.close' is not implemented by wooden_door.",
        "'door.salute' is not supported by wooden_door on this platform.",
        {"heard": False},
    ]


@pytest.mark.long
@pytest.mark.needs_root
def test_results_are_the_same_without_a_master(apt_root: AptRoot) -> None:
    """Salt without a master lists and applies alike, with and without interfaces."""
    for name, content in (("up", UP), ("down", DOWN)):
        apt_root.write(f"/srv/salt/{name}.sls", yaml.safe_dump(content, sort_keys=False))
    found = {}
    for mode in MODES:
        asked = [("pkg.list_pkgs",), ("service.get_all",), ("state.apply", "up"), ("pkg.version", "sb-tool")]
        asked += [("user.info", "sbuser"), ("group.info", "sbgroup"), ("state.apply", "down")]
        results = []
        for what in asked:
            # a process for each, as a minion does: what one learned of the packages is no news for the next
            with apt_root.caller(smi=mode) as salt:
                results.append(salt.cmd(*what))
        for states in (results[2], results[6]):
            assert len(states) == len(UP)
            assert not failed(states)
        found[mode] = [plain(one) for one in results]
    assert found[True] == found[False]


@pytest.mark.long
@pytest.mark.needs_root
def test_a_missing_function_fails_the_job(apt_root: AptRoot, root: Path) -> None:
    """The exit code of salt-call is as on stock Salt for what is missing, and 0 for what is not applicable."""
    call = [str(root / "build/venv/bin/python"), str(root / "build/venv/bin/salt-call"), "--local", "--out=json"]
    for mode, said in ((False, "is not available"), (True, "is not implemented by wooden_door")):
        options = {"file_client": "local", "smi": mode, "module_dirs": ["/srv/modules"], "id": "door"}
        apt_root.write("/etc/salt/minion", yaml.safe_dump(options))
        lacks = apt_root.run(*call, "door.close", "front", check=False)
        # the exit code that stock Salt has for a missing function
        assert lacks.returncode == 255
        assert said in lacks.stderr + lacks.stdout
    assert json.loads(apt_root.run(*call, "door.knock", "front").stdout) == {"local": {"heard": False}}


@pytest.mark.long
@pytest.mark.needs_root
def test_a_proxy_works(apt_root: AptRoot, root: Path) -> None:
    """A dummy proxy minion, whose modules declare no interface, works as without interfaces."""
    apt_root.write("/srv/pillar/top.sls", "base:\n  '*':\n    - dummy\n")
    apt_root.write("/srv/pillar/dummy.sls", "proxy:\n  proxytype: dummy\n")
    options = {
        "file_client": "local",
        "smi": True,
        "pillar_roots": {"base": ["/srv/pillar"]},
        "log_level": "error",
    }
    for name in ("minion", "proxy"):
        apt_root.write(f"/etc/salt/{name}", yaml.safe_dump(options))
    call = [str(root / "build/venv/bin/python"), str(root / "build/venv/bin/salt-call"), "--local", "--out=json"]

    def ask_proxy(*arguments: str) -> Any:
        """Return what a function of the proxy returns."""
        return json.loads(apt_root.run(*call, "--proxyid=dummy", *arguments).stdout)["local"]

    assert set(ask_proxy("pkg.list_pkgs")) == {"apache", "coreutils", "redbull", "tinc"}
    assert set(ask_proxy("service.list")) == {"apache", "ntp", "samba"}
    lacks = apt_root.run(*call, "--proxyid=dummy", "pkg.hold", "x", check=False)
    # the message is followed by a traceback on stock Salt too: its SProxyMinion has no function_errors
    assert lacks.returncode == 1
    assert "'pkg.hold' is not available" in lacks.stderr + lacks.stdout


@pytest.mark.long
def test_the_thin_tarball_has_them(root: Path, tmp_path: Path) -> None:
    """What salt-ssh sends to a machine applies interfaces there, with the Salt of the tarball."""
    make = "import sys, salt.utils.thin; print(salt.utils.thin.gen_thin(sys.argv[1]))"
    paths = {**os.environ, "PYTHONPATH": str(root / "salt")}
    argv = [sys.executable, "-c", make, str(tmp_path / "cache")]
    made = subprocess.run(argv, env=paths, capture_output=True, text=True, timeout=300, check=True)
    thin = tmp_path / "thin"
    with tarfile.open(made.stdout.splitlines()[-1]) as tarball:
        # Pythons that have filters warn without one, and Debian 12's has none
        tarball.extraction_filter = getattr(tarfile, "data_filter", None)
        tarball.extractall(thin)  # noqa: S202 - made above
    modules = tmp_path / "modules" / "modules"
    modules.mkdir(parents=True)
    (modules / "wooden_door.py").write_text(DOOR)
    (modules / "where.py").write_text("import salt.interfaces\n\ndef file():\n    return salt.interfaces.__file__\n")
    (tmp_path / "etc").mkdir()
    options = {"smi": True, "root_dir": str(tmp_path), "id": "thin", "module_dirs": [str(modules.parent)]}
    (tmp_path / "etc" / "minion").write_text(yaml.safe_dump({"file_client": "local", **options}))
    call = [sys.executable, str(thin / "salt-call"), "--local", "--out=json", "-c", str(tmp_path / "etc")]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the tarball's salt-call."""
        return subprocess.run([*call, *arguments], capture_output=True, text=True, timeout=120, check=False)

    assert Path(json.loads(run("where.file").stdout)["local"]).is_relative_to(thin)
    assert json.loads(run("door.open", "front").stdout) == {"local": "front"}
    lacks = run("door.close", "front")
    assert lacks.returncode == 255
    assert "is not implemented by wooden_door" in lacks.stderr + lacks.stdout
