"""The schema of the pillar storage, and its rows for the bed's minions.

The rows are those of an Uyuni server of ten organisations: pillars of the whole server, of organisations, of groups
and of minions. A minion's compile merges 24 of them, about 45 KB.

What matters for the load is their number, their size and their shape: about two dozen for a minion, a few kilobytes
each, nested, and overlapping between scopes, so that merging has something to decide. Each is a function of the seed,
its owner and its category.

The RFC has one table with foreign keys, reached by a function; `sql/pillar.sql` is the same, improved. Tests and
benchmarks compare them, so both hold the same rows.
"""

from __future__ import annotations

import io
import json
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from psycopg2.extensions import connection as Connection  # noqa: N812 - a class, whatever its name

# Uyuni's own generators and the usual formulas go by these names
GLOBAL = ("gpgkeys", "manager", "images", "proxies")
ORGANISATION = ("organisation", "images", "channels", "contact")
GROUP = ("formula-users", "formula-ntp", "formula-packages", "formula-monitoring")
MINION = ("general", "group-memberships", "custom-info", "formula-system")
WORDS = ("alpha", "bravo", "delta", "echo", "golf", "hotel", "india", "kilo", "lima", "mike", "oscar", "papa", "tango")
ROLES = ("web", "database", "proxy", "build", "desktop")
ENTRIES = 16
# making the content is most of the time that seeding takes, so minions share it: every 97th has the same
VARIANTS = 97


def entry(random: Random) -> dict[str, Any]:
    """Return one of a document's nested values, about a hundred bytes."""
    return {
        "label": f"{random.choice(WORDS)}-{random.choice(WORDS)}-{random.randrange(10_000)}",
        "enabled": random.random() < 0.5,  # noqa: PLR2004 - even odds
        "checksum": f"{random.getrandbits(128):032x}",
        "weight": random.randrange(100),
    }


@lru_cache(maxsize=4096)
def body(seed: int, scope: str, owner: int, category: str) -> str:
    """Return the members of a document that take most of its room, as JSON without the braces around it."""
    random = Random(f"{seed}/{scope}/{owner}/{category}")  # noqa: S311 - made-up content, nothing secret
    name = category.replace("-", "_")
    document = {
        name: {f"{random.choice(WORDS)}_{number}": entry(random) for number in range(ENTRIES)},
        # the same keys in every scope: the narrowest has to win
        "saltbed": {"scope": scope, scope: owner, "categories": {f"{scope}/{category}": random.randrange(1000)}},
    }
    if scope == "minion" and category == "custom-info":
        document["role"] = ROLES[owner % len(ROLES)]
        document["room"] = {"rack": owner % 12, "site": WORDS[owner % len(WORDS)]}
    return json.dumps(document)[1:-1]


def shared(seed: int, scope: str, owner: int, category: str) -> str:
    """Return a pillar of the whole server, an organisation or a group as JSON."""
    return f"{{{body(seed, scope, owner, category)}}}"


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


def read(name: str) -> str:
    """Return the statements of a file of `sql/`, without the lines that psql keeps to itself."""
    lines = (SQL / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("\\"))


def install(dsn: str) -> None:
    """Create the tables and the function; doing it twice changes nothing."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        for name in SCHEMA:
            cursor.execute(read(name))


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
    for category in GLOBAL:
        yield None, None, None, category, shared(seed, "global", 0, category)
    for org in organisations:
        for category in ORGANISATION:
            yield None, None, org, category, shared(seed, "organisation", org, category)
    for group in groups:
        for category in GROUP:
            yield None, group, None, category, shared(seed, "group", group, category)


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
        "formula-system": {"formulas": list(GROUP)},
    }
    for category in MINION:
        # what it shares with others, and its own facts
        document = (
            f"{{{json.dumps(facts[category])[1:-1]}, {body(seed, 'minion', server.number % VARIANTS, category)}}}"
        )
        yield server.number, None, None, category, document


FUNCTION = ("SELECT suse_minion_pillars(%s)",)


@dataclass(frozen=True)
class Form:
    """One form: its files below `sql/`, and its queries."""

    name: str
    files: tuple[str, ...]
    queries: tuple[str, ...]

    def options(self) -> list[dict[str, Any]]:
        """Return the value of `ext_pillar` in the master's configuration."""
        return [{"postgres": [{"query": query} for query in self.queries]}]


FORMS = {
    form.name: form for form in (Form("rfc", RFC, FUNCTION), Form("improved", ("uyuni.sql", "pillar.sql"), FUNCTION))
}


def install_form(dsn: str, form: Form) -> None:
    """Run the files of a form, each as psql would; doing it twice changes nothing."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        # the files have their own transactions
        connection.autocommit = True
        for name in form.files:
            cursor.execute(read(name))
