"""The forms of the pillar storage that the RFC describes and nobody runs: tests compare them with those of the bed.

The RFC has one table with foreign keys, reached by a function (see `schema.FORMS`) or by four queries, and one with a
column for the target. As the RFC writes its queries, the rows come as they lie on the disk, so there are the same
queries with an order.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg2

from harness.database import schema, sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.database import Postgres
    from harness.database.sources import Database

FOUR = (
    "SELECT pillar from suseSaltPillars WHERE server_id is NULL AND group_id is NULL AND org_id is NULL",
    """SELECT pillar from suseSaltPillars WHERE org_id = (SELECT org_id FROM rhnServer AS S
       LEFT JOIN suseMinionInfo AS M on S.id = M.server_id WHERE M.minion_id = %s)""",
    """SELECT pillar from suseSaltPillars WHERE group_id IN (SELECT server_group_id FROM rhnServerGroupMembers AS G
       LEFT JOIN suseMinionInfo AS M ON G.server_id = M.server_id WHERE M.minion_id = %s)""",
    """SELECT pillar from suseSaltPillars WHERE server_id = (SELECT server_id FROM suseMinionInfo AS M
       WHERE M.minion_id = %s)""",
)
TARGET = (
    "SELECT pillar from suseSaltPillars WHERE target = '*'",
    """SELECT pillar from suseSaltPillars WHERE target = (SELECT CONCAT('org_id:', org_id::VARCHAR) FROM rhnServer AS S
       LEFT JOIN suseMinionInfo AS M on S.id = M.server_id WHERE M.minion_id = %s)""",
    """SELECT pillar from suseSaltPillars WHERE target IN (SELECT CONCAT('group_id:', server_group_id::VARCHAR)
       FROM rhnServerGroupMembers AS G LEFT JOIN suseMinionInfo AS M ON G.server_id = M.server_id
       WHERE M.minion_id = %s)""",
    "SELECT pillar from suseSaltPillars WHERE target = %s",
)
BY_GROUP = ' ORDER BY group_id, category COLLATE "C"'
BY_TARGET = " ORDER BY substring(target from 'group_id:(.*)')::NUMERIC, category COLLATE \"C\""
BY_CATEGORY = ' ORDER BY category COLLATE "C"'
# without this a minion that Uyuni does not know and whose id is "org_id:1" would get the organisation's pillars
KNOWN_TARGET = (*TARGET[:3], f"{TARGET[3]} AND EXISTS (SELECT FROM suseMinionInfo AS M WHERE M.minion_id = target)")
TARGET_FILES = ("uyuni.sql", "pillar_target.sql")


def _ordered(queries: Sequence[str], groups: str) -> tuple[str, ...]:
    return tuple(query + (groups if number == 2 else BY_CATEGORY) for number, query in enumerate(queries))


FORMS = {
    **schema.FORMS,
    "four": schema.Form("four", schema.RFC, _ordered(FOUR, BY_GROUP)),
    "target": schema.Form("target", TARGET_FILES, _ordered(KNOWN_TARGET, BY_TARGET)),
}
AS_WRITTEN = {"four": schema.Form("four", schema.RFC, FOUR), "target": schema.Form("target", TARGET_FILES, TARGET)}


def make(server: Postgres, name: str, form: str) -> Database:
    """Make a database with the files of a form."""
    made = sources.make(server, name)
    schema.install_form(made.server.dsn, FORMS[form])
    return made


def fill(database: Database, form: str, minions: Sequence[str], seed: int, scale: schema.Scale) -> None:
    """Fill a database of a form with the pillars of minions."""
    (fill_target if form == "target" else schema.fill)(database.server.dsn, minions, seed, scale)


def filled(server: Postgres, name: str, form: str, minions: Sequence[str]) -> Database:
    """Make a database of a form with the bed's pillars of these minions."""
    made = make(server, name, form)
    fill(made, form, minions, sources.SEED, sources.SCALE)
    return made


def fill_target(dsn: str, minions: Sequence[str], seed: int, scale: schema.Scale) -> None:
    """Fill the form `target` with the rows that `schema.fill` gives the others."""
    organisations, groups = range(1, scale.organisations + 1), range(1, scale.groups + 1)
    servers = [schema.Server(number, minion) for number, minion in enumerate(minions, 1)]
    with closing(psycopg2.connect(dsn)) as connection, connection:
        schema.add_owners(connection, servers, scale)
        rows = schema.shared_rows(organisations, groups, seed)
        schema.copy(connection, "suseSaltPillars", ("target", "category", "pillar"), _targets(rows, {}))
        ids = {server.number: server.minion for server in servers}
        own = (row for server in servers for row in schema.minion_rows(server, seed, scale))
        schema.copy(connection, "suseSaltPillars", ("target", "category", "pillar"), _targets(own, ids))
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def _targets(rows: Iterable[tuple[Any, ...]], ids: dict[int, str]) -> Iterator[tuple[str, str, str]]:
    for server, group, org, category, pillar in rows:
        if server is not None:
            target = ids[server]
        elif group is not None:
            target = f"group_id:{group}"
        else:
            target = "*" if org is None else f"org_id:{org}"
        yield target, category, pillar


def shuffle(dsn: str, form: schema.Form) -> None:
    """Put the pillars on the disk in another order; the ids stay those of the rows."""
    columns = "target, category, pillar" if form.name == "target" else f"id, {', '.join(schema.PILLAR)}"
    overriding = "" if form.name == "target" else "OVERRIDING SYSTEM VALUE"
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE shuffled ON COMMIT DROP AS SELECT * FROM suseSaltPillars")
        cursor.execute("TRUNCATE suseSaltPillars")
        cursor.execute(
            f"INSERT INTO suseSaltPillars ({columns}) {overriding} SELECT {columns} FROM shuffled ORDER BY random()"  # noqa: S608 - own names
        )
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("ANALYZE suseSaltPillars")


def canonical(pillar: dict[str, Any]) -> str:
    """Return a pillar as canonical JSON, in which equal pillars are equal texts."""
    return json.dumps(pillar, sort_keys=True, separators=(",", ":"))
