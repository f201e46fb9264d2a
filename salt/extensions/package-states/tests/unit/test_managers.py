import importlib.util

import pytest
import saltext.package_states.managers as managers
import saltext.package_states.managers.apt as apt
import saltext.package_states.managers.journal as journal
import saltext.package_states.minion.pkgset
import saltext.package_states.model.item as items
import saltext.package_states.states.package_state as package_state
from saltext.package_states.errors import PackageStateError
from saltext.package_states.managers.base import Step
from saltext.package_states.managers.pins import HELD
from saltext.package_states.model.decision import INSTALL, REMOVE

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
    monkeypatch.setattr(apt, "COPY", str(tmp_path / "lib" / "pins"))
    monkeypatch.setattr(apt, "STATUS", "/var/lib/dpkg/status")
    monkeypatch.setattr(apt, "CACHE", str(tmp_path / "pkgcache.bin"))
    monkeypatch.setattr(journal, "FOLDER", str(tmp_path / "lib"))
    return tmp_path / "00salt"


def test_apt_facts(place):
    manager = apt.Apt(Commands(), {}, {})
    manager.fetch(["foo", "bar", "lib:i386", "nosuch"])
    assert manager.facts("foo")[:5] == ("apt", ("1.0",), ("2.0", "1.5"), "2.0", False)
    # an orphan has no candidate, as dpkg's own status is no repository
    assert manager.facts("bar")[:4] == ("apt", ("1:0.5",), (), "")
    assert manager.facts("lib:i386")[:4] == ("apt", ("1.0",), ("1.0",), "")
    assert manager.facts("nosuch") == ("apt", (), (), "", False, "", False)
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


def test_one_call_changes_all(place):
    """
    Installing and removing is one call of apt-get, and what is purged follows in one of dpkg
    """
    commands = Commands()
    manager = apt.Apt(commands, {}, {})
    steps = [
        Step("bar", REMOVE, "1:0.5"),
        Step("gone", REMOVE, "", purge=True),
        Step("foo", INSTALL, "2.0"),
    ]
    assert manager.commit(steps, [items.make("foo", "latest")]) == ""
    called = [call[1] for call in commands.calls if call[1][0] in ("apt-get", "dpkg")]
    changes = [call for call in called if "--print-architecture" not in call]
    assert [call[0] for call in changes] == ["apt-get", "dpkg"]
    assert changes[0][-3:] == ["install", "bar-", "foo=2.0"]
    assert changes[1] == ["dpkg", "--purge", "gone"]


def test_what_is_half_installed_is_there_and_not_right(place, monkeypatch):
    monkeypatch.setitem(
        globals(), "DPKG", DPKG.replace("foo\tamd64\tii ", "foo\tamd64\tiF ")
    )
    manager = apt.Apt(Commands(), {}, {})
    facts = manager.facts("foo")
    assert (facts.installed, facts.broken) == (("1.0",), True)
    for wanted, action in (("installed", "install"), ("removed", "remove")):
        assert manager.decide(items.make("foo", wanted)).action == action


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
    assert "Package: nosuch:any\nPin: version *\nPin-Priority: -1\n" in text
    assert "Package: gone:any\nPin: version 1.*\nPin-Priority: -1\n" in text
    assert "held by Salt\nPackage: lib:i386\nPin: version 1.0\n" in text
    assert "core" not in text
    assert ("run", ["apt-mark", "hold", "lib:i386"]) in commands.calls
    manager.locks([])
    assert not place.exists()


def test_what_apt_would_remove(place):
    manager = apt.Apt(Commands(), {}, {})
    found = manager.solve([Step("foo", REMOVE, "1.0")], [items.make("foo", "removed")])
    assert found.removed == ("app", "core", "foo")
    assert found.changed == ("x",)
    assert found.problem == ""


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


def test_apt_tells_of_what_keeps_a_package(place, monkeypatch):
    """
    Holds, pins of Salt, and those of others that lock; files that apt does not read do not
    """
    (place.parent / "prefs.d").mkdir()
    own = place.parent / "prefs.d" / "00salt"
    monkeypatch.setattr(apt, "PREFERENCES", str(own))
    files = {
        "one.pref": "# mine\nPackage: fo? x*\nPin: version 1.*\nPin-Priority: 1001\n",
        "two": "Package: *\nPin: version 9\nPin-Priority: -1\n\n"
        "Package: away\nPin: release a=x\nPin-Priority: -1\n\n"
        "Package: core\nPin: release a=backports\nPin-Priority: 600\n",
        "three.bak": "Package: dpkg\nPin: version 1\nPin-Priority: 1001\n",
        ".four": "Package: dpkg\nPin: version 1\nPin-Priority: 1001\n",
    }
    for name, text in files.items():
        (own.parent / name).write_text(text)
    manager = apt.Apt(Commands(pkg_list_repos={}), {}, {})
    manager.locks([items.make("nosuch", "removed")])
    found = manager.inventory()
    assert {key for key, there in found.items() if there["held"]} == {
        *("foo", "bar", "nosuch", "away"),
    }
    assert found["away"]["versions"] == []
    # a pin is no hold: Salt may change the package
    assert not manager.held("foo")


