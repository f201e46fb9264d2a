import contextlib
from types import SimpleNamespace

import pytest
import saltext.package_states.model.item as items
import saltext.package_states.status.owners as owners
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Minion
from saltext.package_states.errors import Conflict, InvalidInput
from saltext.package_states.model.resolver import GROUP, Source

SENT = ["new", "web"]


class Fleet:
    """
    Two minions, of which one has collided
    """

    collided = {"new": "old"}

    def __init__(self, *_):
        self.registry = SimpleNamespace(minions=lambda: ["new", "web"])

    def minions(self, ids):
        return {name: Minion(name, "apt") for name in ids}

    def halted(self, minion):
        return Conflict(f"{minion.id} stays") if minion.id != "web" else None

    def affected(self, state):
        return self.minions(["new", "web"])

    def sources(self, minions):
        entry = items.make("foo", "removed")
        there = [Source("front", "", GROUP, "b", 0, (entry,))]
        return {name: there for name in minions}

    def architecture(self, minion):
        return "amd64"


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    @contextlib.contextmanager
    def reading(opts):
        yield None

    def revisions(_, ids):
        entries = (items.make("foo", "removed"),)
        return {one: store.EMPTY._replace(number=1, items=entries) for one in ids}

    def ask(_, query, *__):
        if "unnest" not in query:
            return [(one,) for one in SENT]
        # as each query for lists, keys and all
        held = {"versions": ["0.9"], "held": True, "held_by_others": True}
        found = [("new", "foo", held), ("web", "foo", {"versions": ["1.0"]})]
        return [row for row in found if row[0] in SENT]

    monkeypatch.setattr(owners, "Fleet", Fleet)
    monkeypatch.setattr(store, "newest", revisions)
    monkeypatch.setattr(store, "reading", reading)
    monkeypatch.setattr(store, "ask", ask)
    state = store.State(1, "front", False)
    monkeypatch.setattr(store, "states", lambda _: [state])


def test_of_who_is_held_nobody_knows_what_is_wanted():
    """
    Its states collide; a removal wants a package gone
    """
    found = owners.page({}, "foo")
    assert found["minions"] == [
        {
            "minion": "new",
            "installed": "0.9",
            "held": True,
            "held_by_others": True,
            "halted": "new stays",
        },
        {
            "minion": "web",
            "installed": "1.0",
            "wanted": "removed",
            "source": "group b: front",
        },
    ]
    assert found["counts"] == {
        "minions": 2,
        "have it": 2,
        "lack it": 0,
        "not known": 0,
        "want it": 0,
        "want it gone": 1,
        "in conflict": 0,
        "halted": 1,
    }


def test_of_one_group(monkeypatch):
    """
    Also of those that are asked for by name
    """
    asked = []
    monkeypatch.setattr(
        owners.pages, "members", lambda _, group: asked.append(group) or ["web"]
    )
    for only in (None, ["new", "web"]):
        found = owners.page({}, "foo", only=only, group="b")
        assert [row["minion"] for row in found["minions"]] == ["web"]
    assert owners.page({}, "foo", only=["new"], group="b")["minions"] == []
    assert asked == ["b"] * 3


def test_of_who_never_sent_its_packages_nothing_is_known(monkeypatch):
    monkeypatch.setitem(globals(), "SENT", ["new"])
    found = owners.page({}, "foo")
    assert found["counts"]["have it"] == found["counts"]["not known"] == 1
    (web,) = (row for row in found["minions"] if row["minion"] == "web")
    assert (web["installed"], web["unknown"]) == ("", True)


def test_minions_that_lack_a_package(monkeypatch):
    """
    They are those that sent their packages, whether they want it or not
    """
    found = owners.page({}, "foo:i386", lacking=True)
    assert [row["minion"] for row in found["minions"]] == ["new", "web"]
    counts = found["counts"]
    assert (counts["lack it"], counts["minions"], counts["halted"]) == (2, 0, 0)
    monkeypatch.setitem(globals(), "SENT", ["new"])
    assert owners.page({}, "foo", lacking=True)["minions"] == []


def test_only_some_minions():
    """
    Those that have it not, and want nothing of it, too; who is not known is left out
    """
    for ids in (["web", "x"], ["new"], []):
        found = owners.page({}, "foo:i386", only=ids)["minions"]
        assert [row["minion"] for row in found] == [one for one in ids if one != "x"]
    found = owners.page({}, "foo", only=["web"])
    assert [row["installed"] for row in found["minions"]] == ["1.0"]
    assert (found["counts"]["minions"], found["counts"]["have it"]) == (1, 1)
    assert owners.page({}, "foo", lacking=True, only=["web"])["minions"] == []


def test_a_minion_calls_what_is_its_own_without_architecture():
    found = owners.page({}, "foo:amd64")["minions"]
    assert [row["installed"] for row in found] == ["0.9", "1.0"]
    assert [row["wanted"] for row in found if "wanted" in row] == ["removed"]
    found = owners.page({}, "foo:i386")["minions"]
    assert found == []


def test_only_versions_that_meet_a_condition(monkeypatch):
    """
    By the order of each minion's package manager; who has none of them is left out
    """
    monkeypatch.setattr(store, "platforms", lambda *_: {"new": "apt", "web": "dnf"})
    for condition, names in ((">0.9", ["web"]), ("<=1.0", ["new", "web"]), (">2", [])):
        found = owners.page({}, "foo", version=condition)
        assert [row["minion"] for row in found["minions"]] == names
        assert found["counts"]["have it"] == found["counts"]["minions"] == len(names)
        assert "hint" not in found
    assert owners.page({}, "foo", only=["new"], version=">0.9")["minions"] == []
    assert owners.page({}, "foo:i386", version="1.*")["minions"] == []
    with pytest.raises(InvalidInput, match="is no version"):
        owners.page({}, "foo", version="newest")
