import json

import pytest
import saltext.package_states.item as items
import saltext.package_states.managers as managers
import saltext.package_states.managers.apt as apt
import saltext.package_states.managers.rpm as rpm
import saltext.package_states.pkgset
import saltext.package_states.states.package_state as package_state
from saltext.package_states.errors import PackageStateError, Unsupported

DPKG = """\
foo\tamd64\tii \t1.0\tno\tno
bar\tall\thi \t1:0.5\tno\tno
gone\tamd64\trc \t2.0\tno\tno
dpkg\tamd64\tii \t1.21\tyes\tno
core\tamd64\tii \t1\tno\tyes
lib\ti386\tii \t1.0\tno\tno
lib\tamd64\tii \t1.0\tno\tno
"""
POLICY = """\
foo:
  Installed: 1.0
  Candidate: 2.0
  Version table:
     2.0 500
        500 file:/srv/repo ./ Packages
        500 http://deb.example.com stable/main amd64 Packages
     1.5 -1 (phased 10%)
        500 http://deb.example.com stable/main amd64 Packages
 *** 1.0 100
        100 /var/lib/dpkg/status
bar:
  Installed: 1:0.5
  Candidate: 1:0.5
  Version table:
 *** 1:0.5 100
        100 /var/lib/dpkg/status
lib:i386:
  Installed: 1.0
  Candidate: (none)
  Version table:
 *** 1.0 -1
        500 file:/srv/repo ./ Packages
        100 /var/lib/dpkg/status
"""


class Commands:
    """
    The execution modules of a minion, for as much as is asked of them
    """

    def __init__(self, **functions):
        self.calls = []
        self.functions = functions

    def __getitem__(self, name):
        if name == "cmd.run_all":
            return self.run
        return lambda *args, **kwargs: self.record(name, args, kwargs)

    def record(self, name, args, kwargs):
        self.calls.append((name, args))
        found = self.functions.get(name.replace(".", "_"))
        return found(*args, **kwargs) if callable(found) else found

    def run(self, command, **_):
        self.calls.append(("run", command))
        out = {
            "dpkg": "amd64\n",
            "dpkg-query": DPKG,
            "apt-cache": POLICY,
            "apt-get": "Inst x\nRemv foo [1.0]\nRemv app:amd64 [1] []\nPurg core [1]\n",
        }.get(command[0], "")
        return {"retcode": 0, "stdout": out, "stderr": ""}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(apt, "PREFERENCES", str(tmp_path / "00salt"))
    monkeypatch.setattr(apt, "STATUS", "/var/lib/dpkg/status")
    monkeypatch.setattr(apt, "CACHE", str(tmp_path / "pkgcache.bin"))
    return tmp_path / "00salt"


def test_apt_facts(place):
    manager = apt.Apt(Commands(), {}, {})
    manager.fetch(["foo", "bar", "lib:i386", "nosuch"])
    assert manager.facts("foo")[:5] == ("apt", ("1.0",), ("2.0", "1.5"), "2.0", False)
    # an orphan has no candidate, as dpkg's own status is no repository
    assert manager.facts("bar")[:4] == ("apt", ("1:0.5",), (), "")
    assert manager.facts("lib:i386")[:4] == ("apt", ("1.0",), ("1.0",), "")
    assert manager.facts("nosuch") == ("apt", (), (), "", False, "")
    assert manager.facts("gone").configured
    assert manager.held("bar") and not manager.held("foo")
    assert (
        manager.essential("dpkg")
        and manager.essential("core")
        and not manager.essential("foo")
    )


def test_apt_asks_for_all_packages_at_once(place):
    commands = Commands()
    manager = apt.Apt(commands, {}, {})
    manager.fetch(["foo", "bar"])
    for _ in range(3):
        manager.facts("foo")
        manager.facts("bar")
    assert [call[1][0] for call in commands.calls].count("apt-cache") == 1


def test_apt_cache_that_missed_a_change(place, monkeypatch):
    """
    apt is asked again without its cache if dpkg knows better
    """
    cache = place.with_name("pkgcache.bin")
    cache.touch()
    commands = Commands()
    asked = []

    def run(command, **kwargs):
        answer = Commands.run(commands, command, **kwargs)
        if command[0] == "apt-cache":
            asked.append(cache.exists())
            if cache.exists():
                answer["stdout"] = POLICY.replace("Installed: 1.0", "Installed: 0.9")
        return answer

    monkeypatch.setattr(commands, "run", run)
    manager = apt.Apt(commands, {}, {})
    manager.fetch(["foo", "bar", "gone"])
    assert asked == [True, False]
    assert manager.facts("foo").installed == ("1.0",)
    manager.fetch(["lib:i386"])
    assert asked == [True, False, False]


