import contextlib
from types import SimpleNamespace

import pytest
import saltext.package_states.compile.files as files
import saltext.package_states.compile.sls as sls
import saltext.package_states.compile.sweep as sweep
import saltext.package_states.master.edit as edit
import saltext.package_states.master.service as service
import saltext.package_states.master.sets as sets
import saltext.package_states.model.item as items
import saltext.package_states.model.resolver as resolver
import saltext.package_states.status.page as pages
import saltext.package_states.status.rows as status_rows
import saltext.package_states.status.views as views
import saltext.package_states.store.connection as connections
import saltext.package_states.store.offers as offers
import saltext.package_states.store.refresh as refresh
import saltext.package_states.store.schema as schema
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Assignment, Fleet, Minion
from saltext.package_states.errors import PackageStateError

ME = store.Save("me")


class Tables:
    """
    What :mod:`saltext.package_states.store.tables` is asked for, without PostgreSQL
    """

    def __init__(self):
        self.done = []
        self.states = {}
        self.revisions = {}
        self.minions = {}
        self.assigned = []
        self.labels = {}
        self.by_grains = set()
        self.moved = sweep.Movement([], {}, [], {})

    def state(self, _, name):
        return self.states[name]

    def newest(self, _, ids):
        return {one: self.revisions.get(one, store.EMPTY) for one in ids}

    def check(self, _, where, seen):
        return self.revisions.get(where.id, store.EMPTY)

    def find(self, _, name):
        return self.states.get(name)

    def save(self, _, where, current, entries, how, parent=None):
        number = current.number + 1
        revision = store.Revision(number, None, how.author, how.comment, "", entries)
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
    names = "state", "newest", "check", "save", "reading", "writing", "assign", "find"
    for name in names:
        monkeypatch.setattr(store, name, getattr(found, name))
    monkeypatch.setattr(refresh, "drop", lambda *_: None)
    monkeypatch.setattr(sweep, "notice", lambda *_: found.moved)
    monkeypatch.setattr(store, "states", lambda _: list(found.states.values()))

    def minions(self, ids=None):
        return {
            name: minion
            for name, minion in found.minions.items()
            if ids is None or name in ids
        }

    def begin(self, opts, connection, before=None):
        self.connection = connection
        self.assignments = found.assigned
        self.registry = SimpleNamespace(
            target=lambda kind, name: name,
            minions=lambda: sorted(found.minions),
            label=lambda kind, target: found.labels.get(target, target),
            by_grains=lambda target: target in found.by_grains,
        )
        self.own = {one.name: one for one in found.states.values() if one.own}
        self.collided = {}

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
    return states.save(name, lambda *_: entries, ME)


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
    assert (found["minions"], found["files"]) == ([], ["web"])
    assert not list(tmp_path.rglob("packages-*"))
    # and its file of before goes
    old = tmp_path / files.FOLDER / "packages-old.sls"
    old.write_text((tmp_path / files.FOLDER / "state-web.sls").read_text())
    assert states.sweep()["removed"] == ["old"]


@pytest.mark.parametrize(
    "call",
    (
        lambda states: put(states, "web", "foo", "latest"),
        lambda states: edit.assign(states, "web", "group", "a", 0, ME),
        lambda states: states.sweep(),
    ),
    ids=("save", "assign", "sweep"),
)
def test_files_are_written_after_the_end_and_before_the_next_one(states, tables, call):
    tables.states["web"] = store.State(1, "web", False)
    assert call(states)["files"] == ["web"]
    done = [what for what in tables.done if what != "assign"]
    assert done == ["lock", "commit", "ship", "unlock"]


def _own(tables, name, number, *rows):
    tables.states[name] = store.State(number, name, True)
    tables.minions[name] = Minion(name, "apt")
    entries = tuple(items.make(*row) for row in rows)
    tables.revisions[number] = store.Revision(1, None, "me", "", "", entries)


def test_a_sweep_writes_for_who_joined_and_removes_what_is_nobodys(
    states, tables, tmp_path
):
    _own(tables, "web", 1, ("foo", "latest"))
    _own(tables, "db", 2, ("foo", "latest"))
    found = states.sweep()
    assert (found["files"], found["removed"]) == (["db", "web"], [])
    folder = tmp_path / files.FOLDER
    (folder / "packages-mine.sls").write_text("somebody else's")
    del tables.minions["db"]
    found = states.sweep(["db", "never"])
    assert (found["files"], found["removed"]) == ([], ["db"])
    (folder / "packages-old.sls").write_text((folder / "packages-web.sls").read_text())
    assert states.sweep()["removed"] == ["old"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "packages-mine.sls",
        "packages-web.sls",
    ]


@pytest.mark.parametrize("ids", (None, ["web", "a b", "db"]), ids=("all", "some"))
def test_what_can_not_be_removed_keeps_nobody_from_their_file(
    states, tables, tmp_path, monkeypatch, ids
):
    """
    A copy that somebody made, a folder, the id of a key that never was a minion's
    """
    _own(tables, "web", 1, ("foo", "latest"))
    folder = tmp_path / files.FOLDER
    folder.mkdir()
    others = [folder / "packages-a b.sls", folder / "packages-db.sls"]
    others[0].write_text(sls.MADE)
    others[1].mkdir()
    assert states.sweep(ids)["files"] == ["web"]
    (folder / "packages-web.sls").unlink()
    (folder / "packages-e.sls").write_text(sls.MADE)
    ids = ids and [*ids, "e"]

    def refuse(place):
        raise PermissionError(1, "Operation not permitted", place)

    with monkeypatch.context() as refused:
        refused.setattr(files.os, "unlink", refuse)
        with pytest.raises(PackageStateError, match="packages-e.sls can't be written"):
            states.sweep(ids)
    assert (folder / "packages-web.sls").exists()
    assert states.sweep(ids)["removed"] == ["e"]
    assert all(place.exists() for place in others)


