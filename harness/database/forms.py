"""The forms of the pillar storage, and how Salt asks each for a minion's pillars.

The RFC has one table with foreign keys, reached by a function or by four queries, and one with a column for the
target; `sql/pillar.sql` is the first, improved. Tests and benchmarks compare them, so all hold the same rows.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2

from harness.database import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

FUNCTION = ("SELECT suse_minion_pillars(%s)",)
# As the RFC writes them, and with an order: without one the rows come as they lie on the disk.
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


@dataclass(frozen=True)
class Form:
    """One form: its files below `sql/`, its queries, and the same queries with a complete order."""

    name: str
    files: tuple[str, ...]
    queries: tuple[str, ...]
    ordered: tuple[str, ...]

    def options(self, *, ordered: bool = True) -> list[dict[str, Any]]:
        """Return the value of `ext_pillar` in the master's configuration."""
        return [{"postgres": [{"query": query} for query in (self.ordered if ordered else self.queries)]}]


# without this a minion that Uyuni does not know and whose id is "org_id:1" would get the organisation's pillars
KNOWN_TARGET = (*TARGET[:3], f"{TARGET[3]} AND EXISTS (SELECT FROM suseMinionInfo AS M WHERE M.minion_id = target)")


def _ordered(queries: Sequence[str], groups: str) -> tuple[str, ...]:
    return tuple(query + (groups if number == 2 else BY_CATEGORY) for number, query in enumerate(queries))  # noqa: PLR2004 - the third


FORMS = {
    form.name: form
    for form in (
        Form("rfc", schema.RFC, FUNCTION, FUNCTION),
        Form("four", schema.RFC, FOUR, _ordered(FOUR, BY_GROUP)),
        Form("target", ("uyuni.sql", "pillar_target.sql"), TARGET, _ordered(KNOWN_TARGET, BY_TARGET)),
        Form("improved", ("uyuni.sql", "pillar.sql"), FUNCTION, FUNCTION),
    )
}


def install(dsn: str, form: Form, folder: Path = schema.SQL) -> None:
    """Run the files of a form, each as psql would; doing it twice changes nothing."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        # the files have their own transactions
        connection.autocommit = True
        for name in form.files:
            cursor.execute(schema.read(name, folder))


def fill_target(dsn: str, minions: Sequence[str], seed: int, scale: schema.Scale) -> None:
    """Fill the target form with the rows that `schema.fill` gives the others."""
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


def shuffle(dsn: str, form: Form) -> None:
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
