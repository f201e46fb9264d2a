"""Package states on a real Debian root: every policy from every beginning, locks, failures and dry runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.applied_states import COPY, PREFERENCES, Bench, benched
from tests.live.helpers.apt_root import roots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root]
BEGINNINGS = ("", "1.0", "1.10", "2.0")
# wanted, condition, what is right afterwards: by what was there (absent, lower, equal, higher)
POLICIES = [
    ("installed", "", ("2.0", "1.0", "1.10", "2.0")),
    ("installed", "=1.10", ("1.10", "1.10", "1.10", "1.10")),
    ("installed", "<1.10", ("1.2", "1.0", "1.2", "1.2")),
    ("installed", "<=1.10", ("1.10", "1.0", "1.10", "1.10")),
    ("installed", ">1.10", ("2.0", "2.0", "2.0", "2.0")),
    ("installed", ">=1.10", ("2.0", "2.0", "1.10", "2.0")),
    ("installed", "!=1.10", ("2.0", "1.0", "2.0", "2.0")),
    ("installed", ">=1.2,<2.0~~", ("1.10", "1.10", "1.10", "1.10")),
    ("installed", "1.*", ("1.10", "1.0", "1.10", "1.10")),
    ("latest", "", ("2.0", "2.0", "2.0", "2.0")),
    ("removed", "", ("", "", "", "")),
    ("purged", "", ("", "", "", "")),
    ("removed", "=1.10", ("", "1.0", "", "2.0")),
    ("removed", "<=1.10", ("", "", "", "2.0")),
    ("removed", "!=1.10", ("", "", "1.10", "")),
    ("purged", ">1.0", ("", "1.0", "", "")),
]


@pytest.fixture(scope="module")
def bench(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yield a root with Salt."""
    for made in roots(root, tmp_path_factory):
        made.run("dpkg", "--add-architecture", "i386")
        made.update()
        with benched(made) as found:
            yield found


@pytest.fixture(autouse=True)
def _released(bench: Bench) -> None:
    """Let each test begin without locks and without a package of the repository."""
    there = [name.removesuffix(":all") for name in bench.root.states()]
    bench.root.run("rm", "-f", PREFERENCES, COPY)
    if held := bench.root.holds():
        bench.root.run("apt-mark", "unhold", *held)
    if there:
        bench.root.run("dpkg", "--purge", "--force-all", *there)


def _reach(bench: Bench, wanted: str, condition: str, begin: str, right: str) -> None:
    bench.begin("sb-tool", begin)
    first = bench.apply(("sb-tool", wanted, condition))
    assert first.failed == []
    assert bench.version("sb-tool") == right
    if wanted == "purged" and not condition:
        assert "sb-tool:all" not in bench.root.states()
    # the package itself changes only if it has to; its lock may be new
    assert ("sb-tool" in first.changed) == (begin != right)
    again = bench.run()
    assert (again.changed, again.failed) == ({}, [])


@pytest.mark.parametrize(("wanted", "condition", "right"), [POLICIES[1], POLICIES[7], POLICIES[11]])
def test_policies_in_short(bench: Bench, wanted: str, condition: str, right: tuple[str, ...]) -> None:
    """Equal, a range and purged are reached from a higher version, and a second run changes nothing."""
    _reach(bench, wanted, condition, BEGINNINGS[3], right[3])


@pytest.mark.parametrize("begin", range(4), ids=("absent", "lower", "equal", "higher"))
@pytest.mark.parametrize(("wanted", "condition", "right"), POLICIES, ids=str)
def test_policies(bench: Bench, wanted: str, condition: str, right: tuple[str, ...], begin: int) -> None:
    """Each policy is reached from absent, lower, equal and higher, and a second run changes nothing."""
    _reach(bench, wanted, condition, BEGINNINGS[begin], right[begin])


@pytest.mark.parametrize(
    ("package", "condition", "begin", "right"),
    [
        ("sb-tool", "!=2.0", "2.0", "2.0~rc1"),
        ("sb-tool", ">=1.0,<1.10", "2.0", "1.2"),
        ("sb-tool", "1.?", "2.0", "1.2"),
        ("sb-epoch", "=0.9", "1:0.5", "0.9"),
        ("sb-tool", "=2.0~rc1", "2.0", "2.0~rc1"),
        ("sb-tool", "1.10", "1.2", "1.10"),
        ("sb-lib:i386", "=1.0", "", "1.0"),
    ],
    ids=("not-equal", "range", "glob", "epoch", "tilde", "1.10", "multi-arch"),
)
def test_special_versions(bench: Bench, package: str, condition: str, begin: str, right: str) -> None:
    """What looks like another version, or like none, is taken as it is written."""
    bench.begin(package, begin)
    assert bench.apply((package, "installed", condition)).failed == []
    assert bench.version(package) == right
    assert bench.run().changed == {}


def test_an_absent_package_stays_away(bench: Bench) -> None:
    """Neither people nor dependencies nor dist-upgrade bring it back; `dpkg -i` does, and the next run repairs that."""
    bench.begin("sb-unwanted", "1.0")
    assert bench.apply(("sb-unwanted", "removed")).failed == []
    for command in (("install", "sb-unwanted"), ("install", "sb-puller"), ("dist-upgrade",)):
        bench.root.apt(*command, check=False)
        assert bench.root.installed() == {}, command
    bench.root.run("dpkg", "-i", "/srv/saltbed/sb-unwanted_1.0_all.deb")
    there = bench.salt.cmd("package_state.inventory")["packages"]["sb-unwanted"]
    assert there["versions"] == ["1.0"]
    assert list(bench.run(test=True).changed) == ["sb-unwanted"]
    assert list(bench.run().changed) == ["sb-unwanted"]
    assert bench.version("sb-unwanted") == ""
    # not managed any more
    assert bench.apply().failed == []
    bench.root.apt("install", "sb-puller")
    assert bench.version("sb-unwanted") == "2.0"