def test_the_file_that_includes_the_others_is_made_up_for(states, tables, monkeypatch):
    """
    Nothing else has changed since it could not be written
    """
    _own(tables, "web", 1, ("foo", "latest"))

    def full(root):
        raise PackageStateError("no room")

    with monkeypatch.context() as refused:
        refused.setattr(files, "ship", full)
        with pytest.raises(PackageStateError, match="no room"):
            states.sweep()
    assert states.sweep()["files"] == []
    assert "ship" in tables.done


def test_hostile_grains_keep_nobody_from_their_file(states, tables, monkeypatch):
    """
    A minion sends what it likes where its architecture is
    """
    _own(tables, "bad", 1, ("foo:amd64", "latest"))
    _own(tables, "web", 2, ("foo:amd64", "latest"))
    grains = {"bad": {}, "web": {"osarch": "amd64"}}
    monkeypatch.setattr(Fleet, "grains", lambda self, name: grains[name])
    for value in ([], {}, None, 7, "x"):
        grains["bad"]["osarch"] = value
        assert states.sweep()["errors"] == {}
        assert '"foo"' in files.read(states.compiler.root, "web")


def test_a_sweep_forgets_no_status_of_who_has_no_state(states, tables, monkeypatch):
    """
    They need no file, and that there is none is no change; else they were pending after
    each sweep, more of them than one look at the fleet compares
    """
    _own(tables, "web", 1, ("foo", "latest"))
    tables.minions["idle"] = Minion("idle", "apt")
    dropped = []
    monkeypatch.setattr(refresh, "drop", lambda _, ids: dropped.extend(ids))
    assert states.sweep()["files"] == ["web"]
    assert dropped == ["web"]
    states.sweep()
    states.sweep(["idle", "web"])
    assert dropped == ["web"]
    # who has lost its state had a file
    tables.revisions[1] = store.EMPTY
    del tables.states["web"]
    states.sweep()
    assert dropped == ["web", "web"]


def test_a_registry_that_is_empty_removes_nothing(states, tables, tmp_path):
    _own(tables, "web", 1, ("foo", "latest"))
    states.sweep()
    tables.minions.clear()
    tables.moved = tables.moved._replace(vanished=2)
    for ids in (None, ["web"]):
        found = states.sweep(ids)
        assert found["removed"] == []
        assert "there were 2" in found["errors"]["*"]


def test_files_tell_of_a_fleet_that_nobody_has_looked_at(states, tables, tmp_path):
    """
    As with a database from before there was an engine: one minion is looked at, there is
    none at all, and others have files
    """
    for number, name in enumerate(("web", "db"), 1):
        _own(tables, name, number, ("foo", "latest"))
    states.sweep()
    tables.minions.clear()
    found = states.sweep(["web"])
    assert found["removed"] == []
    assert "there were 2" in found["errors"]["*"]


def test_a_file_that_could_not_be_written_is_with_the_next_save(
    states, tables, tmp_path
):
    """
    Also if that changes nothing
    """
    _own(tables, "web", 1)
    put(states, "web", "foo", "latest")
    place = tmp_path / files.FOLDER / "packages-web.sls"
    place.unlink()
    found = put(states, "web", "foo", "latest")
    assert (found["changes"], found["files"]) == ({}, ["web"])
    assert place.exists() and found["revision"] == 2


def test_a_minion_in_two_minds_is_told_in_its_file(states, tables, monkeypatch):
    """
    What can't be decided is an error there and left as it is; the rest is in force
    """
    tables.minions["web"] = Minion("web", "apt")
    for number, (name, wanted) in enumerate((("one", "latest"), ("two", "removed")), 1):
        tables.states[name] = store.State(number, name, False)
        rows = (("foo", wanted), ("bar", "latest"))
        entries = tuple(items.make(*row) for row in rows)
        tables.revisions[number] = store.Revision(1, None, "me", "", "", entries)
        tables.assigned.append(Assignment(number, name, "group", name, name, 0))
    monkeypatch.setattr(Fleet, "applies", lambda *_: True)
    monkeypatch.setattr(Fleet, "rivals", lambda *_: [])
    found = states.sweep()
    assert "foo: 'group one: one' says latest" in found["errors"]["web"]
    text = files.read(states.compiler.root, "web")
    assert states.is_current(Fleet({}, None), tables.minions["web"])[0]
    assert '"package_states bar"' in text and '"package_states foo"' not in text
    assert '        "foo": "foo: _group one: one_ says latest' in text
    # what was wrong before is no reason to refuse another change
    more = [*tables.revisions[1].items, items.make("new", "latest")]
    assert states.save("one", lambda *_: more, ME)["minions"] == ["web"]
    with pytest.raises(PackageStateError):
        states.save("one", lambda *_: [items.make("bar", "removed")], ME)


def test_a_group_that_is_gone_empties_no_file(states, tables, monkeypatch):
    """
    Nobody knows who was in it: files that have its states stay, and that is said, until it is
    back or the state is unassigned
    """
    tables.minions.update(web=Minion("web", "apt"), db=Minion("db", "apt"))
    tables.states["front"] = store.State(1, "front", False)
    entries = (items.make("foo", "latest"),)
    tables.revisions[1] = store.Revision(1, None, "me", "", "", entries)
    tables.assigned.append(Assignment(1, "front", "group", "a", "a", 0))
    monkeypatch.setattr(Fleet, "applies", lambda _, __, minion: minion.id == "web")
    assert states.sweep()["files"] == ["front", "web"]
    monkeypatch.setattr(Fleet, "applies", lambda *_: False)
    tables.labels["a"] = None
    _own(tables, "db", 2, ("bar", "latest"))
    found = states.sweep()
    assert found["files"] == ["db"]
    assert "the group a is gone, to which front is assigned" in found["errors"]["web"]
    assert '"foo"' in files.read(states.compiler.root, "web")
    # what has nothing to do with it is saved
    found = put(states, "db", "baz", "latest")
    # each name once
    assert (found["minions"], found["files"]) == (["db"], [])
    assert found["counts"] == {"minions": 1, "files": 1}
    tables.assigned.clear()
    assert (states.sweep()["files"], states.sweep()["errors"]) == (["web"], {})
    assert '"foo"' not in files.read(states.compiler.root, "web")


