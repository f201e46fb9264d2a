import contextlib
from types import SimpleNamespace

import pytest
import saltext.package_states.connection as connections
import saltext.package_states.files as files
import saltext.package_states.item as items
import saltext.package_states.schema as schema
import saltext.package_states.service as service
import saltext.package_states.store as store
from saltext.package_states.fleet import Fleet, Minion


class Tables:
    """
    What :mod:`saltext.package_states.store` is asked for, without PostgreSQL
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
    def writing(self, opts, commit=True, after=None):
        self.done.append("lock")
        yield None
        self.done.append("commit" if commit else "rollback")
        if after:
            after()
        self.done.append("unlock")

    def assign(self, *_):
        self.done.append("assign")


@pytest.fixture
def tables(monkeypatch):
    found = Tables()
    for name in ("state", "newest", "check", "save", "reading", "writing", "assign"):
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
        self.registry = SimpleNamespace(target=lambda kind, name: name)
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
    tables.minions["web"] = Minion("web", "apt")
    found = put(states, "web", "foo", "latest")
    assert (found["minions"], found["files"]) == ([], [])
    assert not list(tmp_path.rglob("packages-*"))


@pytest.mark.parametrize(
    "call",
    (
        lambda states: put(states, "web", "foo", "latest"),
        lambda states: states.assign("web", "group", "a", 0, "me"),
        lambda states: states.compile(),
    ),
    ids=("change", "assign", "compile"),
)
def test_files_are_written_after_the_end_and_before_the_next_one(states, tables, call):
    tables.states["web"] = store.State(1, "web", False)
    assert call(states)["files"] == ["web"]
    done = [what for what in tables.done if what != "assign"]
    assert done == ["lock", "commit", "ship", "unlock"]


def test_a_dry_run_writes_no_files(states, tables, tmp_path):
    tables.states["web"] = store.State(1, "web", False)
    entries = (items.make("foo", "latest"),)
    found = states.change("web", lambda *_: entries, "me", dry_run=True)
    assert found["dry_run"] and "files" not in found
    assert tables.done == ["lock", "rollback", "unlock"]
    assert not list(tmp_path.rglob("packages-*"))


@pytest.mark.skipif(not connections.HAS_PSYCOPG2, reason="needs psycopg2")
def test_the_lock_outlasts_the_transaction(monkeypatch):
    asked = []

    class Connection:
        def execute(self, query, values=()):
            asked.append(query.partition("(")[0])

        def close(self):
            asked.append("close")

    monkeypatch.setattr(connections, "Connection", Connection)
    monkeypatch.setattr(connections, "get_params", lambda opts: {})
    monkeypatch.setattr(schema, "check", lambda connection: None)
    with store.writing({}, after=lambda: asked.append("files")) as connection:
        connection.execute("work")
    begin = ["SELECT pg_advisory_lock", "BEGIN", "work"]
    assert asked == [*begin, "COMMIT", "files", "close"]
    asked.clear()
    with pytest.raises(ValueError), store.writing(
        {}, after=lambda: asked.append("files")
    ) as connection:
        connection.execute("work")
        raise ValueError
    assert asked == [*begin, "close"]
