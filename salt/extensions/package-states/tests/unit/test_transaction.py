# pylint: disable=dangerous-default-value,no-member
import itertools

import pytest
import saltext.package_states.managers.journal as journal
import saltext.package_states.minion.transaction as transaction
import saltext.package_states.model.item as items
import saltext.package_states.modules.package_state as modules
import saltext.package_states.states.package_state as package_state
from saltext.package_states.errors import PackageStateError
from saltext.package_states.managers.base import Manager, Solution, Step
from saltext.package_states.minion.transaction import MOST, Choice
from saltext.package_states.model.decision import INSTALL, Facts


def _steps(names):
    return [Step(name, INSTALL, "1") for name in names]


def test_choice_of_what_is_possible():
    """
    A bad one among many, which the message may name or not, and pairs that need each other
    """
    names = [f"p{number:02d}" for number in range(30)]
    for bad, named in itertools.product((["p07"], ["p00", "p29"]), (True, False)):
        asked = []

        def check(steps, bad=bad, named=named, asked=asked):
            asked.append(steps)
            there = {step.key for step in steps}
            wrong = sorted(there & set(bad))
            # p10 and p20 need each other
            if len(there & {"p10", "p20"}) == 1:
                return "p10 and p20 need each other"
            return f"no: {wrong if named else ''}" if wrong else ""

        chosen, refused = Choice(check).made(_steps(names))
        left = {step.key for step in chosen}
        assert set(refused) == set(names) - left
        assert set(bad) <= set(refused)
        if named or bad == ["p07"]:
            assert set(refused) - {"p10", "p20"} == set(bad)
        assert len(asked) <= MOST
        if named:
            assert len(asked) < 10


def test_coupled_packages_are_not_parted_for_good():
    names = [f"p{number}" for number in range(8)]

    def check(steps):
        there = {step.key for step in steps}
        if "p3" in there:
            return "something is wrong"
        return "" if there >= {"p0", "p7"} or not there & {"p0", "p7"} else "parted"

    chosen, refused = Choice(check).made(_steps(names))
    assert list(refused) == ["p3"]
    assert [step.key for step in chosen] == [name for name in names if name != "p3"]


class Fake(Manager):  # pylint: disable=abstract-method
    """
    A package manager of which packages are only names
    """

    name = "apt"

    def __init__(self, there, available, needs=(), breaks=()):
        super().__init__({}, {}, {})
        self.there = dict(there)
        self.available = available
        self.needs = dict(needs)
        self.breaks = breaks
        self.calls = []

    def fetch(self, keys):
        pass

    def installed(self):
        return {key: (version,) for key, version in self.there.items()}

    def facts(self, key):
        there = (self.there[key],) if key in self.there else ()
        offered = tuple(self.available.get(key, ()))
        return Facts("apt", there, offered, offered[0] if offered else "")

    def held(self, key):
        return key == "held"

    def essential(self, key):
        return key == "core"

    def unread(self):
        return self.lost

    lost = ()

    def providers(self, name):
        return []

    def solve(self, steps, items, scope=""):
        gone = {step.key for step in steps if step.action != INSTALL}
        also = {
            key
            for key, need in self.needs.items()
            if need in gone and key in self.there
        }
        return Solution(tuple(sorted(gone | also)))

    def commit(self, steps, items, scope=""):
        self.calls.append([step.key for step in steps])
        gone = self.solve(steps, items).removed
        for key in gone:
            self.there.pop(key, None)
        for step in steps:
            if step.action == INSTALL and step.key not in self.breaks:
                self.there[step.key] = step.version
        return "broken" if {step.key for step in steps} & set(self.breaks) else ""


@pytest.fixture(autouse=True)
def notes(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "FOLDER", str(tmp_path))


def _items(*rows):
    return items.ordered(items.make(*row) for row in rows)


def test_all_is_one_call():
    manager = Fake(
        {"aa": "1", "bb": "1", "app": "1"}, {"aa": ["2"], "cc": ["1"]}, {"app": "bb"}
    )
    made = transaction.plan(
        manager, _items(("aa", "latest"), ("bb", "removed"), ("cc", "installed"))
    )
    assert made.also == {"bb": ["app"]}
    found = transaction.run(manager, made)
    assert manager.calls == [["bb", "aa", "cc"]]
    assert set(found.changes) == {"aa", "bb", "cc", "app"}
    assert found.said == ""
    assert journal.unfinished()["steps"][0] == ["bb", "remove", "1"]