def test_a_deleted_state_comes_back_with_its_assignments(states, tables, monkeypatch):
    """
    Those that it lost when it was deleted, and not those that were taken away before
    """
    where = tables.states["front"] = store.State(1, "front", False)
    entries = (items.make("foo", "latest"),)
    old = store.Revision(1, None, "me", "", "then", entries)
    gone = store.Revision(2, 1, "me", "", "now", ())
    tables.revisions[1] = gone
    monkeypatch.setattr(store, "revision", lambda _, __, number=None: old)
    revision = (1, 1, 1, None, (), ())
    change = (1, None, None, None, (), ())
    history = [
        (*revision, None, None, None, "me", "", "then"),
        (*change, "group", "a", 5, "me", "", "then"),
        (*change, "group", "b", 0, "me", "", "then"),
        (*change, "group", "b", None, "me", "", "later"),
        *((*change, "group", one, 7, "me", "", "then") for one in ("kept", "gone")),
        *(
            (*change, "group", one, None, "me", "", "now")
            for one in ("a", "kept", "gone")
        ),
    ]
    # one was assigned again meanwhile, and one is not there any more
    labels = {"a": "a", "b": "b", "kept": "kept"}
    assigned = [Assignment(1, "front", "group", "kept", "kept", 3)]
    fleet = SimpleNamespace(
        is_there=lambda _, target: target in labels,
        label=lambda _, target: labels.get(target, f"{target} (gone)"),
        assigned=lambda _: assigned,
    )
    monkeypatch.setattr(edit, "Fleet", lambda *_: fleet)
    monkeypatch.setattr(store, "changes", lambda _, ids: history if ids else [])
    given = []
    monkeypatch.setattr(store, "assign", lambda _, *one: given.append(one[:4]))
    found = edit.restore(states, "front", 1, None, ME)
    assert (found["assigned"], given) == (["group a"], [(where, "group", "a", 5)])
    assert found["gone"] == ["group gone (gone)"]
    # one that was only changed keeps what it has
    assert "assigned" not in edit.restore(states, "front", 1, None, ME)


def test_a_rename_is_in_the_history(monkeypatch):
    asked = []

    def ask(_, query, *values):
        asked.append(values)
        return [("new",)] if query.startswith("SELECT s.name") else []

    monkeypatch.setattr(store, "ask", ask)
    where = store.State(1, "old", False)
    store.rename(None, where, "new", store.Save("ann", "why"))
    assert asked[-1] == (1, store.RENAMED, "old", None, "ann", "why")
    with pytest.raises(PackageStateError, match="no package state old; it is new now"):
        store.state(None, "old")
    row = (1, None, None, (), (), store.RENAMED, "old", None, "ann", "why", "t")
    monkeypatch.setattr(store, "reading", contextlib.nullcontext)
    monkeypatch.setattr(store, "states", lambda _: [where._replace(name="new")])
    monkeypatch.setattr(store, "changes", lambda *_: [row])
    monkeypatch.setattr(
        views, "Fleet", lambda *_: SimpleNamespace(minions=lambda _: {})
    )
    assert views.history({}, "new") == [
        {
            "state": "new",
            "author": "ann",
            "comment": "why",
            "created": "t",
            "change": "renamed",
            "old": "old",
        }
    ]


def test_an_assignment_names_what_no_repository_has(states, tables, monkeypatch):
    tables.states["front"] = store.State(1, "front", False)
    monkeypatch.setattr(offers, "unknown", lambda *_: ["nope"])
    assert edit.assign(states, "front", "group", "a", 0, ME)["unknown"] == ["nope"]


def test_a_state_that_is_there_is_not_set_without_a_package(states, tables):
    _own(tables, "web", 1, ("foo", "latest"))
    with pytest.raises(PackageStateError, match="web is there; say which"):
        edit.put(states, "web", None, None, None, ME)


def _sent(monkeypatch, packages, unknown=()):
    found = refresh.Sent(packages, "2026-11-29 10:00:00", None, {})
    monkeypatch.setattr(refresh, "sent", lambda *_: found)
    monkeypatch.setattr(offers, "unknown", lambda *_: list(unknown))


def test_the_status_tells_present_from_installed(states, tables, monkeypatch):
    """
    And what no repository has
    """
    entries = (("bar", "present"), ("baz", "installed"), ("foo", "installed"))
    _own(tables, "web", 1, *entries)
    there = {name: {"versions": ["1"], "available": ["1"]} for name in ("bar", "baz")}
    _sent(monkeypatch, there, ["foo"])
    found = views.status(states, "web", table=False)
    assert [row["state"] for row in found["rows"]] == [
        "Installed (present)",
        "Installed",
        "Installed",
    ]
    why = "it is not installed, and no repository has what is wanted"
    assert [row["reason"] for row in found["drift"]] == [why]
    assert "web is drifting: 1 of 3." in views.status(states, "web")


