"""Pillars as they were at an earlier time, and what an edit would change, against what the pillar `uyuni` gives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from harness.saltprocess.patched import Salt, options, patched
from tests.live.helpers.changed_pillars import KINDS, copied, model
from tests.live.helpers.pillar_files import install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database import sources

pytestmark = pytest.mark.live
SEED = 20
STEPS = 60
MINIONS = ["web1", "web2", "other"]
OWNERS: list[dict[str, Any]] = [
    {},
    {"organization": 1},
    {"group": 1},
    {"group": 2},
    {"minion": "web1"},
    {"minion": "other"},
]
NUMBERS = {"web1": 1, "other": 3}
PLACE = "(server_id, group_id, org_id) IS NOT DISTINCT FROM (%s::NUMERIC, %s::NUMERIC, %s::NUMERIC) AND category = %s"
DELETE = f"DELETE FROM suseSaltPillars WHERE {PLACE}"  # noqa: S608 - of this file alone
UPDATE = f"UPDATE suseSaltPillars SET pillar = %s WHERE {PLACE} RETURNING 1"  # noqa: S608 - of this file alone
INSERT = "INSERT INTO suseSaltPillars (server_id, group_id, org_id, category, pillar) VALUES (%s, %s, %s, %s, %s)"
# its keys are those of other rows as well
FORM = "a: {$type: text, $default: d}\nz: {$type: text, $default: e}\n"
NOW = "SELECT clock_timestamp()::TEXT"


@dataclass(frozen=True)
class Uyuni:
    """A master with the pillar `uyuni`."""

    salt: Salt
    source: dict[str, Any]

    def served(self, database: sources.Database) -> dict[str, Any]:
        """Return the pillar of each minion now."""
        return dict(zip(MINIONS, self.salt.compile(database.server, [self.source], MINIONS), strict=True))

    def ask(self, database: sources.Database, function: str, **arguments: object) -> Any:
        """Return what a function of the runner gives."""
        answer = self.salt.act("run", options(database.server, [self.source]), f"pillar_sql.{function}", arguments)
        return answer["result"]

    def refused(self, database: sources.Database, function: str = "show", **arguments: object) -> str:
        """Return the error of a function of the runner."""
        answer = self.salt.act("run", options(database.server, [self.source]), f"pillar_sql.{function}", arguments)
        assert answer["retcode"] != 0, answer
        return str(answer["error"])


@pytest.fixture(scope="module")
def uyuni(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Uyuni]:
    """Yield the patched Salt, with a formula."""
    folder = tmp_path_factory.mktemp("formulas")
    (folder / "users").mkdir()
    (folder / "users" / "form.yml").write_text(FORM)
    with patched(tmp_path_factory.mktemp("salt")) as salt:
        yield Uyuni(salt, {"uyuni": {"formulas": [str(folder)]}})


@pytest.fixture(scope="module", params=KINDS)
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with pillars and their history, over our table and over Uyuni's."""
    with model(request.param, tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture
def database(template: sources.Database, request: pytest.FixtureRequest) -> Iterator[sources.Database]:
    """Yield a copy of the database."""
    with copied(template, request.node.name) as made:
        yield made


def edit(database: sources.Database, owner: dict[str, Any], category: str, pillar: dict[str, Any] | None) -> None:
    """Write or delete a row."""
    place = (NUMBERS.get(owner.get("minion", "")), owner.get("group"), owner.get("organization"), category)
    if pillar is None:
        database.run(DELETE, *place)
    elif not database.run(UPDATE, json.dumps(pillar), *place):
        database.run(INSERT, *place, json.dumps(pillar))


def drawn(draw: Random) -> tuple[dict[str, Any], str, dict[str, Any] | None]:
    """Return an edit of a row: its owner, its category and its new value."""
    keys = draw.sample(["a", "b", "c"], draw.randint(1, 2))
    pillar: dict[str, Any] = {
        key: draw.choice([draw.randint(0, 3), {"x": draw.randint(0, 2)}, {"y": [1]}, None]) for key in keys
    }
    owner = draw.choice(OWNERS)
    category = draw.choice(["one", "two", *(["formula-users"] if owner.keys() & {"group", "minion"} else [])])
    if category == "formula-users":
        pillar = {key: draw.choice("xyz") for key in draw.sample("az", draw.randint(0, 2))}
    return owner, category, draw.choice([pillar, pillar, pillar, None])


def step(database: sources.Database, draw: Random) -> None:
    """Change something: a row, the owner of a row, or the groups of a minion."""
    if draw.random() < 0.7:
        edit(database, *drawn(draw))
        return
    member = (draw.randint(1, 3), draw.randint(1, 2))
    if not database.run(
        "DELETE FROM rhnServerGroupMembers WHERE server_id = %s AND server_group_id = %s RETURNING 1", *member
    ):
        database.run("INSERT INTO rhnServerGroupMembers VALUES (%s, %s)", *member)


def test_every_step_of_the_past(uyuni: Uyuni, database: sources.Database) -> None:
    """After many changes each minion has, at each time between two, the pillar that it was served then."""
    draw = Random(SEED)  # noqa: S311 - repeatable
    past = []
    for _ in range(STEPS):
        step(database, draw)
        past.append((database.run(NOW)[0][0], uyuni.served(database)))
    assert len({json.dumps(pillars, sort_keys=True) for _, pillars in past}) > STEPS / 4
    for at, pillars in past:
        for minion in MINIONS:
            assert uyuni.ask(database, "show", minion=minion, at=at) == pillars[minion], (minion, at)
    assert uyuni.ask(database, "show", minion="web1") == uyuni.served(database)["web1"]


def test_what_is_not_known(uyuni: Uyuni, database: sources.Database) -> None:
    """A time before the history, one to come, and what no history has are refused, with what to do."""
    ((at,),) = database.run(NOW)
    assert "name a time from" in uyuni.refused(database, minion="web1", at="2020-01-01")
    assert "name a time from" in uyuni.refused(database, minion="web1", at="2100-01-01")
    assert "invalid input syntax" in uyuni.refused(database, minion="web1", at="soon")
    assert "no minion nobody" in uyuni.refused(database, minion="nobody", at=at)
    database.run("UPDATE rhnServer SET org_id = 2 WHERE id = 1")
    assert "when it got its id or organization" in uyuni.refused(database, minion="web1", at=at)
    assert uyuni.ask(database, "show", minion="web2", at=at) == uyuni.served(database)["web2"]
    ((at,),) = database.run(NOW)
    database.run(
        "CREATE OR REPLACE FUNCTION suse_salt_pillar_history() RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS 'SELECT false'"
    )
    edit(database, {"minion": "web1"}, "own", {"own": 2})
    assert "keeps no values" in uyuni.refused(database, minion="web1", at=at)


def test_what_was_deleted_is_not_known(uyuni: Uyuni, database: sources.Database) -> None:
    """Times whose changes were pruned are refused for good, also if changes are kept for longer afterwards."""
    ((at,),) = database.run(NOW)
    edit(database, {"minion": "web1"}, "own", {"own": 2})
    assert uyuni.ask(database, "show", minion="web1", at=at)["own"] == 1
    keep = (
        "CREATE OR REPLACE FUNCTION suse_salt_pillar_keep() RETURNS INTERVAL LANGUAGE sql AS $$SELECT INTERVAL '{}'$$"
    )
    # a day longer than this is what stays
    database.run(keep.format("-1 day") + "; SELECT suse_salt_pillar_prune(100)")
    database.run(keep.format("10 years") + "; SELECT suse_salt_pillar_prune(100)")
    ((later,),) = database.run(NOW)
    edit(database, {"minion": "web1"}, "own", {"own": 3})
    assert "name a time from" in uyuni.refused(database, minion="web1", at=at)
    assert uyuni.ask(database, "show", minion="web1", at=later)["own"] == 2


def test_installed_again(uyuni: Uyuni, database: sources.Database) -> None:
    """The history is as old as before, but not if the triggers were away meanwhile."""
    ((at,),) = database.run(NOW)
    install(database, "pillar_changes.sql")
    assert uyuni.ask(database, "show", minion="web1", at=at)["own"] == 1
    database.run("DROP FUNCTION suse_salt_pillar_changed, suse_salt_pillar_moved CASCADE")
    edit(database, {"minion": "web1"}, "own", {"own": 2})
    install(database, "pillar_changes.sql")
    assert "name a time from" in uyuni.refused(database, minion="web1", at=at)
    ((at,),) = database.run(NOW)
    edit(database, {"minion": "web1"}, "own", {"own": 3})
    assert uyuni.ask(database, "show", minion="web1", at=at)["own"] == 2


def test_preview_says_what_an_edit_does(uyuni: Uyuni, database: sources.Database) -> None:
    """What a preview says of random edits is what becomes of the pillars, and it changes nothing itself."""
    draw = Random(SEED)  # noqa: S311 - repeatable
    changed = 0
    for _ in range(STEPS):
        owner, category, pillar = drawn(draw)
        before = uyuni.served(database)
        report = uyuni.ask(database, "preview", category=category, pillar=pillar, **owner)
        assert uyuni.served(database) == before
        edit(database, owner, category, pillar)
        after = uyuni.served(database)
        expected = {minion for minion in MINIONS if before[minion] != after[minion]}
        said = {minion: change for change in report["changes"] for minion in change["minions"]}
        assert set(said) == expected, (owner, category, pillar, report)
        for minion, change in said.items():
            for side, pillars in (("now", before), ("then", after)):
                assert _within(change[side], pillars[minion]), (side, change, pillars[minion])
        changed += bool(expected)
        step(database, draw)
    assert changed > STEPS / 4


def test_edits_that_cannot_be(uyuni: Uyuni, database: sources.Database) -> None:
    """A row of two owners, of an owner that is not there, or of no pillar is refused."""
    asked = {"function": "preview", "category": "one"}
    assert "A row has one owner" in uyuni.refused(database, **asked, group=1, minion="web1")
    assert "no minion nobody" in uyuni.refused(database, **asked, minion="nobody")
    assert "no group 9" in uyuni.refused(database, **asked, group=9)
    assert "no organization 9" in uyuni.refused(database, **asked, organization=9)
    for pillar, said in (("text", "is a mapping"), ([1], "is a mapping"), ({"a": float("inf")}, "JSON cannot hold it")):
        assert said in uyuni.refused(database, **asked, pillar=pillar)


def _within(part: Any, whole: Any) -> bool:
    """Say whether a value is a part of another one."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)
