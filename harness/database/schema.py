"""The schema of the pillar storage, and its rows for the bed's minions.

The rows are those of an Uyuni server of ten organisations: pillars of the whole server, of organisations, of groups
and of minions. A minion's compile merges 24 of them, about 45 KB.
"""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2

from harness.database import content

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from psycopg2.extensions import connection as Connection  # noqa: N812 - a class, whatever its name

SQL = Path(__file__).resolve().parents[2] / "sql"
SCHEMA = ("uyuni.sql", "pillar.sql")
# the tables and the function as the RFC writes them
RFC = ("uyuni.sql", "pillar_rfc.sql")
PILLAR = ("server_id", "group_id", "org_id", "category", "pillar")


@dataclass(frozen=True)
class Scale:
    """How many organisations and groups there are, and how many of its organisation's groups a minion is in."""

    organisations: int = 10
    groups: int = 50
    memberships: int = 3

    def organisation(self, number: int) -> int:
        """Return the organisation of the group or the server of this number."""
        return 1 + (number - 1) % self.organisations

    def groups_of(self, server: int) -> list[int]:
        """Return the groups that a server is a member of, all of its own organisation."""
        own = range(self.organisation(server), self.groups + 1, self.organisations)
        first = server // self.organisations
        return sorted({own[(first + step) % len(own)] for step in range(min(self.memberships, len(own)))})


@dataclass(frozen=True)
class Server:
    """A minion as Uyuni knows it: by number and by minion id."""

    number: int
    minion: str


def read(name: str, folder: Path = SQL) -> str:
    """Return the statements of a file of `sql/`, without the lines that psql keeps to itself."""
    lines = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("\\"))


def install(dsn: str, folder: Path = SQL) -> None:
    """Create the tables and the function; doing it twice changes nothing."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        for name in SCHEMA:
            cursor.execute(read(name, folder))


def fill(dsn: str, minions: Sequence[str], seed: int, scale: Scale) -> None:
    """Fill an empty schema with organisations, groups, and the minions of these ids with their pillars."""
    organisations, groups = range(1, scale.organisations + 1), range(1, scale.groups + 1)
    servers = [Server(number, minion) for number, minion in enumerate(minions, 1)]
    with closing(psycopg2.connect(dsn)) as connection, connection:
        add_owners(connection, servers, scale)
        copy(connection, "suseSaltPillars", PILLAR, shared_rows(organisations, groups, seed))
        add_pillars(connection, servers, seed, scale)
        with connection.cursor() as cursor:
            # without this the planner has no statistics of the new tables
            cursor.execute("ANALYZE")


def add_owners(connection: Connection, servers: Sequence[Server], scale: Scale) -> None:
    """Write organisations, groups, and minions with their memberships."""
    organisations, groups = range(1, scale.organisations + 1), range(1, scale.groups + 1)
    copy(connection, "web_customer", ("id", "name"), ((org, f"org-{org}") for org in organisations))
    rows = ((group, f"group-{group}", f"Group {group}", scale.organisation(group)) for group in groups)
    copy(connection, "rhnServerGroup", ("id", "name", "description", "org_id"), rows)
    add(connection, servers, scale)


def add_minion(dsn: str, minion: str, seed: int, scale: Scale) -> None:
    """Add one minion with its pillars to a filled schema, unless it is there."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        # one at a time: two at once would choose the same number
        cursor.execute("LOCK TABLE rhnServer")
        cursor.execute("SELECT 1 FROM suseMinionInfo WHERE minion_id = %s", (minion,))
        if cursor.fetchone() is None:
            cursor.execute("SELECT coalesce(max(id), 0) + 1 FROM rhnServer")
            (number,) = cursor.fetchone() or (1,)
            servers = [Server(int(number), minion)]
            add(connection, servers, scale)
            add_pillars(connection, servers, seed, scale)


def add(connection: Connection, servers: Sequence[Server], scale: Scale) -> None:
    """Write minions with their groups."""
    rows = ((server.number, scale.organisation(server.number), server.minion) for server in servers)
    copy(connection, "rhnServer", ("id", "org_id", "name"), rows)
    copy(connection, "suseMinionInfo", ("server_id", "minion_id"), ((one.number, one.minion) for one in servers))
    members = ((server.number, group) for server in servers for group in scale.groups_of(server.number))
    copy(connection, "rhnServerGroupMembers", ("server_id", "server_group_id"), members)


def add_pillars(connection: Connection, servers: Sequence[Server], seed: int, scale: Scale) -> None:
    """Write the pillars of minions."""
    pillars = (row for server in servers for row in minion_rows(server, seed, scale))
    copy(connection, "suseSaltPillars", PILLAR, pillars)


def copy(connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows by COPY, which is what makes ten thousand minions a matter of seconds."""
    text = io.StringIO()
    for row in rows:
        fields = ("\\N" if value is None else str(value).replace("\\", "\\\\").replace("\t", "\\t") for value in row)
        text.write("\t".join(fields) + "\n")
    text.seek(0)
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY {table} ({', '.join(columns)}) FROM STDIN", text)


def shared_rows(organisations: Iterable[int], groups: Iterable[int], seed: int) -> Iterator[tuple[Any, ...]]:
    """Yield the pillars of the whole server, the organisations and the groups."""
    for category in content.GLOBAL:
        yield None, None, None, category, content.shared(seed, "global", 0, category)
    for org in organisations:
        for category in content.ORGANISATION:
            yield None, None, org, category, content.shared(seed, "organisation", org, category)
    for group in groups:
        for category in content.GROUP:
            yield None, group, None, category, content.shared(seed, "group", group, category)


def minion_rows(server: Server, seed: int, scale: Scale) -> Iterator[tuple[Any, ...]]:
    """Yield the pillars of one minion."""
    facts: dict[str, dict[str, Any]] = {
        "general": {
            "minion_id": server.minion,
            "org_id": scale.organisation(server.number),
            "mgr_server_id": server.number,
        },
        "group-memberships": {"group_ids": scale.groups_of(server.number)},
        "custom-info": {"custom_info": {"asset": f"{server.number:08d}"}},
        "formula-system": {"formulas": list(content.GROUP)},
    }
    for category in content.MINION:
        document = content.of_minion(seed, server.number, category, facts[category])
        yield server.number, None, None, category, document