def test_apt_cache_that_is_right_stays(place):
    cache = place.with_name("pkgcache.bin")
    cache.touch()
    apt.Apt(Commands(), {}, {}).fetch(["foo", "bar", "lib:i386", "gone", "nosuch"])
    assert cache.exists()


@pytest.mark.parametrize("action", ["installed", "removed"])
def test_pkg_does_not_trust_an_earlier_list(place, action):
    """
    What :mod:`pkg <salt.modules.aptpkg>` listed in an earlier job is forgotten
    """
    context = {
        "pkg.list_pkgs": {},
        "pkg.list_pkgs_None_[]": {},
        ("a", 1): 2,
        "pkg.other": 1,
    }
    seen = []
    commands = Commands(
        pkg_install=lambda *args, **kwargs: seen.append(set(context)),
        pkg_remove=lambda *args, **kwargs: seen.append(set(context)),
    )
    manager = apt.Apt(commands, {}, context)
    item = items.make("foo", action, "=2.0" if action == "installed" else None)
    manager.apply(item, manager.decide(item))
    assert len(seen) == 1
    assert not any(str(name).startswith("pkg.list_pkgs") for name in seen[0])
    assert "pkg.other" in seen[0]


def test_apt_cache_that_has_never_heard_of_a_package(place, monkeypatch):
    """
    What is in no repository has no line in the answer of a cache that missed it
    """
    cache = place.with_name("pkgcache.bin")
    cache.touch()
    commands = Commands()
    dpkg = DPKG + "local\tamd64\tii \t1.0\tno\tno\n"
    run = commands.run

    def local(command, **kwargs):
        answer = run(command, **kwargs)
        if command[0] == "dpkg-query":
            answer["stdout"] = dpkg
        elif command[0] == "apt-cache" and not cache.exists():
            answer["stdout"] += "local:\n  Installed: 1.0\n  Candidate: 1.0\n"
        return answer

    monkeypatch.setattr(commands, "run", local)
    apt.Apt(commands, {}, {}).fetch(["foo", "local"])
    assert not cache.exists()


def test_apt_locks_and_releases(place):
    commands = Commands()
    manager = apt.Apt(commands, {}, {})
    wanted = items.ordered(
        items.make(*row)
        for row in (
            ("foo", "installed", "!=2.0"),
            ("lib:i386", "kept"),
            ("nosuch", "removed"),
            ("gone", "removed", "=1.*"),
            ("core", "latest"),
        )
    )
    assert set(manager.locks(wanted, test=True)) == {
        "foo",
        "lib:i386",
        "nosuch",
        "gone",
    }
    assert not place.exists()
    assert set(manager.locks(wanted)) == {"foo", "lib:i386", "nosuch", "gone"}
    text = place.read_text()
    assert "Package: foo\nPin: version 1.0\nPin-Priority: 1001\n" in text
    assert "Package: nosuch\nPin: version *\nPin-Priority: -1\n" in text
    assert "Package: gone\nPin: version 1.*\nPin-Priority: -1\n" in text
    assert "held by Salt\nPackage: lib:i386\nPin: version 1.0\n" in text
    assert "core" not in text
    assert ("run", ["apt-mark", "hold", "lib:i386"]) in commands.calls
    manager.locks([])
    assert not place.exists()


def test_apt_losses(place):
    manager = apt.Apt(Commands(), {}, {})
    entry = items.make("foo", "removed")
    decision = manager.decide(entry)
    also, refusal = manager.losses(entry, decision)
    assert also == ["app", "core"]
    assert "core must not be removed" in refusal
    also, refusal = manager.losses(entry, decision, protected={"foo"})
    assert "foo" in refusal


def test_apt_leaves_the_holds_of_others(place):
    manager = apt.Apt(Commands(), {}, {})
    decision = manager.decide(items.make("bar", "removed"))
    assert decision.action == "impossible"
    assert "held" in decision.reason