def test_a_conflict_is_a_drift_of_its_minion(states, tables, monkeypatch):
    """
    It has a row, is counted, and its reason is told
    """
    tables.minions["web"] = Minion("web", "apt")
    for number, (name, wanted) in enumerate((("one", "latest"), ("two", "removed")), 1):
        tables.states[name] = store.State(number, name, False)
        entries = tuple(
            items.make(*row) for row in (("foo", wanted), ("bar", "latest"))
        )
        tables.revisions[number] = store.Revision(1, None, "me", "", "", entries)
        tables.assigned.append(Assignment(number, name, "group", name, name, 0))
    monkeypatch.setattr(Fleet, "applies", lambda *_: True)
    there = {name: {"versions": ["1"], "available": ["1"]} for name in ("foo", "bar")}
    _sent(monkeypatch, there)
    found = views.status(states, "web", table=False)
    assert (found["consistent"], found["managed"], len(found["drift"])) == (False, 2, 1)
    assert "both with priority 0" in found["drift"][0]["reason"]
    table = views.status(states, "web")
    assert "web is drifting: 1 of 2." in table and "see below" in table


def test_a_group_that_is_gone_is_why_the_file_is_older(states, tables, monkeypatch):
    tables.minions["web"] = Minion("web", "apt")
    tables.states["front"] = store.State(1, "front", False)
    entries = (items.make("foo", "latest"),)
    tables.revisions[1] = store.Revision(1, None, "me", "", "", entries)
    tables.assigned.append(Assignment(1, "front", "group", "a", "a", 0))
    monkeypatch.setattr(Fleet, "applies", lambda *_: True)
    states.sweep()
    monkeypatch.setattr(Fleet, "applies", lambda *_: False)
    tables.labels["a"] = None
    _sent(monkeypatch, {})
    table = views.status(states, "web")
    assert "the group a is gone, to which front is assigned" in table
    assert "Its file is an older one" not in table


def test_a_minion_that_was_never_heard_is_not_pending(states, tables, monkeypatch):
    _own(tables, "web", 1, ("foo", "latest"))
    never = refresh.Sent({}, None, "web never sent its packages.", None)
    monkeypatch.setattr(refresh, "sent", lambda *_: never)
    monkeypatch.setattr(offers, "unknown", lambda *_: [])
    table = views.status(states, "web")
    assert "web was never heard: web never sent its packages." in table
    assert "pending" not in table


def test_many_security_updates_are_counted():
    newer = {f"p{number}": ["2"] for number in range(77)}
    said = status_rows.security(newer, {"p9": "installed, from own web"})
    locked = "p9 2 (it is to be installed, from own web)"
    assert said.startswith(f"It lacks 77 security updates: {locked}, p0 2, ")
    assert said.endswith(" and 72 more; see table=False.")
    assert said.count(", ") == 5


def test_only_an_entry_that_locks_is_named_with_a_security_update(source):
    found = source("web", "own", ("vim", "present"), ("nginx", "installed"), target="w")
    rows = status_rows.rows(resolver.resolve([found]), "apt", {})
    newer = {"vim": ["9"], "nginx": ["2"], "curl": ["8"]}
    assert status_rows.frozen(rows, newer) == {"nginx": "installed, from own web"}
    assert status_rows.frozen(rows, None) == {}


def test_a_dry_run_writes_no_files(states, tables, tmp_path, monkeypatch):
    tables.states["web"] = store.State(1, "web", False)
    monkeypatch.setattr(store, "ask", lambda *_: [])
    entries = (items.make("foo", "latest"),)
    found = states.save("web", lambda *_: entries, ME._replace(dry_run=True))
    assert found["dry_run"] and "files" not in found
    assert tables.done == ["lock", "rollback", "unlock"]
    assert not list(tmp_path.rglob("packages-*"))


@pytest.mark.skipif(not connections.HAS_PSYCOPG2, reason="needs psycopg2")
def test_the_lock_outlasts_the_transaction(monkeypatch):
    asked = []

    class Connection:
        def execute(self, query, values=()):
            asked.append(query)
            if away and query == "SELECT 1":
                raise connections.psycopg2.InterfaceError("connection already closed")

        def commit(self):
            asked.append("COMMIT")

        def close(self):
            asked.append("close")

    away = []
    monkeypatch.setattr(connections, "Connection", Connection)
    monkeypatch.setattr(connections, "get_params", lambda opts: {})
    monkeypatch.setattr(schema, "check", lambda connection: None)
    with store.writing({}, after=lambda: asked.append("files")) as connection:
        connection.execute("work")
    kept = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0"
    begin = [kept, schema.LOCK, "BEGIN", schema.SAVING, "work"]
    end = ["COMMIT", "files", "SELECT 1", "close", "close"]
    assert asked == [*begin, *end]
    asked.clear()
    # whoever has the lock then has written files, which are older now
    away.append(True)
    with pytest.raises(PackageStateError, match="run package_states.refresh"):
        with store.writing({}, after=lambda: asked.append("files")):
            pass
    assert asked == [*begin[:-1], *end]
    asked.clear()
    with pytest.raises(ValueError), store.writing(
        {}, after=lambda: asked.append("files")
    ) as connection:
        connection.execute("work")
        raise ValueError
    assert asked == [*begin, "close", "close"]


def test_an_upgrade_to_no_version_in_common_says_so():
    """
    As where apt, dnf and zypper, or two releases of Debian, are in one state
    """
    told = [
        ("apt", {"foo": ["2.0-1", "1.0-1"]}),
        ("dnf", {"foo": ["2.0-3.el9"]}),
        ("dnf", {}),
    ]
    missed, entry = {}, items.make("foo", "installed", "<3")
    upgraded = edit._upgraded  # pylint: disable=protected-access
    assert upgraded(entry, told, missed) == entry
    assert "share no version of foo that is <3" in missed["foo"]
    missed.clear()
    assert upgraded(entry, told[1:], missed).floor == "2.0-3.el9"
    assert not missed


