"""Psycopg 3 reads and writes the values that psycopg2 does, as a server has them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.database import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database.postgres import Postgres

pytestmark = pytest.mark.live
READ = [
    "'k'::text",
    "'x'::varchar",
    "'x'::char(3)",
    "'x'::name",
    "1.5::numeric",
    "1.5::float",
    "true",
    "NULL",
    "'10.1.2.3'::inet",
    "'10.1.2.0/24'::inet",
    "'10.0.0.0/8'::cidr",
    "'{10.1.2.3}'::inet[]",
    "'{10.0.0.0/8}'::cidr[]",
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid",
    "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'::uuid[]",
    "'08:00:2b:01:02:03'::macaddr",
    "row(1, 'a')",
    "ARRAY[row(1, 'a')]",
    "'infinity'::timestamptz",
    "'2020-01-01 10:00:00.5+00'::timestamptz",
    "'(1,2)'::point",
    "'2020-01-01'::date",
    "'infinity'::date",
    "'-infinity'::date",
    "'2020-01-01 10:00'::timestamp",
    "'infinity'::timestamp",
    "'{1,2}'::int[]",
    "'{a,NULL}'::text[]",
    "'{\"a\": 1}'::jsonb",
    "ARRAY['{\"a\": 1}'::jsonb]",
]
# what a database may have set for its sessions: the second is a zone that Python does not know
SETTINGS = ["datestyle = 'German, DMY'", "timezone = '<+0230>-02:30'", "datestyle = 'SQL'"]
TIMES = ["now()::date::text", "'2020-01-02 10:00+00'::timestamptz", "'2020-02-01'::date", "'2020-02-01'::timestamp"]
WRITTEN: list[tuple[str, Any]] = [
    ("'a' = ANY(%s)", ["a", "b"]),
    ("'a' IN %s", ("a", "b")),
    ("jsonb_build_object('roles', %s)", ["web", "db"]),
    ("%s", ["web", "it's"]),
    ("%s", [1, 2]),
    ("pg_typeof(%s)::text", [1, 2]),
    ("(%s)[1]", ["a", None]),
    ("%s::int[]", []),
    ("%s", [[1, 2], [3, 4]]),
    ("3 -%s", -5),
    ("%s::text", True),
    ("%s || 'x'", "m"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with scratch.served(tmp_path_factory.mktemp("server")) as found:
        yield found


def asked(server: Postgres, *queries: tuple[str, object]) -> tuple[list[Any], list[Any]]:
    """Return what each driver makes of queries, as it is and as a minion has it."""
    given = [(query, value if value is None else [(type(value).__name__, value)]) for query, value in queries]
    argv = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "driver_values.py")]
    text = json.dumps({"postgres": server.salt_options(), "queries": given})
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    return first, second


def test_values_are_read_alike(server: Postgres) -> None:
    """The same value of the same type, which a pillar can have."""
    first, second = asked(server, *((f"SELECT {value}", None) for value in READ))
    assert dict(zip(READ, second, strict=True)) == dict(zip(READ, first, strict=True))


@pytest.mark.parametrize("setting", SETTINGS)
def test_times_are_read_alike(server: Postgres, setting: str) -> None:
    """Whatever style and zone of times the sessions of a database begin with."""
    made = scratch.make(server, f"times_{SETTINGS.index(setting)}")
    made.run(f'ALTER DATABASE "{made.server.database}" SET {setting}')
    first, second = asked(made.server, *((f"SELECT {value}", None) for value in TIMES))
    assert dict(zip(TIMES, second, strict=True)) == dict(zip(TIMES, first, strict=True))


def test_values_are_written_alike(server: Postgres) -> None:
    """The same result of an expression that has the value."""
    first, second = asked(server, *((f"SELECT {expression}", value) for expression, value in WRITTEN))
    assert list(zip(WRITTEN, second, strict=True)) == list(zip(WRITTEN, first, strict=True))


def test_database_without_an_encoding(server: Postgres) -> None:
    """Text is text there too."""
    made = scratch.make(server, "plain")
    made.alone("CREATE DATABASE plain_ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    first, second = asked(replace(server, database="plain_ascii"), ("SELECT 'k'::text", None))
    assert second == first == [["'k'", "{'pillar': 'k'}"]]