def test_apt_does_not_take_over_the_holds_of_others(place):
    commands = Commands()
    manager = apt.Apt(commands, {}, {})
    wanted = [items.make("bar", "kept"), items.make("foo", "kept")]
    manager.locks(wanted)
    text = place.read_text()
    assert "state, kept\nPackage: bar\nPin: version 1:0.5\n" in text
    assert "held by Salt\nPackage: foo\n" in text
    marks = [call[1] for call in commands.calls if call[1][0] == "apt-mark"]
    assert marks == [["apt-mark", "hold", "foo"]]
    assert manager.held("bar") and not manager.facts("bar").recorded
    # nor does it release them
    manager.locks([])
    assert ["apt-mark", "unhold", "bar"] not in [call[1] for call in commands.calls]
    assert manager.held("bar")


def test_apt_releases_its_own_holds(place):
    commands = Commands()
    place.write_text(
        f"Explanation: package state, kept, {apt.HELD}\nPackage: bar\n"
        "Pin: version 1:0.5\nPin-Priority: 1001\n"
    )
    manager = apt.Apt(commands, {}, {})
    assert not manager.held("bar")
    assert manager.locks([items.make("bar", "kept")]) == {}
    manager.locks([])
    assert ("run", ["apt-mark", "unhold", "bar"]) in commands.calls


@pytest.mark.skipif(
    not saltext.package_states.pkgset.TELLS,
    reason="This Salt does not tell what it changes itself",
)
def test_holds_of_salt_are_its_own_changes(place, tmp_path, monkeypatch):
    status = tmp_path / "status"
    status.write_text("before")
    monkeypatch.setattr(apt, "STATUS", str(status))

    class Marks(Commands):
        def run(self, command, **kwargs):
            if command[0] == "apt-mark":
                status.write_text(command[1])
            return super().run(command, **kwargs)

    opts = {"cachedir": str(tmp_path)}
    before = saltext.package_states.pkgset.digest(str(status))[0]
    with saltext.package_states.pkgset.own_changes(opts):
        pass
    manager = apt.Apt(Marks(), opts, {})
    manager.locks([items.make("foo", "kept")])
    after = saltext.package_states.pkgset.digest(str(status))[0]
    with saltext.package_states.pkgset.own_changes(opts) as pairs:
        assert pairs == [(before, after)]


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(rpm, "RECORD", str(tmp_path / "lib" / "package_states.json"))
    return tmp_path / "lib" / "package_states.json"


def test_zypper_locks_and_releases(record):
    locks = {"other": {}}
    commands = Commands(
        pkg_list_pkgs={"foo": ["1.0-1"], "old": ["1.0-1"], "other": ["1-1"]},
        pkg_list_repo_pkgs={"r": {"foo": ["2.0-1", "1.0-1"], "old": ["2.0-1"]}},
        pkg_list_locks=lambda: locks,
        pkg_hold=lambda name: locks.update({name: {}}),
        pkg_unhold=locks.pop,
    )
    manager = rpm.Zypper(commands, {}, {})
    wanted = [
        items.make("foo", "installed", "<2.0"),
        items.make("old", "installed", ">=2.0"),
        items.make("away", "removed"),
        items.make("other", "kept"),
    ]
    assert set(manager.locks(wanted, test=True)) == {"foo", "away"}
    assert set(locks) == {"other"}
    # what is to be changed must not be locked yet
    assert set(manager.locks(wanted)) == {"foo", "away"}
    assert set(locks) == {"other", "foo", "away"}
    assert manager.locks(wanted) == {}
    commands.functions["pkg_list_pkgs"]["old"] = ["2.0-1"]
    manager.finish(wanted[1])
    assert "old" in locks and manager.locks(wanted) == {}
    assert set(json.loads(record.read_text())) == {"foo", "old", "away"}
    # somebody else's lock stays
    assert manager.held("other") and not manager.held("foo")
    manager.locks([])
    assert set(locks) == {"other"}


def test_zypper_and_dnf_name_what_goes_too(record):
    class Out(Commands):
        def run(self, command, **_):
            out = {
                "zypper": '<install-summary><to-remove><solvable type="package" name="foo" edition="1"/>'
                '<solvable type="package" name="app"/></to-remove>'
                '<to-install><solvable name="new"/></to-install></install-summary>',
                "dnf": "Dependencies resolved.\n====\n Package Arch\n====\nRemoving:\n foo x86_64 1-1 @r 1 k\n"
                "Removing dependent packages:\n app noarch 1-1 @r 1 k\n\nTransaction Summary\n====\n",
            }[command[0]]
            return {"retcode": 0, "stdout": out, "stderr": ""}

    functions = {"pkg_list_pkgs": {"foo": ["1-1"]}, "pkg_list_repo_pkgs": {}}
    functions.update(pkg_list_locks={}, pkg_list_holds=[])
    for kind in (rpm.Zypper, rpm.Dnf):
        manager = kind(Out(**functions), {}, {})
        entry = items.make("foo", "removed")
        also, refusal = manager.losses(entry, manager.decide(entry), wanted={"app"})
        assert also == ["app"]
        assert "app would go too" in refusal