class Lists:
    """
    What minions sent, and what is asked of the database for it
    """

    def __init__(self, tables, monkeypatch, sent):
        self.sent, self.asked, self.rows = sent, [], 0
        self.offers = {"d": {"foo": ["2", "1"], "bar": ["3"], "new": ["7"]}}
        self.tables = tables
        monkeypatch.setattr(store, "ask", self.ask)

    def ask(self, _, query, *values):
        found = self.answer(query, *values)
        # while nobody else can save
        busy = "lock" in self.tables.done and self.tables.done[-1] != "unlock"
        self.asked.append((query, busy))
        self.rows += len(found)
        return found

    def answer(self, query, *values):
        if "package_states.offer" in query:
            digests, keys = values
            return [
                (digest, key, self.offers[digest][key])
                for digest in digests
                for key in keys
                if key in self.offers.get(digest, ())
            ]
        if "array_agg(digest" in query:
            return [(one, ["d"]) for one in self.sent if one in values[0]]
        if "jsonb_each" in query:
            names, ids = values
            return [
                (
                    one,
                    {
                        key: self.sent[one][key]
                        for key in names
                        if key in self.sent[one]
                    },
                )
                for one in ids
                if one in self.sent
            ]
        if "SELECT minion_id, platform" in query:
            ids = values[0] if values else self.sent
            return [(one, "apt") for one in self.sent if one in ids]
        return []


@pytest.fixture
def lists(tables, monkeypatch):
    """
    Return 202 minions with the same repositories, to which a state applies, and one that sent nothing
    """
    found = Lists(tables, monkeypatch, {f"m{one}": {} for one in range(202)})
    tables.minions.update({one: Minion(one, "apt") for one in found.sent})
    tables.minions["mute"] = Minion("mute", "apt")
    tables.states["golden"] = store.State(1, "golden", False)
    tables.assigned.append(Assignment(1, "golden", "organization", "all", "all", 0))
    monkeypatch.setattr(Fleet, "applies", lambda *_: True)
    monkeypatch.setattr(Fleet, "rivals", lambda *_: [])
    return found


def test_an_upgrade_reads_what_it_is_about_and_not_each_offer_of_each_minion(
    states, tables, lists
):
    """
    Once for all minions with the same repositories, and before it keeps others from saving
    """
    lists.offers["d"].update({f"other{one}": ["1"] for one in range(5000)})
    rows = (("foo", "installed", "=1"), ("bar", "present"))
    entries = tuple(items.make(*row) for row in rows)
    tables.revisions[1] = store.Revision(1, None, "me", "", "", entries)
    found = edit.upgrade(states, "golden", "*", ME._replace(dry_run=False))
    assert found["changes"] == {"foo": {"old": "installed =1", "new": "installed =2"}}
    assert found["silent"] == ["mute"]
    assert len(lists.asked) < 10
    assert lists.rows < 4 * len(lists.sent)
    assert not [
        query for query, busy in lists.asked if busy and "offer" in query + "jsonb_each"
    ]


def test_an_upgrade_of_what_no_repository_has_asks_once_for_all_lists(
    states, tables, lists
):
    """
    As of an orphan, or of a minion of before
    """
    lists.sent["m1"]["lone"] = {"versions": ["1"], "available": ["1", "5"]}
    lists.sent["m2"]["lone"] = {"versions": ["1"], "available": ["5"]}
    entries = (items.make("lone", "installed", ">=1"),)
    tables.revisions[1] = store.Revision(1, None, "me", "", "", entries)
    found = edit.upgrade(states, "golden", "lone", ME)
    assert found["changes"]["lone"]["new"] == "installed >=1 (from 5 on)"
    assert sum("jsonb_each" in query for query, _ in lists.asked) == 1


def test_an_upgrade_leaves_what_came_while_it_read(states, tables, lists, monkeypatch):
    entries = (items.make("foo", "installed", "=1"),)
    tables.revisions[1] = store.Revision(1, None, "me", "", "", entries)
    more = (*entries, items.make("new", "installed", "=1"))

    def check(*_):
        return store.Revision(2, 1, "ann", "", "", more)

    monkeypatch.setattr(store, "check", check)
    assert set(edit.upgrade(states, "golden", "*", ME)["changes"]) == {"foo"}


def test_a_name_with_a_slip_is_unknown_whatever_is_wanted(lists):
    """
    The lists of the minions are read only for what no repository has
    """
    minions = {one: Minion(one, "apt") for one in lists.sent}
    rows = [("foo", "removed"), ("new", "removed", ">=9"), ("bar", "installed", "=3")]
    entries = [items.make(*row) for row in rows]
    assert offers.unknown(None, minions, entries) == []
    assert not any("jsonb_each" in query for query, _ in lists.asked)
    lists.sent["m5"]["lone"] = {"versions": ["1"]}
    rows = [("nmpa", "removed"), ("bar", "present", ">=4"), ("lone", "kept")]
    rows += [("x", "unmanaged")]
    entries = [items.make(*row) for row in rows]
    assert offers.unknown(None, minions, entries) == ["nmpa", "bar"]
    assert sum("jsonb_each" in query for query, _ in lists.asked) == 1


def test_a_load_names_what_no_repository_has(states, tables, lists, monkeypatch):
    """
    Of what it changes only; and an error names its state
    """
    monkeypatch.setattr(store, "create", lambda *_: None)
    tables.revisions[1] = store.Revision(
        1, None, "me", "", "", (items.make("nope", "present"),)
    )
    text = "package_states: 1\nstates:\n  golden:\n    packages:\n      {}\n"
    text = text.format("nope: present\n      nmpa: present\n      foo: removed")
    found = sets.apply(states, text, ME._replace(dry_run=True))
    assert found["unknown"] == ["nmpa"]
    with pytest.raises(PackageStateError, match="^state golden: foo: wanted='gone'"):
        sets.apply(states, text.replace("removed", "gone"), ME)


