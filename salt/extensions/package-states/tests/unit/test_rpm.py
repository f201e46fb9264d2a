# pylint: disable=dangerous-default-value
import json

import pytest
import saltext.package_states.managers.dnf as dnf
import saltext.package_states.managers.journal as journal
import saltext.package_states.managers.rpm as rpm
import saltext.package_states.managers.zypper as zypper
import saltext.package_states.minion.replace as replace
import saltext.package_states.model.item as items
from saltext.package_states.errors import PackageStateError
from saltext.package_states.managers.base import Step
from saltext.package_states.model.decision import INSTALL, REMOVE

import salt.utils.files


class Machine:
    """
    The execution modules of a minion with rpm: what is installed, what is available
    """

    def __init__(self, installed, available, repos=None):
        self.installed = list(installed)
        self.available = available
        self.repos = repos or {}
        self.commands = []
        self.answers = {}

    def __getitem__(self, name):
        return {
            "cmd.run_all": self.run,
            "pkg.list_repos": lambda: self.repos,
            "config.get": lambda *_: False,
        }[name]

    def run(self, command, **_):
        self.commands.append(command)
        for word, answer in self.answers.items():
            if word in command:
                return {"retcode": 0, "stdout": "", "stderr": "", **answer}
        out = ""
        if "--whatprovides" in command:
            return {"retcode": 1, "stdout": "no package provides it", "stderr": ""}
        if command[0] == "rpm":
            out = "".join(
                f"{name}\t{version if ':' in version else '0:' + version}\t{arch}\n"
                for name, version, arch in self.installed
            )
        elif "repoquery" in command:
            out = "".join(
                f"{name}\t{version if ':' in version else '0:' + version}\t{arch}\t{repo}\n"
                for name, version, arch, repo in self.available
            )
        elif "search" in command:
            out = "".join(
                f'<solvable status="x" name="{name}" kind="package" edition="{version}"'
                f' arch="{arch}" repository="{repo}"/>\n'
                for name, version, arch, repo in self.available
            )
        return {"retcode": 0, "stdout": out, "stderr": ""}


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.setattr(rpm, "RECORD", str(tmp_path / "lib" / "package_states.json"))
    monkeypatch.setattr(journal, "FOLDER", str(tmp_path / "lib"))
    monkeypatch.setattr(zypper, "CONF", str(tmp_path / "zypp.conf"))
    monkeypatch.setattr(zypper, "LOCKS", str(tmp_path / "zypp" / "locks"))
    (tmp_path / "plugins").mkdir()
    monkeypatch.setattr(dnf, "MAIN", str(tmp_path / "dnf.conf"))
    monkeypatch.setattr(dnf, "CONF", str(tmp_path / "plugins" / "versionlock.conf"))
    monkeypatch.setattr(dnf, "LOCKS", str(tmp_path / "plugins" / "versionlock.list"))
    return tmp_path


