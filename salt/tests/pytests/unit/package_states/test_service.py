import contextlib

import pytest

import salt.package_states.files as files
import salt.package_states.item as items
import salt.package_states.service as service
import salt.package_states.store as store
from salt.package_states.fleet import Fleet, Minion


class Tables:
    """
    What :mod:`salt.package_states.store` is asked for, without PostgreSQL
    """

    def __init__(self):
        self.done = []
        self.states = {}
        self.revisions = {}
        self.minions = {}
        self.assigned = []

    def state(self, _, name):
        return self.states[name]

    def newest(self, _, ids):
        return {one: self.revisions.get(one, store.EMPTY) for one in ids}

    def check(self, _, where, seen):
        return self.revisions.get(where.id, store.EMPTY)

    def save(self, _, where, current, entries, author, comment, parent):
        number = current.number + 1
        revision = store.Revision(number, number, None, author, comment, "", entries)
        self.revisions[where.id] = revision
        return revision

    @contextlib.contextmanager
    def reading(self, opts):
        yield None

    @contextlib.contextmanager
    def writing(self, opts, commit=True):
        yield None


@pytest.fixture
def tables(monkeypatch):
    found = Tables()
    for name in ("state", "newest", "check", "save", "reading", "writing"):
        monkeypatch.setattr(store, name, getattr(found, name))
    monkeypatch.setattr(store, "states", lambda _: list(found.states.values()))

    def minions(self, ids=None):
        return {
            name: minion
            for name, minion in found.minions.items()
            if ids is None or name in ids
        }

    def begin(self, opts, connection):
        self.connection = connection
        self.assignments = found.assigned
        self.own = {one.name: one for one in found.states.values() if one.own}

    monkeypatch.setattr(Fleet, "__init__", begin)
    monkeypatch.setattr(Fleet, "minions", minions)
    monkeypatch.setattr(Fleet, "grains", lambda self, minion: {})
    return found


@pytest.fixture
def states(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ship", lambda root: tables.done.append("ship"))
    return service.Service({"package_states": {"sls_root": str(tmp_path)}})


def put(states, name, *row):
    """
    Save a state with one entry
    """
    entries = (items.make(*row),)
    return states.change(name, lambda *_: entries, "me")


def test_a_state_has_a_file_of_its_own(states, tables):
    tables.states["web"] = store.State(1, "web", False)
    found = put(states, "web", "foo", "latest")
    assert (found["minions"], found["files"]) == ([], ["web"])


def test_a_state_does_not_take_the_file_of_a_minion_with_its_name(
    states, tables, tmp_path
):
    # the minion was registered after the state was made
    tables.states["web"] = store.State(1, "web", False)
    tables.minions["web"] = Minion("web", 1, 1, frozenset(), "apt")
    found = put(states, "web", "foo", "latest")
    assert (found["minions"], found["files"]) == ([], [])
    assert not list(tmp_path.rglob("packages-*"))