def test_a_platform_that_can_not_do_it_names_the_state_and_how_many(states, tables):
    for number in range(3):
        tables.minions[f"m{number}"] = Minion(f"m{number}", "zypper")
    tables.states["golden"] = store.State(1, "golden", False)
    tables.assigned.append(Assignment(1, "golden", "organization", "all", "all", 0))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Fleet, "applies", lambda *_: True)
        patched.setattr(Fleet, "rivals", lambda *_: [])
        with pytest.raises(PackageStateError) as told:
            put(states, "golden", "nmap", "purged")
    assert str(told.value) == (
        "minion m0: nmap: zypper can't purge, it keeps changed configuration; use removed"
        " (from organization all: golden). So it is with 2 more."
    )


def test_a_name_of_before_makes_no_state_by_itself(states, tables, monkeypatch):
    monkeypatch.setattr(store, "renamed", lambda _, name: {"web": "front"}.get(name))
    monkeypatch.setattr(
        store, "create", lambda _, name, own: tables.states.setdefault(name, made)
    )
    made = store.State(1, "web", False)
    monkeypatch.setattr(offers, "unknown", lambda *_: [])
    with pytest.raises(PackageStateError, match="web is front now; say front, or make"):
        edit.put(states, "web", "nginx", "present", None, ME)
    assert tables.states == {}
    # on purpose
    assert edit.put(states, "web", None, None, None, ME)["revision"] == 0
    edit.put(states, "web", "nginx", "present", None, ME)
    # a minion has its own state, whatever was called so before
    tables.states.clear()
    tables.minions["web"] = Minion("web", "apt")
    edit.put(states, "web", "nginx", "present", None, ME)
    assert "web" in tables.states


def _row(name, verdict, behind=None):
    drifted = {"drifting": 1, "consistent": 0}.get(verdict)
    return (name, "2026", 1.0, 2, drifted, "", int(name == "b"), behind)


@pytest.fixture
def fleet_page(monkeypatch):
    """
    Return what pages a fleet of some rows, while others save or not
    """

    def page(rows, alone=True, **arguments):
        ids = [row[0] for row in rows]
        fleet = SimpleNamespace(
            minions=lambda some: {one: Minion(one, "apt") for one in some},
            sources=dict.fromkeys(ids, ()).copy,
            possible=lambda minion, _: (LOCKED[minion.id], {}),
        )
        fleet.sources = lambda minions: dict.fromkeys(minions, ())
        alone = contextlib.nullcontext(enter_result=alone)
        monkeypatch.setattr(store, "reading", contextlib.nullcontext)
        monkeypatch.setattr(store, "quiet", lambda _: alone)
        monkeypatch.setattr(pages, "Fleet", lambda *_: fleet)
        monkeypatch.setattr(pages, "members", lambda *_: ids)
        monkeypatch.setattr(refresh, "stale", lambda *_: {})
        monkeypatch.setattr(refresh, "statuses", lambda *_: rows)
        held = {"a": ["curl", "nginx"], "b": ["nginx"]}
        monkeypatch.setattr(refresh, "held", lambda *_: held)
        return pages.page({}, **arguments)

    label = SimpleNamespace(label="own a")
    nginx = resolver.Verdict(items.make("nginx", "installed", "=2"), label, ())
    LOCKED.update(a=[nginx], b=[nginx])
    return page


LOCKED = {}


def test_a_fleet_says_why_minions_are_pending(fleet_page):
    rows = [_row("a", "pending"), _row("c", "pending", "its packages have changed")]
    busy = fleet_page(rows, alone=False)
    assert busy["hint"] == (
        "Minions are pending, as somebody is saving, or the database only reads; ask again."
    )
    assert busy["hint"][:-1] in pages.table(fleet_page(rows, False, only="drifting"))
    assert "at most 200" in fleet_page(rows)["hint"]
    assert "run pkgset.refresh" in fleet_page(rows[1:])["hint"]
    assert "hint" not in fleet_page([_row("a", "drifting")])


def test_only_minions_that_lack_security_updates_or_hold_what_nobody_asked_for(
    fleet_page, monkeypatch
):
    rows = [_row("a", "drifting"), _row("b", "consistent"), _row("c", "consistent")]
    found = fleet_page(rows, only="security")
    assert [row["minion"] for row in found["minions"]] == ["b"]
    found = fleet_page(rows, only="held")
    assert [(row["minion"], row["held"]) for row in found["minions"]] == [
        ("a", ["curl"])
    ]
    assert found["counts"]["minions"] == 3
    assert "Held\na       drifting  1 of 2   2026   curl" in pages.table(found)
    assert "see only=security" in pages.table(found)
    # and those that drift, with the first reason
    nginx = {"a": {"nginx": {"versions": ["1"]}}}
    monkeypatch.setattr(store, "packages", lambda *_: nginx)
    found = fleet_page(rows, only="drifting")
    reason = "nginx: 1 is installed"
    assert [row["reason"] for row in found["minions"]] == [reason]
    assert f"1 of 2   2026   {reason}" in pages.table(found)
    # what was kept of a minion without grains
    unknown = ("c", "2026", 1.0, 1, pages.UNCLEAR, "grains not known: c", 0, None)
    found = fleet_page([unknown])
    assert (
        found["counts"]["pending"] == 1 and "saltutil.refresh_grains" in found["hint"]
    )
    # a reason to be pending is no verdict
    silent = (*_row("a", "drifting", "why")[:2], 1e9, *_row("a", "drifting", "why")[3:])
    assert fleet_page([silent], only="pending")["minions"] == []
    with pytest.raises(PackageStateError, match="never heard, security or held"):
        fleet_page(rows, only="secure")