def test_a_plan_says_what_becomes_of_a_package(monkeypatch):
    """
    Not only that a version is installed; what gets no other version is only mended
    """
    offered = {"up": ["2"], "down": ["1"], "new": ["1"], "half": ["1"]}
    manager = Fake({"up": "1", "down": "2", "gone": "1", "half": "1"}, offered)
    facts = manager.facts
    monkeypatch.setattr(
        manager, "facts", lambda key: facts(key)._replace(broken=key == "half")
    )
    monkeypatch.setattr(modules, "_manager", lambda: manager)
    rows = [["up", "installed", "=2", ""], ["down", "installed", "=1", ""]]
    rows += [["new", "present", "", ""], ["half", "present", "", ""]]
    rows += [["gone", "removed", "", ""], ["core", "installed", "", ""]]
    locks, asked = {"up": {"old": "only 1", "new": "only 2"}}, []
    locks.update(free={"old": "only 1", "new": ""}, bolt={"old": "", "new": "not *"})
    monkeypatch.setattr(
        manager,
        "locks",
        lambda *one: asked.append((*one[1:], manager.left)) or locks,
        raising=False,
    )
    found = modules.plan(rows, (), ["torn"])
    # as the state of the locks asks, see what it says with test=True
    assert asked == [(True, ["gone", "up", "down", "new", "half"], ("torn",))]
    assert found["free"]["reason"] == "its lock is only 1, and would be none"
    words = {key: one["action"] for key, one in found.items()}
    assert words == {
        "free": "unlock",
        "bolt": "lock",
        "up": "upgrade",
        "down": "downgrade",
        "new": "install",
        "half": "reinstall",
        "gone": "remove",
        "core": "impossible",
    }


def test_what_must_not_go_is_left_and_the_rest_is_done():
    manager = Fake(
        {"lib": "1", "app": "1", "core": "1", "xx": "1", "held": "1", "yy": "1"},
        {"new": ["1"]},
        {"app": "lib", "held": "yy"},
    )
    rows = (
        ("lib", "removed"),
        ("app", "installed"),
        ("core", "removed"),
        ("xx", "removed"),
        ("new", "latest"),
        ("yy", "removed"),
    )
    made = transaction.plan(manager, _items(*rows))
    assert set(made.refused) == {"lib", "core", "yy"}
    assert "app would go too" in made.refused["lib"]
    assert "core must not be removed" in made.refused["core"]
    assert "held would have to change" in made.refused["yy"]
    transaction.run(manager, made)
    assert manager.calls == [["xx", "new"]]


def test_one_that_breaks_is_told_and_the_others_are_tried_again():
    manager = Fake({}, {"aa": ["1"], "bad": ["1"]}, breaks=("bad",))
    made = transaction.plan(manager, _items(("aa", "installed"), ("bad", "installed")))
    found = transaction.run(manager, made)
    assert manager.calls == [["aa", "bad"], ["bad"]]
    assert found.said == "broken"
    assert {key: one.action for key, one in found.decisions.items()} == {
        "aa": "nothing",
        "bad": "install",
    }


def test_what_asks_repositories_that_cannot_be_read_is_left_as_it_is():
    manager = Fake({"aa": "1", "bb": "1", "cc": "1"}, {"aa": ["2"], "dd": ["1"]})
    manager.lost = ("base", "updates")
    rows = (
        ("aa", "latest"),
        ("bb", "removed", "<2"),
        ("cc", "installed"),
        ("dd", "removed", "=1"),
    )
    made = transaction.plan(manager, _items(*rows))
    assert {key: one.action for key, one in made.decisions.items()} == {
        "aa": "impossible",
        "bb": "impossible",
        "cc": "nothing",
        "dd": "nothing",
    }
    assert "the repositories base, updates" in made.decisions["aa"].reason


