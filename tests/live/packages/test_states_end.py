"""Package states from end to end: PostgreSQL, a real master, and a real minion in a Debian root.

With the patched Salt, and with releases as others have them, on which nothing but the extensions' wheels is installed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from harness.bed import Bed, BedSettings
from harness.database import sources
from harness.processes.deadline import Deadline, until
from tests.live.helpers import salt_release
from tests.live.helpers.apt_root import roots
from tests.live.helpers.salt_release import RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.helpers.apt_root import AptRoot

pytestmark = [pytest.mark.live, pytest.mark.needs_root]
NAME = "web1.example.com"
PATCHED = "patched"


@dataclass(frozen=True)
class Salt:
    """A Salt: its tree or environment, and its Python."""

    name: str
    tree: Path
    python: str


@pytest.fixture(scope="module")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build the extensions."""
    return salt_release.wheels(root, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(params=[PATCHED, *RELEASES])
def salt(
    request: pytest.FixtureRequest, root: Path, wheels: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Salt:
    """Return a Salt with the extensions."""
    if request.param == PATCHED:
        return Salt(PATCHED, root / "salt", sys.executable)
    base = salt_release.release(root, request.param)
    made = salt_release.with_extensions(base, tmp_path_factory.mktemp(request.param) / "salt", wheels)
    return Salt(request.param, made, str(made / "bin" / "python"))


@pytest.fixture
def apt_root(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root."""
    yield from roots(root, tmp_path_factory)


def _answer(bed: Bed, command: str, *arguments: str) -> Any:
    """Return what a command of Salt answers, and why it failed if it did."""
    done = bed.run(command, [*arguments, "--out=json", "--out-indent=-1"])
    assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def test_from_a_saved_state_to_a_repaired_minion(salt: Salt, tmp_path: Path, apt_root: AptRoot) -> None:
    """Save, highstate, hear of a removal behind Salt's back, repair it; import it all: nothing changes."""
    with sources.served(tmp_path) as server:
        sources.make(server, "states")
        files = tmp_path / "srv"
        files.mkdir()
        (files / "top.sls").write_text("base: {'*': [susemanager.packages]}\n")
        settings = BedSettings(
            tree=salt.tree,
            folder=tmp_path / "bed",
            master_options={
                "postgres": server.salt_options() | {"db": "states"},
                "package_states": {},
                "nodegroups": {"front": f"L@{NAME}"},
                "engines": [{"pkgset": {"window": 1, "rest": 1}}, {"package_states": {"sweep": 5}}],
                "file_roots": {"base": [str(files)]},
            },
            pillar="none",
            postgres="none",
            api=None,
        )
        with Bed(settings) as bed:
            # a list: stock can't take the configuration of a beacon as a dictionary
            beacons = {"pkgset": [{"interval": 2}]}
            minion = apt_root.start_minion(NAME, bed.master, python=salt.python, beacons=beacons)
            minion.wait_ready()
            try:
                _walk(bed, apt_root, files, patched=salt.name == PATCHED)
                _groups(bed, files)
                _functions(bed, apt_root, tmp_path / "front.yaml")
            finally:
                minion.stop()


def _walk(bed: Bed, apt_root: AptRoot, files: Path, *, patched: bool) -> None:
    def states(function: str, *arguments: str) -> Any:
        return _answer(bed, "salt-run", f"package_states.{function}", *arguments)

    def highstate() -> dict[str, Any]:
        found = _answer(bed, "salt", NAME, "state.highstate", "--static", "--timeout=120")[NAME]
        assert all(state["result"] for state in found.values()), found
        return {name.split("_|-")[1]: state["changes"] for name, state in found.items() if state["changes"]}

    states("setup")
    states("set", "front")
    for arguments in (["show", "front", "revision=7"], ["set", "front", "{{ x }}", "latest"], ["refresh", "nobody"]):
        done = bed.run("salt-run", [f"package_states.{arguments[0]}", *arguments[1:]])
        assert done.returncode == 1, done.stdout
        # stock shows where an error was raised
        assert len(done.stdout.splitlines()) == 1 or not patched
        assert "Traceback" not in done.stdout + done.stderr or not patched
    states("assign", "front", "group", "front")
    # the engine writes the file of a minion when it comes back, and keeps files that it did not make
    mine = files / "susemanager" / f"packages-{NAME}.sls"
    mine.unlink(missing_ok=True)
    other = files / "susemanager" / "packages-other.sls"
    other.write_text("mine: test.nop\n")
    stray = files / "susemanager" / "packages-nobody.sls"
    stray.write_text((files / "susemanager" / "state-front.sls").read_text())
    until(lambda: mine.exists() and not stray.exists(), Deadline(60), lambda: "the engine does nothing")
    assert other.exists()
    saved = states("set", "front", "sb-tool", "installed", ">=1.0,<2.0~~")
    assert (saved["files"], saved["minions"]) == (["front"], [NAME])
    assert (files / "susemanager" / f"packages-{NAME}.sls").exists()
    states("set", NAME, "sb-unwanted", "removed")
    plan = states("dry_run", NAME)
    assert plan["sb-tool"]["action"] == "install"
    assert set(highstate()) == {"package_states locks", "package_states sb-tool"}
    assert apt_root.installed() == {"sb-tool:all": "1.10"}
    assert highstate() == {}
    assert states("refresh", NAME)["consistent"] is True
    apt_root.apt("remove", "sb-tool")
    # the beacon notices it, and the engine asks
    until(
        lambda: states("status", NAME, "table=False")["consistent"] is False,
        Deadline(60),
        lambda: f"nobody noticed:\n{apt_root.read('/var/log/salt/minion')[-2000:]}",
    )
    drift = states("status", NAME, "table=False")["drift"]
    assert [(row["package"], row["source"]) for row in drift] == [("sb-tool", "group front: front")]
    assert "is drifting: " in states("status", NAME)
    assert set(highstate()) == {"package_states sb-tool"}
    assert states("refresh", NAME)["consistent"] is True
    # while what Salt has changed is asked for, it is not known
    until(lambda: f"\n{NAME} is consistent.\n" in states("status", NAME), Deadline(60), lambda: states("status", NAME))
    # what Salt itself changes is followed too
    _answer(bed, "salt", NAME, "pkg.remove", "sb-tool", "--static", "--timeout=120")
    until(
        lambda: states("status", NAME, "table=False")["consistent"] is False,
        Deadline(60),
        lambda: f"nobody noticed Salt:\n{apt_root.read('/var/log/salt/minion')[-2000:]}",
    )
    assert set(highstate()) == {"package_states sb-tool"}
    until(
        lambda: states("status", NAME, "table=False")["consistent"] is True,
        Deadline(60),
        lambda: "the repair was not noticed",
    )
    # the engine has asked for what the repositories have
    until(lambda: states("available", "channels=True"), Deadline(60), lambda: "nobody has told of the repositories")
    (row,) = states("available", "sb-to*", f"minion={NAME}")["packages"]
    assert row["versions"] == ["2.0", "2.0~rc1", "1.10", "1.2", "1.0"]
    # all that is there, as it is: the locks are new, no package changes
    before = apt_root.run("dpkg-query", "-W").stdout
    states("import", NAME, "packages=*")
    changed = highstate()
    assert set(changed) == {"package_states locks"}
    assert highstate() == {}
    assert apt_root.run("dpkg-query", "-W").stdout == before


def _groups(bed: Bed, files: Path) -> None:
    """Change nodegroups without a restart: the engine goes by those that commands go by."""
    config, folder = bed.master.config_dir / "master", files / "susemanager"
    mine, stray, text = folder / f"packages-{NAME}.sls", folder / "packages-nobody.sls", config.read_text()
    before = mine.read_bytes()
    config.write_text(yaml.safe_dump({**yaml.safe_load(text), "nodegroups": {"front": "L@nobody"}}))
    # or the engine is first
    assert _answer(bed, "salt-run", "package_states.refresh")["errors"] == {}
    without = mine.read_bytes()
    assert without != before
    for _ in range(2):
        # it has looked at all files when this one is gone
        stray.write_text((folder / "state-front.sls").read_text())
        until(lambda: not stray.exists(), Deadline(60), lambda: "the engine does nothing")
    assert mine.read_bytes() == without
    config.write_text(text)
    until(lambda: mine.read_bytes() == before, Deadline(60), lambda: "the engine has the old groups")


def _functions(bed: Bed, apt_root: AptRoot, file: Path) -> None:
    """Call what the walk has not called, each once."""

    def runner(function: str, *arguments: str) -> Any:
        return _answer(bed, "salt-run", function, *arguments)

    def states(function: str, *arguments: str) -> Any:
        return runner(f"package_states.{function}", *arguments)

    assert {"front", NAME} <= set(states("show"))
    states("set", "front", '[{"package": "sb-lib", "wanted": "latest"}]', "comment=more")
    assert [row["comment"] for row in states("history", "front")][-1] == "more"
    assert set(states("show", "front", "against=1")["changes"]) == {"sb-lib"}
    assert states("export", str(file), "name=front")["states"] == 1
    states("unset", "front", "sb-lib")
    states("load", str(file))
    states("restore", "front", "1")
    assert set(states("show", "front")["packages"]) == {"sb-tool"}
    assert states("set", "front", "sb-tool", "upgrade", "dry_run=True")
    assert states("dry_run", NAME) == {}
    assert states("dry_run", "group=front") == {"counts": {"minions": 1, "to change": 0, "no answer": 0}, "minions": {}}
    assert states("refresh")["errors"] == {}
    assert states("status", NAME, "table=False")["current"] is True
    assert states("where", "sb-tool")["counts"]["want it"] == 1
    assert [states("where", "sb-tool", f"version={one}")["counts"]["have it"] for one in (">=1", "<1")] == [1, 0]
    assert states("history", "front")[0]["change"] in ("assigned", "saved")
    assert [one["minions"] for one in states("available", "channels=True").values()] == [1]
    assert states("status", "table=False")["counts"]["minions"] == 1
    assert "1 minions" in states("status", "group=front")
    assert runner("pkgset.refresh", NAME)["stored"] == [NAME]
    assert runner("pkgset.packages", NAME)
    assert states("export", str(file))["states"] == 2
    assert states("load", str(file), "dry_run=True")["states"] == {}
    states("unassign", "front", "group", "front")
    for function, place in (("install_plugin", True), ("remove_plugin", False)):
        _answer(bed, "salt", NAME, f"pkgset.{function}", "--static", "--timeout=60")
        assert (apt_root.path / "usr/bin/pkgset-notify").exists() is place
    for function in ("inventory", "offers"):
        assert _answer(bed, "salt", NAME, f"package_state.{function}", "--static", "--timeout=60")[NAME]