def test_a_dry_run_of_a_save_counts_locks(states, tables, lists, monkeypatch):
    """
    Those that a run would set, and those that it would let go
    """
    monkeypatch.setattr(Fleet, "applies", lambda _, __, one: one.id in ("m1", "m2"))
    lists.sent["m1"]["foo"] = {"versions": ["1"], "available": ["1"], "held": True}
    lists.sent["m2"]["foo"] = {"versions": ["1"], "available": ["1"]}
    entries = (items.make("foo", "installed"),)
    tables.revisions[1] = store.Revision(1, None, "me", "", "", entries)
    dry = ME._replace(dry_run=True)

    def change(*row):
        entries = [items.make(*row)] if row else []
        tables.revisions[1] = store.Revision(1, None, "me", "", "", tables.old)
        return states.save("golden", lambda *_: entries, dry)

    tables.old = entries
    found = change("foo", "present")
    assert found["counts"] == {"minions": 2, "to change": 1, "not known": 0}
    assert found["changing"] == {"m1": {"foo": "its lock would go"}}
    assert change()["changing"] == {"m1": {"foo": "its lock would go"}}
    tables.old = (items.make("foo", "present"),)
    found = change("foo", "installed")
    assert found["changing"] == {"m2": {"foo": "its lock would be set"}}
    # of what the minion has not, too
    found = change("bar", "removed")
    assert found["changing"]["m2"] == {"bar": "its lock would be set"}
    # what is to change anyway is said as before
    for one in ("m1", "m2"):
        lists.sent[one]["foo"]["available"] = ["2", "1"]
    found = change("foo", "installed", "=2")
    what = "upgrade 2: installed =2; 1 is installed"
    assert found["changing"]["m1"] == {"foo": what}
    # in the words of a dry run of a minion, where it is known what it can get
    found = change("foo", "installed", "=9")
    what = "impossible: No version of foo meets =9; there are 1, 2."
    assert found["changing"]["m1"] == {"foo": what}
    assert change("new", "present")["changing"]["m1"] == {
        "new": "install 7: present; it is not installed"
    }
    # a lock does not bring another version
    lists.sent["m1"]["foo"].update(available=["1", "0.9"], versions=["1"])
    assert change("foo", "removed", ">=1")["changing"]["m1"] == {
        "foo": "remove 1: removed >=1; 1 is installed; it is removed, and not replaced by 0.9:"
        " present with a condition does that"
    }
    assert "not replaced" not in change("foo", "removed")["changing"]["m1"]["foo"]


def test_a_dry_run_says_what_it_does_not_show(states, tables, lists, monkeypatch):
    rows = [("foo", "present"), ("bar", "present"), ("new", "present")]
    entries = [items.make(*row) for row in rows]

    def change(dry_run):
        tables.revisions.clear()
        return states.save("golden", lambda *_: entries, ME._replace(dry_run=dry_run))

    found = change(True)
    assert (len(found["changing"]), found["counts"]["to change"]) == (20, 202)
    hint = "dry_run=202 shows all."
    assert found["not shown"] == {"minions": 182, "packages": 0, "hint": hint}
    found = change(202)
    assert len(found["changing"]) == 202 and "not shown" not in found
    found = change(2)
    assert found["not shown"] == {"minions": 200, "packages": 2, "hint": hint}
    with pytest.raises(PackageStateError, match="must be a whole number"):
        change(-1)


@pytest.mark.parametrize("kind", ("grains", "group"))
def test_nobody_knows_the_states_of_a_minion_without_grains(
    states, tables, monkeypatch, kind
):
    """
    As after its key was deleted and accepted again: its file stays as it was, or there is none,
    else a run would release the locks of its groups
    """
    tables.minions.update(web=Minion("web", "apt"))
    for number, name in enumerate(("front", "base"), 1):
        tables.states[name] = store.State(number, name, False)
        entries = (items.make(f"of-{name}", "latest"),)
        tables.revisions[number] = store.Revision(1, None, "me", "", "", entries)
    tables.assigned.append(Assignment(1, "front", kind, "os:Debian", "a", 0))
    tables.assigned.append(Assignment(2, "base", "organization", "all", "all", 0))
    tables.by_grains.add("os:Debian")
    grains = {"os": "Debian"}
    monkeypatch.setattr(Fleet, "grains", lambda *_: grains)
    monkeypatch.setattr(Fleet, "applies", lambda _, one, __: grains or one.state == 2)
    monkeypatch.setattr(Fleet, "rivals", lambda *_: [])
    assert states.sweep()["files"] == ["base", "front", "web"]
    grains.clear()
    found = states.sweep()
    assert found["files"] == []
    assert "grains not known: web sent none" in found["errors"]["web"]
    assert "of-front" in files.read(states.compiler.root, "web")
    _sent(monkeypatch, {"of-base": {"versions": ["1"], "available": ["1"]}})
    data = views.status(states, "web", table=False)
    assert data["consistent"] is None and "grains not known" in data["pending"]
    text = views.status(states, "web")
    assert "web is pending, as" in text and text.count("grains not known") == 1
    # others may save what applies to it as well
    assert put(states, "base", "new", "latest")["minions"] == ["web"]
    assert "of-front" in files.read(states.compiler.root, "web")
    files.remove(states.compiler.root, "web")
    states.sweep(["web"])
    assert files.read(states.compiler.root, "web") == ""
    # where grains decide nothing, they are not asked for
    tables.assigned[0] = Assignment(1, "front", "minion", "web", "web", 0)
    found = states.sweep()
    assert (found["files"], found["errors"]) == (["web"], {})


def test_a_state_by_itself_is_named_in_its_file(states, tables):
    tables.states["probe"] = store.State(1, "probe", False)
    put(states, "probe", "foo", "latest")
    assert 'source: "state probe"' in files.read(states.compiler.root, "state:probe")