def test_recovery_removes_nothing_that_the_killed_run_did_not_change():
    told = []

    class Recovering(Fake):
        def recover(self, _, check):
            told.extend(check(Solution(removed=(one,))) for one in ("aa", "bb", "core"))
            told.append(check(Solution(changed=("held",))))
            told.append(check(Solution()))
            del self.there["aa"]

    manager = Recovering({"aa": "1", "bb": "1", "core": "1"}, {})
    notes = {"steps": [["aa", "install", "2"], ["core", "install", "1"]]}
    found = transaction.recover(manager, _items(("cc", "installed")), notes)
    assert found == {"aa": {"old": "1", "new": ""}}
    assert [bool(one) for one in told] == [False, True, True, True, False]


@pytest.fixture
def configure_loader_modules():
    return {
        package_state: {
            "__opts__": {"test": False, "cachedir": "/nowhere"},
            "__grains__": {"os_family": "Debian"},
            "__context__": {},
            "__salt__": {},
        }
    }


@pytest.fixture
def fake(monkeypatch):
    """
    Yield what makes the state module work with a fake
    """

    def take(manager):
        manager.locked = []
        manager.locks = (
            lambda entries, *rest: manager.locked.append([e.key for e in entries]) or {}
        )
        manager.killed = []
        manager.recover = lambda notes, check: manager.killed.append(notes)
        manager.loose = list
        monkeypatch.setattr(package_state.managers, "get", lambda *_: manager)
        monkeypatch.setattr(
            package_state.salt.utils.pkg, "check_refresh", lambda _: False
        )
        return manager

    return take


def test_each_package_tells_what_became_of_it(fake):
    manager = fake(Fake({"aa": "1"}, {"aa": ["2"], "bb": ["1"]}))
    found = package_state.locks(
        "x",
        [
            ["aa", "latest", "", ""],
            ["bb", "installed", "", ""],
            ["cc", "latest", "", ""],
        ],
    )
    assert found["result"] is True
    assert manager.calls == [["aa", "bb"]]
    one = package_state.latest("aa", source="group g: s")
    assert one["comment"] == "aa is 2 now (from group g: s)."
    assert one["changes"] == {"aa": {"old": "1", "new": "2"}}
    assert package_state.installed("bb")["changes"] == {"bb": {"old": "", "new": "1"}}
    assert package_state.latest("cc")["result"] is False
    # each is told once
    assert package_state.latest("aa")["result"] is False
    assert manager.calls == [["aa", "bb"]]
    assert journal.unfinished() is None


@pytest.mark.parametrize(
    "test, keys, said",
    (
        (True, "a", "1 lock would be changed."),
        (True, "ab", "2 locks would be changed."),
        (False, "a", "1 lock was changed."),
        (False, "ab", "2 locks were changed."),
    ),
)
def test_one_lock_is_one(fake, monkeypatch, test, keys, said):
    manager = fake(Fake({}, {}))
    change = {"old": "", "new": "not *"}
    manager.locks = lambda *_: dict.fromkeys(keys, change)
    monkeypatch.setitem(package_state.__opts__, "test", test)
    assert package_state.locks("x", [])["comment"] == said


def test_an_inventory_names_what_somebody_else_holds(monkeypatch):
    manager = Fake({}, {})
    there = {"versions": [], "held": True}
    manager.inventory = lambda: {"held": there, "mine": there}
    for nothing in ("digests", "security"):
        monkeypatch.setattr(manager, nothing, lambda: None, raising=False)
    monkeypatch.setattr(modules, "_manager", lambda: manager)
    assert modules.inventory()["held_by_others"] == ["held"]
    manager.inventory = lambda: {"mine": there}
    assert "held_by_others" not in modules.inventory()


def test_a_package_that_no_state_of_locks_has_planned_is_left_as_it_is(fake):
    """
    Nor does it take the notes of a run that was killed
    """
    manager = fake(Fake({}, {"aa": ["1"]}))
    journal.begin({"steps": []})
    found = package_state.installed("aa")
    assert (found["result"], found["changes"], manager.calls) == (False, {}, [])
    assert "package_state.locks" in found["comment"]
    assert journal.unfinished() == {"steps": []}