def test_what_is_half_installed_is_told(place, monkeypatch):
    dpkg = DPKG.replace("foo\tamd64\tii ", "foo\tamd64\tiF ")
    monkeypatch.setitem(globals(), "DPKG", dpkg)
    found = apt.Apt(Commands(pkg_list_repos={}), {}, {}).inventory()
    assert [key for key, there in found.items() if there.get("broken")] == ["foo"]


def test_apt_releases_its_own_holds(place):
    commands = Commands()
    place.write_text(
        f"Explanation: package state, kept, {HELD}\nPackage: bar\n"
        "Pin: version 1:0.5\nPin-Priority: 1001\n"
    )
    manager = apt.Apt(commands, {}, {})
    assert not manager.held("bar")
    assert manager.locks([items.make("bar", "kept")]) == {}
    manager.locks([])
    assert ("run", ["apt-mark", "unhold", "bar"]) in commands.calls


@pytest.mark.skipif(
    importlib.util.find_spec("salt.utils.pkgset") is None,
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
    before = saltext.package_states.minion.pkgset.digest(str(status))[0]
    with saltext.package_states.minion.pkgset.own_changes(opts):
        pass
    manager = apt.Apt(Marks(), opts, {})
    manager.locks([items.make("foo", "kept")])
    after = saltext.package_states.minion.pkgset.digest(str(status))[0]
    with saltext.package_states.minion.pkgset.own_changes(opts) as pairs:
        assert pairs == [(before, after)]


def test_other_systems_are_refused():
    with pytest.raises(PackageStateError):
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
    assert package_state.installed("foo", "", "")["result"] is True
    assert package_state.installed("foo", "{{ 1 }}")["result"] is False
    assert package_state.installed("foo", "=7")["result"] is False
    assert package_state.latest("nosuch")["result"] is False


def test_the_lock_of_dpkg_is_waited_for(place, monkeypatch):
    """
    A recovery, a purge and a hold beside another program do not say that they are done
    """
    waits, commands = [], Commands()
    monkeypatch.setattr("time.sleep", waits.append)
    busy = "dpkg: error: dpkg frontend lock was locked by another process with pid 7"

    def run(command, **_):
        if command[0] == "dpkg-query" or "--print-architecture" in command:
            return Commands().run(command)
        return {"retcode": 2, "stdout": "", "stderr": busy}

    commands.run = run
    manager = apt.Apt(commands, {}, {})
    with pytest.raises(PackageStateError, match="another program"):
        manager.recover({}, None)
    with pytest.raises(PackageStateError, match="another program"):
        manager.commit([Step("gone", REMOVE, purge=True)], [])
    assert sum(waits) == 120


def test_apt_names_what_needs_an_entry_too(place, monkeypatch):
    """
    Where a dependency has to have another version, and not where there is none
    """
    refused = (
        "The following packages have unmet dependencies:\n"
        " nginx : Depends: nginx-common (< 1.22.1-9+deb12u9.1~) but 1.22.1-9+deb12u11 is"
        " to be installed\n         Depends: libx (= 1) but it is not installable\n"
        "E: Unable to correct problems, you have held broken packages.\n"
    )
    manager = apt.Apt(Commands(), {}, {})
    answer = {"retcode": 100, "stdout": refused, "stderr": ""}
    real = manager.ask

    def ask(*command, **more):
        return answer if command[0] == "apt-get" else real(*command, **more)

    monkeypatch.setattr(manager, "ask", ask)
    steps, wanted = [Step("foo", INSTALL, "2.0")], [items.make("foo", "installed")]
    said = manager.solve(steps, wanted).problem
    assert said.endswith(
        " Add an entry for nginx-common, with the version that it needs."
    )
    answer["stdout"] = "E: Broken packages\n"
    assert manager.solve(steps, wanted).problem == "E: Broken packages"