@pytest.mark.parametrize(
    "stdout,stderr",
    (
        ("", "Error: Failed to download metadata for repo 'r': Cannot download"),
        ("Error: Unable to find a match: foo\n", ""),
        ("", ""),
    ),
)
def test_dnf_that_fails_is_no_dnf_that_removes_nothing(record, stdout, stderr):
    class Out(Commands):
        def run(self, command, **_):
            return {"retcode": 1, "stdout": stdout, "stderr": stderr}

    commands = Out(
        pkg_list_pkgs={"foo": ["1-1"]}, pkg_list_repo_pkgs={}, pkg_list_holds=[]
    )
    manager = rpm.Dnf(commands, {}, {})
    entry = items.make("foo", "removed")
    with pytest.raises(PackageStateError, match="(?s)foo.*makecache") as found:
        manager.losses(entry, manager.decide(entry))
    assert (stdout or stderr).strip() in str(found.value)


def test_dnf_that_has_nothing_to_do_removes_nothing(record):
    class Out(Commands):
        def run(self, command, **_):
            out = "Dependencies resolved.\nNothing to do.\nComplete!\n"
            return {"retcode": 0, "stdout": out, "stderr": ""}

    commands = Out(
        pkg_list_pkgs={"foo": ["1-1"]}, pkg_list_repo_pkgs={}, pkg_list_holds=[]
    )
    manager = rpm.Dnf(commands, {}, {})
    entry = items.make("foo", "removed")
    assert manager.losses(entry, manager.decide(entry)) == ([], "")


def test_dnf_keeps_what_is_removed_away(record):
    commands = Commands(
        pkg_list_pkgs={}, pkg_list_repo_pkgs={"foo": ["1-1"]}, pkg_list_holds=[]
    )
    manager = rpm.Dnf(commands, {}, {})
    assert set(manager.locks([items.make("foo", "removed")])) == {"foo"}
    assert ("run", ["dnf", "-q", "versionlock", "exclude", "foo"]) in commands.calls


def test_inventory_of_rpm(record):
    commands = Commands(
        pkg_list_pkgs={"foo": ["1-1"], "lone": ["1-1"], "lib.i686": ["1-1"]},
        pkg_list_repo_pkgs={
            "r": {"foo": ["1-1"], "lib.i686": ["1-1"]},
            "s": {"foo": ["10-1", "2-1", "1-1"]},
            "(System Packages)": {"lone": ["1-1"]},
            "@System": {"lone": ["1-1"], "foo": ["11-1"]},
        },
        pkg_list_locks={"foo": {}},
    )
    found = rpm.Zypper(commands, {}, {}).inventory()
    assert found["foo"]["candidate"] == "10-1" and found["foo"]["held"]
    assert found["foo"]["available"] == ["10-1", "2-1", "1-1"]
    assert found["lone"]["available"] == [] and found["lone"]["candidate"] == ""
    facts = rpm.Zypper(commands, {}, {}).facts("lone")
    assert facts.installed == ("1-1",) and facts.available == ()
    assert found["lone"]["orphan"] and not found["foo"]["orphan"]
    assert found["lib:i686"]["versions"] == ["1-1"]


def test_other_systems_are_refused():
    with pytest.raises(Unsupported):
        managers.get(Commands(), {}, {"os_family": "Arch"}, {})


@pytest.fixture
def configure_loader_modules():
    return {
        package_state: {
            "__opts__": {"test": False, "cachedir": "/nowhere"},
            "__grains__": {"os_family": "Debian"},
            "__context__": {},
            "__salt__": Commands(),
        }
    }


def test_what_is_no_entry_fails_and_the_others_do_not(place):
    found = package_state.locks(
        "x", [["foo", "installed", "", ""], ["{{ 1 }}", "latest", "", ""]]
    )
    assert found["result"] is False
    assert "1" in found["comment"]
    assert "foo" in found["changes"]
    assert package_state.installed("foo")["result"] is True
    assert package_state.installed("foo", "{{ 1 }}")["result"] is False
    assert package_state.installed("foo", "=7")["result"] is False
    assert package_state.latest("nosuch")["result"] is False