def test_a_killed_run_is_recognised(fake, monkeypatch):
    manager = fake(Fake({}, {"aa": ["1"]}))
    journal.begin({"steps": []})
    monkeypatch.setitem(package_state.__opts__, "test", True)
    found = package_state.locks("x", [["aa", "installed", "", ""]])
    assert "ended too early" in found["comment"] and manager.killed == []
    assert journal.unfinished() is not None
    monkeypatch.setitem(package_state.__opts__, "test", False)
    found = package_state.locks("x", [["aa", "installed", "", ""]])
    assert "ended too early" in found["comment"]
    assert manager.killed == [{"steps": []}]
    assert journal.unfinished() is None
    assert "too early" not in package_state.locks("x", [])["comment"]


def test_notes_that_are_cut_off(tmp_path):
    (tmp_path / journal.NAME).write_text('{"steps": [["aa"')
    assert journal.unfinished() == {}
    journal.end()
    journal.end()
    assert journal.unfinished() is None


def test_two_states_of_one_run_that_disagree(fake, monkeypatch):
    manager = fake(Fake({}, {"aa": ["1"], "bb": ["1"]}))
    rows = {
        "one": [["aa", "installed", "", ""]],
        "two": [["aa", "removed", "", ""], ["bb", "latest", "", ""]],
    }
    chunks = [
        {"state": "package_state", "fun": "locks", "scope": name, "packages": some}
        for name, some in rows.items()
    ]
    monkeypatch.setattr(package_state, "__lowstate__", chunks, raising=False)
    found = package_state.locks("x", rows["two"], scope="two")
    assert found["result"] is False
    assert "aa: one wants something else" in found["comment"]
    assert manager.calls == [["bb"]]


def test_without_a_plan_no_package_is_changed(fake, monkeypatch):
    """
    What all together could not is not tried one by one
    """
    manager = fake(Fake({}, {"aa": ["1"], "bb": ["1"]}))

    def fail(keys):
        raise PackageStateError("dnf was ended by signal 9")

    monkeypatch.setattr(manager, "fetch", fail)
    rows = [["aa", "installed", "", ""], ["bb", "latest", "", ""]]
    assert package_state.locks("x", rows)["result"] is False
    for found in (package_state.installed("aa"), package_state.latest("bb")):
        assert (found["result"], found["changes"]) == (False, {})
        assert "the state of the locks failed" in found["comment"]
    assert manager.calls == []


def test_a_bare_name_is_removed_in_all_architectures(fake):
    manager = fake(
        Fake({"aa": "1", "aa:i386": "1", "bb:i386": "1", "cc:i386": "1"}, {})
    )
    rows = [["aa", "removed", "", ""], ["bb", "removed", "", ""]]
    assert package_state.locks("x", rows)["changes"] == {}
    for name in ("aa", "bb"):
        found = package_state.removed(name)
        assert found["result"] is True
        assert found["changes"][f"{name}:i386"] == {"old": "1", "new": ""}
    assert manager.there == {"cc:i386": "1"}
    # but what is named by itself is not
    rows = [["cc", "removed", "", ""], ["cc:i386", "installed", "", ""]]
    package_state.locks("x", rows)
    assert manager.there == {"cc:i386": "1"}


def test_one_architecture_that_must_stay_fails_the_bare_name(fake):
    manager = fake(
        Fake({"aa": "1", "aa:i386": "1", "held": "1"}, {}, {"held": "aa:i386"})
    )
    found = package_state.locks("x", [["aa", "removed", "", ""]])
    assert manager.there == {"aa:i386": "1", "held": "1"}
    state = package_state.removed("aa")
    assert state["result"] is False and "held" in state["comment"]
    assert found["result"] is True


def test_a_name_that_another_package_provides_is_not_absent(monkeypatch):
    manager = Fake({"exim": "1"}, {"real": ["1"]})
    monkeypatch.setattr(manager, "providers", lambda name: ["exim"])
    made = transaction.plan(manager, _items(("mta", "removed"), ("real", "removed")))
    assert made.decisions["mta"].action == "impossible"
    assert "exim provides it" in made.decisions["mta"].reason
    assert made.decisions["real"].action == "nothing"
