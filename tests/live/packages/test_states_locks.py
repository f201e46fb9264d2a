"""Locks and transactions of package states on a real Debian root, beyond the matrix of policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.applied_states import COPY, PREFERENCES, Bench, benched
from tests.live.helpers.apt_repository import Package
from tests.live.helpers.apt_root import roots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(900)]
NAMES = [f"sb-c{number}" for number in range(10, 40)]


@pytest.fixture(scope="module")
def bench(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yield a root with Salt, and thirty packages of which each needs the next one in its own version."""
    for made in roots(root, tmp_path_factory):
        made.run("dpkg", "--add-architecture", "i386")
        made.repository.add(
            Package(name, version, fields={"Depends": f"{after} (= {version})"} if after else {})
            for version in ("1.0", "2.0")
            for name, after in zip(NAMES, [*NAMES[1:], ""], strict=True)
        )
        made.update()
        with benched(made) as found:
            yield found


@pytest.fixture(autouse=True)
def _released(bench: Bench) -> None:
    """Let each test begin without locks and without a package of the repository."""
    there = [name.removesuffix(":all") for name in bench.root.states()]
    bench.root.run("rm", "-f", PREFERENCES, COPY)
    if there:
        bench.root.run("dpkg", "--purge", "--force-all", *there)


def test_thirty_that_need_each_other_go_back_in_one_call(bench: Bench) -> None:
    """One call of apt brings all of them back; one that can't be is named beside them."""
    bench.root.apt("install", "sb-c10")
    assert bench.version("sb-c39") == "2.0"
    bench.root.run("sh", "-c", "rm -f /var/log/apt/history.log")
    found = bench.apply(*[(name, "installed", "=1.0") for name in NAMES], ("sb-nosuch", "latest"))
    assert found.failed == ["sb-nosuch"]
    assert {bench.version(name) for name in NAMES} == {"1.0"}
    assert bench.root.read("/var/log/apt/history.log").count("Commandline: ") == 1
    assert bench.run().changed == {}


def test_removed_is_removed_in_each_architecture(bench: Bench) -> None:
    """`removed` keeps the package of another architecture away too, unless an entry wants just that."""
    assert bench.apply(("sb-lib", "removed")).failed == []
    for name in ("sb-lib", "sb-lib:i386"):
        assert bench.root.apt("install", name, check=False).returncode != 0, name
    assert bench.root.installed() == {}
    assert bench.apply(("sb-lib", "removed"), ("sb-lib:i386", "installed", "=1.0")).failed == []
    assert bench.root.installed() == {"sb-lib:i386": "1.0"}
    assert bench.run().changed == {}


def test_what_can_not_be_met_keeps_its_lock(bench: Bench) -> None:
    """An entry that nothing meets is named, and the pin that it had stays."""
    bench.begin("sb-tool", "1.2")
    assert bench.apply(("sb-tool", "installed", "=1.2")).failed == []
    pins = bench.root.read(PREFERENCES)
    assert bench.apply(("sb-tool", "installed", ">=9")).failed == ["sb-tool"]
    assert bench.root.read(PREFERENCES) == pins
    bench.root.apt("upgrade")
    assert bench.version("sb-tool") == "1.2"


def test_what_was_cut_off_is_finished(bench: Bench) -> None:
    """A package that was unpacked and not configured is installed by the next run, or removed if that is wanted."""
    for wanted, right in (("installed", "1.2"), ("removed", "")):
        bench.root.run("sh", "-c", "dpkg --unpack /srv/saltbed/sb-tool_1.2_all.deb")
        assert bench.root.states()["sb-tool:all"][0] == "unpacked"
        assert bench.apply(("sb-tool", wanted)).failed == []
        assert bench.version("sb-tool") == right
        assert bench.run().changed == {}
        bench.apply()


def test_two_states_by_name(bench: Bench) -> None:
    """States that are applied by name leave each other's pins alone; one that has changed releases its own."""
    bench.begin("sb-tool", "1.2")

    def apply(name: str, *rows: tuple[str, ...]) -> None:
        text = bench.compiler.run("render", rows, "apt", name, name)[1]
        bench.root.write(f"/srv/salt/susemanager/packages-{name}.sls", text)
        found = bench.salt.cmd("state.apply", f"susemanager.packages-{name}")
        assert all(one["result"] for one in found.values()), found

    apply("one", ("sb-tool", "installed"))
    apply("two", ("sb-unwanted", "removed"))
    both = bench.root.read(PREFERENCES)
    assert "Package: sb-tool\n" in both
    assert "Package: sb-unwanted:any\n" in both
    found = bench.salt.cmd("state.apply", ["susemanager.packages-one", "susemanager.packages-two"])
    assert not any(one["changes"] or not one["result"] for one in found.values()), found
    apply("one")
    assert "sb-tool" not in bench.root.read(PREFERENCES)
    assert "sb-unwanted" in bench.root.read(PREFERENCES)
    # the minion's own file is the whole truth
    assert bench.apply().failed == []
    assert bench.root.read(PREFERENCES) == ""
