import contextlib
from types import SimpleNamespace

import pytest
import saltext.package_states.generations as generations
import saltext.package_states.item as items
import saltext.package_states.owners as owners
import saltext.package_states.stages as stages
import saltext.package_states.store as store
from saltext.package_states.errors import Unapproved
from saltext.package_states.fleet import Minion
from saltext.package_states.resolver import GROUP, Source


class Fleet:
    """
    Three minions, of which one is held and another one has collided
    """

    stages = ("dev", "prod")
    final = frozenset({"held"})
    collided = {"new": "old"}

    def __init__(self, *_):
        self.registry = SimpleNamespace(minions=lambda: ["held", "new", "web"])

    def minions(self, ids):
        return {name: Minion(name, "apt") for name in ids}

    def halted(self, minion):
        return Unapproved(f"{minion.id} stays") if minion.id != "web" else None

    def affected(self, state):
        # one that is held is affected by its own state, one that has collided by all
        return self.minions(["held", "new", "web"])

    def sources(self, minions):
        entry = items.make("foo", "removed")
        there = [Source("front", "", GROUP, "b", 0, (entry,))]
        return {name: [] if name == "held" else there for name in minions}

    def architecture(self, minion):
        return "amd64"


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    @contextlib.contextmanager
    def reading(opts):
        yield None

    def newest(_, ids):
        entries = (items.make("bar", "removed"), items.make("foo", "installed", "=1.0"))
        made = generations.Generation(3, "ann", "", "", entries)
        return {name: made for name in ids if name == "held"}

    def revisions(_, ids, *__):
        entries = (items.make("foo", "removed"),)
        return {one: store.EMPTY._replace(number=1, items=entries) for one in ids}

    def ask(*_):
        # as each query for lists, keys and all
        return [("new", "foo", ["0.9"]), ("web", "foo", ["1.0"])]

    monkeypatch.setattr(owners, "Fleet", Fleet)
    monkeypatch.setattr(generations, "newest", newest, raising=False)
    monkeypatch.setattr(stages, "in_force", revisions)
    monkeypatch.setattr(store, "newest", revisions)
    monkeypatch.setattr(store, "reading", reading)
    monkeypatch.setattr(store, "ask", ask)
    state = store.State(1, "front", False)
    monkeypatch.setattr(store, "states", lambda _: [state])


def test_of_who_is_held_is_wanted_what_the_file_says():
    """
    Whatever applies to it meanwhile, nobody has approved that; a removal wants it gone
    """
    found = owners.page({}, "foo")
    assert found["minions"] == [
        {
            "minion": "held",
            "installed": "",
            "wanted": "installed =1.0",
            "source": "generation 3",
            "held": "held stays",
        },
        {"minion": "new", "installed": "0.9", "held": "new stays"},
        {
            "minion": "web",
            "installed": "1.0",
            "wanted": "removed",
            "source": "group b: front",
        },
    ]
    assert found["counts"] == {
        "minions": 3,
        "have it": 2,
        "want it": 1,
        "want it gone": 1,
        "in conflict": 0,
        "held": 2,
    }


def test_a_minion_calls_what_is_its_own_without_architecture():
    found = owners.page({}, "foo:amd64")["minions"]
    assert [row["installed"] for row in found] == ["", "0.9", "1.0"]
    assert [row["wanted"] for row in found if "wanted" in row] == [
        "installed =1.0",
        "removed",
    ]
    found = owners.page({}, "foo:i386")["minions"]
    assert found == []
