import contextlib
from types import SimpleNamespace

import pytest
import saltext.package_states.compile.files as files
import saltext.package_states.compile.membership as membership
import saltext.package_states.compile.sls as sls
import saltext.package_states.master.edit as edit
import saltext.package_states.master.service as service
import saltext.package_states.master.upgrades as upgrades
import saltext.package_states.model.item as items
import saltext.package_states.status.rows as status_rows
import saltext.package_states.status.views as views
import saltext.package_states.store.connection as connections
import saltext.package_states.store.offers as offers
import saltext.package_states.store.refresh as refresh
import saltext.package_states.store.schema as schema
import saltext.package_states.store.standing as standing
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Assignment, Fleet, Minion
from saltext.package_states.errors import Conflict, PackageStateError

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
        self.moved = membership.Movement([], [], {}, [], {})

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
        revision = store.Revision(
            number, number, None, how.author, how.comment, "", entries
        )
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
    monkeypatch.setattr(standing, "drop", lambda *_: None)
    monkeypatch.setattr(membership, "notice", lambda *_: found.moved)
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
    tables.revisions[number] = store.Revision(1, 1, None, "me", "", "", entries)


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
    monkeypatch.setattr(standing, "drop", lambda _, ids: dropped.extend(ids))
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
        tables.revisions[number] = store.Revision(1, 1, None, "me", "", "", entries)
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
    with pytest.raises(Conflict):
        states.save("one", lambda *_: [items.make("bar", "removed")], ME)


def test_a_group_that_is_gone_empties_no_file(states, tables, monkeypatch):
    """
    Nobody knows who was in it: files that have its states stay, and that is said, until it is
    back or the state is unassigned
    """
    tables.minions.update(web=Minion("web", "apt"), db=Minion("db", "apt"))
    tables.states["front"] = store.State(1, "front", False)
    entries = (items.make("foo", "latest"),)
    tables.revisions[1] = store.Revision(1, 1, None, "me", "", "", entries)
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
    assert put(states, "db", "baz", "latest")["files"] == ["db"]
    tables.assigned.clear()
    assert (states.sweep()["files"], states.sweep()["errors"]) == (["web"], {})
    assert '"foo"' not in files.read(states.compiler.root, "web")


def test_a_deleted_state_comes_back_with_its_assignments(states, tables, monkeypatch):
    """
    Those that it lost when it was deleted, and not those that were taken away before
    """
    where = tables.states["front"] = store.State(1, "front", False)
    entries = (items.make("foo", "latest"),)
    old = store.Revision(1, 1, None, "me", "", "then", entries)
    gone = store.Revision(2, 2, 1, "me", "", "now", ())
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
    there = [(1, "front", "group", "kept", 3)]
    monkeypatch.setattr(store, "assignments", lambda _: there)
    labels = {"a": "a", "b": "b", "kept": "kept"}
    label = SimpleNamespace(label=lambda _, target: labels.get(target))
    fleet = SimpleNamespace(registry=label, affected=lambda _: {})
    monkeypatch.setattr(edit, "Fleet", lambda *_: fleet)
    monkeypatch.setattr(store, "changes", lambda _, ids: history if ids else [])
    given = []
    monkeypatch.setattr(store, "assign", lambda _, *one: given.append(one[:4]))
    found = edit.restore(states, "front", 1, None, ME)
    assert (found["assigned"], given) == (["group a"], [(where, "group", "a", 5)])
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
    row = (1, None, None, None, (), (), store.RENAMED, "old", None, "ann", "why", "t")
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
        tables.revisions[number] = store.Revision(1, 1, None, "me", "", "", entries)
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
    tables.revisions[1] = store.Revision(1, 1, None, "me", "", "", entries)
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
    said = status_rows.security((), newer)
    assert said.startswith("77 packages lack security updates: p0 2, ")
    assert said.endswith(" and 72 more; see table=False.")
    assert said.count(", ") == 4


def test_a_dry_run_writes_no_files(states, tables, tmp_path):
    tables.states["web"] = store.State(1, "web", False)
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
    upgraded = upgrades._upgraded  # pylint: disable=protected-access
    assert upgraded(entry, told, missed) == entry
    assert "share no version of foo that is <3" in missed["foo"]
    missed.clear()
    assert upgraded(entry, told[1:], missed).floor == "2.0-3.el9"
    assert not missed