FOO = [
    ("foo", "1.0-1", "noarch"),
    ("old", "1.0-1", "noarch"),
    ("other", "1-1", "noarch"),
]
REPO = [
    ("foo", "2.0-1", "noarch", "r"),
    ("foo", "1.0-1", "noarch", "r"),
    ("old", "2.0-1", "noarch", "r"),
]
OTHERS = {
    zypper.Zypper: "\ntype: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: other\n\n",
    dnf.Dnf: "\n# Added lock on a day\nother-0:1-1.*\n",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_locks_and_releases(places, kind):
    """
    What is right is locked, what is not keeps what it had, and what others locked stays
    """
    machine = Machine(FOO, REPO)
    manager = kind(machine, {}, {})
    path = manager.file().path
    journal.write(path, {})
    with salt.utils.files.fopen(path, "w", encoding="utf-8") as handle:
        handle.write(OTHERS[kind])
    wanted = [
        items.make("foo", "installed", "<2.0"),
        items.make("old", "installed", ">=2.0"),
        items.make("away", "removed"),
        items.make("other", "kept"),
    ]
    assert set(manager.locks(wanted, test=True)) == {"foo", "away"}
    assert manager.file().text(manager.file().read(), ()) == OTHERS[kind]
    assert set(manager.locks(wanted)) == {"foo", "away"}
    assert {lock.name for lock in manager.file().read()} == {"foo", "away", "other"}
    assert manager.locks(wanted) == {}
    assert set(json.loads((places / "lib" / "package_states.json").read_text())) == {
        "foo",
        "away",
    }
    assert manager.held("other") and not manager.held("foo")
    assert manager.decide(items.make("other", "removed")).action == "impossible"
    machine.installed[1] = ("old", "2.0-1", "noarch")
    manager.forget()
    assert set(manager.locks(wanted)) == {"old"}
    # impossible: it keeps its lock
    again = [items.make("foo", "installed", ">=9"), *wanted[1:]]
    assert manager.locks(again) == {}
    manager.locks([])
    assert manager.file().text(manager.file().read(), ()) == OTHERS[kind]


# what an administrator locked, which leaves other versions free
FREE = {
    zypper.Zypper: (
        "type: package\nversion: > 5\nsolvable_name: foo\n\n"
        "type: package\nsolvable_name: ol*\n\ntype: patch\nsolvable_name: other\n"
    ),
    dnf.Dnf: "!foo-0:5-1.*\nol*\n",
}


@pytest.mark.parametrize("kind", FREE)
def test_a_lock_of_others_that_leaves_versions_free_is_no_lock(places, kind):
    """
    Salt sets its own beside it, and takes that alone away again
    """
    manager = kind(Machine(FOO, REPO), {}, {})
    journal.write(manager.file().path, {})
    with salt.utils.files.fopen(manager.file().path, "w", encoding="utf-8") as handle:
        handle.write(FREE[kind])
    before = {lock.id for lock in manager.file().read()}
    assert manager.held("foo") and manager.held("old") and not manager.held("other")
    rows = [items.make("foo", "installed"), items.make("away", "removed")]
    assert set(manager.locks(rows)) == {"foo", "away"}
    assert {lock.name for lock in manager.file().read()} >= {"foo", "away", "ol*"}
    assert manager.locks(rows) == {}
    manager.locks([])
    assert {lock.id for lock in manager.file().read()} == before


@pytest.mark.parametrize("kind", OTHERS)
def test_a_run_that_was_killed_between_record_and_locks(places, kind, monkeypatch):
    """
    Whatever was written by then, the next run owns all locks of the one before
    """
    for stop in range(4):
        manager = kind(Machine(FOO, REPO), {}, {})
        manager.locks([])
        manager.locks([items.make("foo", "installed")])
        written = []

        def put(
            place, text, mode=0o644, *, real=replace.put, stop=stop, written=written
        ):
            if len(written) == stop:
                raise KeyboardInterrupt
            written.append(place)
            real(place, text, mode)

        with monkeypatch.context() as patch:
            patch.setattr(replace, "put", put)
            try:
                manager.locks(
                    [items.make("old", "installed"), items.make("away", "removed")]
                )
            except KeyboardInterrupt:
                assert stop < 3
        manager = kind(Machine(FOO, REPO), {}, {})
        assert not manager.held("foo") and not manager.held("old")
        manager.locks([items.make("old", "installed"), items.make("away", "removed")])
        assert {lock.name for lock in manager.file().read()} == {"old", "away"}


def test_locks_of_versions(places):
    machine = Machine(
        [], [("foo", one, "noarch", "r") for one in ("1.0-1", "1.5-1", "2.0-1")]
    )
    rows = [
        ("<=1.5", ["foo<=1.5"], ["!foo-1.5-1", "!foo-1.0-1"]),
        ("=1.0", ["foo=1.0"], ["!foo-1.0-1"]),
        ("=7", ["foo=7"], ["!foo-7"]),
        ("!=2.0", ["foo=1.5-1", "foo=1.0-1"], ["!foo-1.5-1", "!foo-1.0-1"]),
        ("1.*", ["foo=1.5-1", "foo=1.0-1"], ["!foo-1.5-1", "!foo-1.0-1"]),
    ]
    for bounds, zypp, versionlock in rows:
        entry = items.make("foo", "removed", bounds)
        for kind, expected in ((zypper.Zypper, zypp), (dnf.Dnf, versionlock)):
            manager = kind(machine, {}, {})
            manager.locks([entry])
            assert sorted(lock.id for lock in manager.file().read()) == sorted(expected)
            manager.locks([])


@pytest.mark.parametrize("kind", OTHERS)
def test_priorities(places, kind):
    """
    The candidate is that of the repository that counts most
    """
    repos = {"good": {"name": "Good", "priority": "10"}, "r": {"name": "r"}}
    good = "Good" if kind is zypper.Zypper else "good"
    available = [("foo", "1.5-1", "noarch", good), ("foo", "2.0-1", "noarch", "r")]
    facts = kind(Machine([], available, repos), {}, {}).facts("foo")
    assert (facts.candidate, facts.available) == ("1.5-1", ("2.0-1", "1.5-1"))


def test_zypper_is_asked_once_for_all_with_epochs(places):
    machine = Machine(FOO, REPO)
    manager = zypper.Zypper(machine, {}, {})
    steps = [Step("old", REMOVE, "1.0-1"), Step("foo", INSTALL, "1:0.5-1")]
    manager.commit(steps, [])
    changes = [
        one for one in machine.commands if "--dry-run" not in one and "install" in one
    ]
    assert [one[-2:] for one in changes] == [["!old", "foo=1:0.5-1"]]


def test_what_zypper_says_is_told(places):
    machine = Machine(FOO, REPO)
    text = (
        '<message type="info">Problem: conflicting requests</message><prompt id="1">'
        "<description>Problem: conflicting requests\n Solution 1: remove lock to allow removal of"
        " foo-1.0-1.noarch\n</description></prompt>"
    )
    machine.answers["install"] = {"retcode": 4, "stdout": text}
    found = zypper.Zypper(machine, {}, {}).solve([Step("foo", INSTALL, "2.0-1")], [])
    assert "remove lock to allow removal of foo-1.0-1" in found.problem


def test_what_zypper_removes_with_others(places):
    """
    The dependants are named to it, as it removes none by itself
    """
    machine = Machine(FOO, REPO)
    summary = "<install-summary><to-remove>{}</to-remove></install-summary>"
    rows = '<solvable type="package" name="foo" arch="noarch"/><solvable type="package" name="app" arch="noarch">'

    def run(command, **_):
        machine.commands.append(command)
        if "install" in command and "!app" not in command:
            return {
                "retcode": 4,
                "stdout": "<description>Problem: app\n requires foo</description>",
                "stderr": "",
            }
        if "--dry-run" in command:
            return {"retcode": 0, "stdout": summary.format(rows), "stderr": ""}
        return Machine.run(machine, command)

    machine.run = run
    manager = zypper.Zypper(machine, {}, {})
    steps = [Step("foo", REMOVE, "1.0-1")]
    assert manager.solve(steps, []).removed == ("app", "foo")
    manager.commit(steps, [])
    assert machine.commands[-1][-2:] == ["!foo", "!app"]


TABLE = """\
================================================================================
 Package        Arch   Version   Repository   Size
================================================================================
Upgrading:
 bar            noarch 2.0-1     r            5 k
Removing:
 foo            x86_64 1-1       @r           1 k
Removing dependent packages:
 app            noarch 1-1       @r           1 k
 a-package-whose-name-is-too-long-for-the-column-in-which-it-stands
                noarch 1-1       @r           1 k

Transaction Summary
================================================================================
Error: Operation aborted.
"""


def test_what_dnf_would_remove(places):
    machine = Machine(FOO, REPO)
    machine.answers["--assumeno"] = {"stdout": TABLE}
    found = dnf.Dnf(machine, {}, {}).solve([Step("foo", REMOVE, "1-1")], [])
    long = "a-package-whose-name-is-too-long-for-the-column-in-which-it-stands"
    assert found.removed == (long, "app", "foo")
    assert found.changed == ("bar",)
    assert found.problem == ""


@pytest.mark.parametrize(
    "stdout,stderr,part",
    (
        (
            "",
            "Error: Failed to download metadata for repo 'r': Cannot download",
            "Cannot download",
        ),
        ("Error: Unable to find a match: foo\nNothing to do.\n", "", "Unable to find"),
        (
            " Problem: package foo requires bar\nTransaction Summary\nSkip  1 Package\n",
            "",
            "requires bar",
        ),
        ("", "", "makecache"),
    ),
)
def test_dnf_that_fails_is_no_dnf_that_removes_nothing(places, stdout, stderr, part):
    machine = Machine(FOO, REPO)
    machine.answers["--assumeno"] = {"stdout": stdout, "stderr": stderr}
    found = dnf.Dnf(machine, {}, {}).solve([Step("foo", REMOVE, "1-1")], [])
    assert part in found.problem


def test_locks_that_are_not_in_force(places):
    """
    What is written is no lock until the package manager says so
    """
    machine = Machine(FOO, REPO)
    manager = dnf.Dnf(machine, {}, {})
    assert manager.loose() == []
    manager.locks([items.make("foo", "installed")])
    machine.answers["versionlock"] = {"retcode": 1, "stderr": "No such command: x"}
    assert "python3-dnf-plugin-versionlock" in manager.loose()[0]
    (places / "plugins" / "versionlock.conf").write_text("[main]\nenabled = 0\n")
    assert "versionlock.conf says enabled = 0" in manager.loose()[0]
    machine.answers["versionlock"]["stderr"] = "Error: Locklist not set"
    assert "Locklist not set" in manager.loose()[0]
    machine.answers["versionlock"] = {"stdout": "bar-0:1-1.*\n"}
    assert "foo-0:1.0-1.* is not in force" in manager.loose()[0]
    machine.answers["versionlock"] = {"stdout": "foo-0:1.0-1.*\n"}
    assert manager.loose() == []
    zypp = zypper.Zypper(machine, {}, {})
    zypp.locks([items.make("foo", "installed")])
    assert "foo is not in force" in zypp.loose()[0]
    machine.answers["locks"] = {"stdout": '<lock number="1"><name>foo</name></lock>'}
    assert zypp.loose() == []
    (places / "zypp.conf").write_text("[main]\nlocksfile.apply = no\n")
    assert "locksfile.apply" in zypp.loose()[0]


def test_old_versions_that_a_killed_rpm_left_are_erased(places):
    """
    Those of packages of which the manager said that it replaces them, and no others
    """
    rows = [
        ("foo", "2.0-1", "noarch"),
        ("foo", "1.0-1", "noarch"),
        ("kernel", "5-1", "x86_64"),
        ("kernel", "6-1", "x86_64"),
        ("lib", "1-1", "x86_64"),
        ("lib", "1-1", "i686"),
        ("late", "1-1", "noarch"),
    ]
    machine = Machine(rows, [])
    manager = dnf.Dnf(machine, {}, {})
    replaced = {"foo": ["2.0-1"], "lib": ["1-1"], "late": ["1-1"]}
    assert manager.leftovers({"replaced": replaced}) == ["foo-2.0-1.noarch"]
    manager.recover({"replaced": replaced}, None)
    # as a run of before has written it
    manager.recover({"several": []}, None)
    erased = [command for command in machine.commands if "--erase" in command]
    assert erased == [["rpm", "--erase", "--nodeps", "foo-2.0-1.noarch"]]


@pytest.mark.parametrize("kind", OTHERS)
def test_versions_that_vanish_from_repositories_stay_locked_out(places, kind):
    machine = Machine([], [("foo", one, "noarch", "r") for one in ("1.0-1", "1.5-1")])
    manager = kind(machine, {}, {})
    manager.locks([items.make("foo", "removed", "!=2.0")])
    before = sorted(lock.id for lock in manager.file().read())
    assert len(before) == 2
    machine.available = []
    manager.refreshed()
    assert manager.locks([items.make("foo", "removed", "!=2.0")]) == {}
    # but not what may be there now
    manager.locks([items.make("foo", "removed", "!=1.0")])
    assert [lock.id for lock in manager.file().read()] == [
        one for one in before if "1.5" in one
    ]


def test_zypper_that_is_busy_does_not_say_that_there_is_nothing(places):
    machine = Machine(FOO, REPO)
    text = '<message type="error">System management is locked</message>'
    machine.answers["search"] = {"retcode": 7, "stdout": text}
    manager = zypper.Zypper(machine, {}, {})
    with pytest.raises(PackageStateError, match="management is locked"):
        manager.facts("foo")
    with pytest.raises(PackageStateError, match="management is locked"):
        manager.inventory()


@pytest.mark.parametrize(
    "kind,word,answer",
    (
        (dnf.Dnf, "repoquery", {"stderr": "Ignoring repositories: gone\n"}),
        (
            zypper.Zypper,
            "search",
            {
                "retcode": 106,
                "stdout": "Skipping repository &apos;gone&apos; because of the above",
            },
        ),
    ),
)
def test_a_repository_that_cannot_be_read_is_no_empty_one(places, kind, word, answer):
    machine = Machine(FOO, REPO)
    machine.answers[word] = answer
    manager = kind(machine, {}, {})
    assert manager.decide(items.make("foo", "latest")).action == "impossible"
    assert manager.decide(items.make("foo", "installed")).action == "nothing"
    assert manager.unread() == ("gone",)
    with pytest.raises(PackageStateError, match="the repository gone can't be read"):
        manager.inventory()


@pytest.mark.parametrize("kind", OTHERS)
def test_what_gives_way_to_another_version(places, kind):
    """
    An installonly package comes beside the one that is there
    """
    machine = Machine(FOO, REPO)
    row = '<solvable type="package" name="{}" arch="noarch"/>'
    machine.answers["--assumeno"] = {
        "stdout": TABLE.replace(
            "Removing:", "Installing:\n kernel x86_64 2-1 r 1 k\nRemoving:"
        )
    }
    machine.answers["--dry-run"] = {
        "stdout": f"<to-upgrade>{row.format('bar')}</to-upgrade>"
        f"<to-install>{row.format('kernel')}</to-install>"
    }
    steps = [Step("bar", INSTALL, "2.0-1"), Step("kernel", INSTALL, "2-1")]
    assert kind(machine, {}, {}).solve(steps, []).replaced == ("bar",)


def test_inventory(places):
    installed = [
        ("foo", "1-1", "noarch"),
        ("lone", "1-1", "noarch"),
        ("lib", "1-1", "i686"),
    ]
    available = [
        ("foo", "1-1", "noarch", "r"),
        ("foo", "10-1", "noarch", "s"),
        ("foo", "2-1", "noarch", "s"),
        ("lib", "1-1", "i686", "r"),
        ("lone", "1-1", "noarch", "(System Packages)"),
    ]
    manager = zypper.Zypper(Machine(installed, available), {}, {})
    manager.locks([items.make("foo", "installed")])
    found = manager.inventory()
    assert found["foo"]["candidate"] == "10-1" and found["foo"]["held"]
    assert found["foo"]["available"] == ["10-1", "2-1", "1-1"]
    assert found["lone"]["available"] == [] and found["lone"]["candidate"] == ""
    assert found["lone"]["orphan"] and not found["foo"]["orphan"]
    assert found["lib:i686"]["versions"] == ["1-1"]


def test_dnf_reads_the_lists_anew_with_its_next_answer(places):
    """
    Once, and not by a command of its own
    """
    machine = Machine(FOO, REPO)
    manager = dnf.Dnf(machine, {}, {})
    manager.refresh()
    manager.fetch(["foo"])
    manager.fetch(["old"])
    asked = [
        "--refresh" in command for command in machine.commands if command[0] == "dnf"
    ]
    assert asked == [True, False]


def test_dnf_does_not_wait_for_ever(places, monkeypatch):
    """
    Another one at work is waited for, a minute
    """
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    machine = Machine(FOO, REPO)
    machine.answers["--assumeyes"] = {"retcode": dnf.LOCKED}
    steps = [Step("foo", INSTALL, "2.0-1")]
    with pytest.raises(PackageStateError, match="another program"):
        dnf.Dnf(machine, {}, {}).commit(steps, [])
    assert sum(waits) == 60
    machine.answers["repoquery"] = {"retcode": dnf.LOCKED}
    with pytest.raises(PackageStateError, match="another program"):
        dnf.Dnf(machine, {}, {}).fetch(["foo"])