def test_what_is_set_and_applies_to_nobody_is_told(states, tables, lists, monkeypatch):
    """
    A new state, a match of no minion, and a name with a slip in a state without a minion
    """
    tables.states["probe"] = store.State(5, "probe", False)
    dry = ME._replace(dry_run=True)
    found = edit.put(states, "probe", "fooo", "present", None, dry)
    assert found["hint"] == "probe is a new state, assigned to nothing."
    assert found["unknown"] == ["fooo"]
    found = edit.put(states, "golden", "foo", "present", None, dry)
    assert "hint" not in found and "unknown" not in found
    monkeypatch.setattr(store, "assign", lambda *_: tables.assigned.append(new))
    new = Assignment(5, "probe", "grains", "site:nrth", "site:nrth", 0)
    monkeypatch.setattr(Fleet, "applies", lambda _, one, __: one.state != 5)
    found = edit.assign(states, "probe", "grains", "site:nrth", 0, dry)
    assert found["hint"] == "grains site:nrth matches no minion by now."
    monkeypatch.setattr(Fleet, "applies", lambda *_: True)
    assert "hint" not in edit.assign(states, "probe", "grains", "site:nrth", 0, dry)


def test_an_upgrade_that_changes_nothing_says_why(states, tables, lists):
    def upgrade(*row):
        tables.revisions[1] = store.Revision(1, None, "me", "", "", (items.make(*row),))
        return edit.upgrade(states, "golden", "*", ME)

    assert "present and latest follow updates" in upgrade("foo", "present")["hint"]
    assert "No minion was offered a newer" in upgrade("foo", "installed", "=2")["hint"]
    assert "hint" not in upgrade("foo", "installed", "=1")


def test_a_deletion_is_in_the_history(states, tables, monkeypatch):
    _own(tables, "web", 1, ("foo", "latest"))
    edit.delete(states, "web", ME._replace(comment="no more"))
    assert tables.revisions[1].comment == "deleted: no more"
    _own(tables, "web", 1, ("foo", "latest"))
    edit.delete(states, "web", ME)
    assert tables.revisions[1].comment == "deleted"


def test_the_history_of_a_minion_keeps_what_was_unassigned(monkeypatch):
    """
    And without a name, the newest changes of all states come first
    """
    known = [store.State(1, "web", False), store.State(2, "db", False)]
    past = [(1, "minion", "web1"), (2, "minion", "db1"), (2, "group", "gone")]
    rows = [
        (1, None, None, (), (), "minion", "web1", 0, "ann", "", "t1"),
        (1, None, None, (), (), "minion", "web1", None, "ann", "", "t2"),
    ]
    asked = []
    fleet = SimpleNamespace(
        minions=lambda ids: {one: Minion(one, "apt") for one in ids if one == "web1"},
        applies=lambda entry, minion: entry.value == minion.id,
    )
    monkeypatch.setattr(store, "reading", contextlib.nullcontext)
    monkeypatch.setattr(store, "states", lambda _: known)
    monkeypatch.setattr(store, "targets", lambda _: past)
    monkeypatch.setattr(store, "changes", lambda _, *one: asked.append(one) or rows)
    monkeypatch.setattr(views, "Fleet", lambda *_: fleet)
    found = views.history({}, "web1")
    assert [row["change"] for row in found] == ["assigned", "unassigned"]
    assert asked == [([1],)]
    found = views.history({}, size=20)
    assert [row["created"] for row in found] == ["t2", "t1"]
    assert (list(asked[1][0]), asked[1][1]) == ([1, 2], 20)
    # of one author, or one day, out of all that there is
    rows += [(*rows[0][:8], "bob for ann", "", "2026-11-24 10:00:00+00")]
    rows += [(*rows[0][:8], "anna", "", "2026-11-24 11:00:00+00")]
    found = views.history({}, size=2, author="ann")
    assert [row["author"] for row in found] == ["bob for ann", "ann"]
    assert asked[2][1] is None
    for day, wanted in (("2026-11-24", 2), ("2026-11-24T11:00", 1), ("2026-11-2", 0)):
        if wanted:
            assert len(views.history({}, day=day)) == wanted
        else:
            with pytest.raises(PackageStateError, match="is no day; write it like"):
                views.history({}, day=day)


def test_what_somebody_else_holds_is_kept_with_the_packages(monkeypatch):
    """
    Beside the packages, as a master of before refuses a field that it does not know
    """
    kept = []
    connection = SimpleNamespace(execute=lambda *_: None)
    monkeypatch.setattr(
        store, "reading", lambda _: contextlib.nullcontext(enter_result=connection)
    )
    monkeypatch.setattr(store, "keep", lambda _, __, found: kept.append(found))
    monkeypatch.setattr(refresh, "drop", lambda *_: None)
    sent = {
        "platform": "apt",
        "digest": "x",
        "packages": {"curl": {"versions": ["1"], "held": True}, "vim": {}},
        "held_by_others": ["curl", "nothing"],
    }
    refresh.store({}, "web", sent)
    assert kept[0]["packages"]["curl"]["held_by_others"] is True
    assert kept[0]["packages"]["vim"] == {}
    for wrong in ("curl", [5], {"curl": 1}, ["a\0"]):
        with pytest.raises(PackageStateError, match="no list of packages"):
            refresh.check({**sent, "held_by_others": wrong})


def test_a_status_names_what_somebody_else_holds():
    data = dict(refreshed="t", minion="web", errors={}, drift=[], current=True)
    data.update(held=["nano", "tmux"], held_by_others=["curl", "tmux"], unlocked=[])
    text = status_rows.people({**data, "security": None, "security_locked": {}}, ())
    assert "no package state asks for it: nano; the next run releases what is" in text
    assert "so that neither a run nor an upgrade changes it: curl, tmux; " in text