def test_a_version_stays(bench: Bench) -> None:
    """An upgrade does not change it; `dpkg -i` does, and the next run repairs that."""
    bench.begin("sb-tool", "1.2")
    assert bench.apply(("sb-tool", "installed", "=1.2"), ("sb-unwanted", "installed", "<2.0")).failed == []
    for command in (("upgrade",), ("dist-upgrade",), ("install", "sb-tool", "sb-unwanted")):
        bench.root.apt(*command)
        assert (bench.version("sb-tool"), bench.version("sb-unwanted")) == ("1.2", "1.0"), command
    bench.root.run("dpkg", "-i", "/srv/saltbed/sb-tool_2.0_all.deb")
    assert list(bench.run(test=True).changed) == ["sb-tool"]
    assert list(bench.run().changed) == ["sb-tool"]
    assert bench.version("sb-tool") == "1.2"
    bench.apply()
    assert bench.root.read(PREFERENCES) == ""
    bench.root.apt("upgrade")
    assert bench.version("sb-tool") == "2.0"


def test_an_orphan_is_kept_and_released(bench: Bench) -> None:
    """What no repository has is held; other people's holds are neither released nor overridden."""
    bench.begin("sb-tool", "1.2")
    bench.begin("sb-unwanted", "1.0")
    bench.root.run("apt-mark", "hold", "sb-unwanted")
    first = bench.apply(("sb-tool", "kept"), ("sb-unwanted", "latest"))
    assert first.failed == ["sb-unwanted"]
    assert "held" in first.comment("sb-unwanted")
    assert bench.root.holds() == ["sb-tool", "sb-unwanted"]
    assert bench.run().changed == {}
    bench.root.run("dpkg", "-i", "/srv/saltbed/sb-tool_2.0_all.deb")
    assert "sb-tool" in bench.run().changed
    assert bench.version("sb-tool") == "1.2"
    bench.apply()
    assert bench.root.holds() == ["sb-unwanted"]


@pytest.mark.parametrize("left", ["", "# cleaned\n"])
def test_a_hold_stays_ours_when_its_pins_are_cleaned(bench: Bench, left: str) -> None:
    """Whoever empties or removes the preferences file leaves holds behind, which Salt still releases."""
    bench.begin("sb-tool", "1.2")
    bench.apply(("sb-tool", "kept"))
    assert bench.root.holds() == ["sb-tool"]
    bench.root.run("sh", "-c", f"rm {PREFERENCES}; printf '{left}' > {PREFERENCES}" if left else f"rm {PREFERENCES}")
    assert bench.apply(("sb-tool", "latest")).failed == []
    assert bench.version("sb-tool") == "2.0"
    assert bench.root.holds() == []
    bench.root.run("apt-mark", "hold", "sb-tool")
    bench.apply()
    assert bench.root.holds() == ["sb-tool"]


def test_a_hold_that_nothing_wants_is_a_change(bench: Bench) -> None:
    """What is released by a run is among its changes, also if the pins were cleaned before."""
    bench.begin("sb-tool", "1.2")
    bench.apply(("sb-tool", "kept"))
    bench.root.run("rm", PREFERENCES)
    assert "hold" in str(bench.apply().changed)
    assert bench.root.holds() == []


def test_one_bad_package_among_fifty(bench: Bench) -> None:
    """49 are installed, and the one that can't be is named."""
    names = [f"sb-n{number:02d}" for number in range(49)]
    found = bench.apply(*[(name, "installed") for name in names], ("sb-nosuch", "latest"))
    assert found.failed == ["sb-nosuch"]
    assert "sb-nosuch" in found.comment("sb-nosuch")
    assert sorted(bench.root.installed()) == [f"{name}:all" for name in names]
    again = bench.run()
    assert (again.changed, again.failed) == ({}, ["sb-nosuch"])


def test_a_package_that_breaks_does_not_stop_the_others(bench: Bench) -> None:
    """A failing installation is the failure of its own entry."""
    found = bench.apply(("sb-bad", "latest"), ("sb-n01", "latest"))
    assert found.failed == ["sb-bad"]
    assert bench.version("sb-n01") == "1.0"


def test_a_dry_run_names_what_goes_too(bench: Bench) -> None:
    """It changes nothing; the real run then removes just that."""
    bench.root.apt("install", "sb-app=1.0", "sb-lib=1.0")
    found = bench.apply(("sb-lib", "removed"), test=True)
    assert set(found.changed["sb-lib"]) == {"sb-lib", "sb-app"}
    assert "sb-app" in found.comment("sb-lib")
    assert bench.version("sb-app") == "1.0"
    plan = bench.salt.cmd("package_state.plan", [["sb-lib", "removed"]])
    assert plan["sb-lib"]["also_removed"] == ["sb-app"]
    assert "sb-app" in bench.run().comment("sb-lib")
    assert bench.root.installed() == {}


def test_what_others_want_and_what_is_protected_stays(bench: Bench) -> None:
    """A removal that would take along a wanted or protected package is refused, and nothing is removed."""
    bench.root.apt("install", "sb-app=1.0", "sb-lib=1.0", "sb-core=1.0")
    found = bench.apply(("sb-lib", "removed"), ("sb-app", "installed"), ("sb-core", "removed"))
    assert set(found.failed) == {"sb-lib", "sb-core"}
    assert "sb-app" in found.comment("sb-lib")
    assert "protected" in found.comment("sb-core")
    assert len(bench.root.installed()) == len(("sb-app", "sb-lib", "sb-core"))
