"""Statements that change the state of a session of PostgreSQL, made from what the server itself says it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

    from harness.database import sources

SETTINGS = "SELECT name, vartype, enumvals, min_val, max_val FROM pg_settings WHERE context IN ('user', 'superuser')"
# values for settings whose type says nothing of them
TEXTS = {
    "client_encoding": ("LATIN1", "SQL_ASCII", "WIN1251", "EUC_JP", "UTF8"),
    "DateStyle": ("German", "SQL, DMY", "Postgres, MDY", "ISO, YMD"),
    "TimeZone": ("Asia/Tokyo", "UTC", "America/New_York"),
    "timezone_abbreviations": ("Australia", "India"),
    "search_path": ("pg_catalog", "elsewhere", "pg_temp"),
    "role": ("pg_monitor", "pg_read_all_data"),
    "session_authorization": ("plain",),
    "lc_messages": ("C", "POSIX"),
    "lc_numeric": ("C", "POSIX"),
    "default_text_search_config": ("pg_catalog.german", "pg_catalog.simple"),
    "application_name": ("another", ""),
}
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
SET_UP = """
CREATE ROLE plain;
CREATE SEQUENCE numbers;
CREATE TABLE written (a INTEGER);
CREATE FUNCTION doing(statement TEXT) RETURNS JSONB LANGUAGE plpgsql AS $$
BEGIN EXECUTE statement; RETURN '{"statement": true}'; END $$;
"""
FUNCTIONS = 0.5
ANSWER = "SELECT jsonb_build_object('statement', true)"


class Statements:
    """Makes statements; `random` decides which."""

    def __init__(self, random: Random, database: sources.Database) -> None:
        """Ask the server for its settings."""
        self._random = random
        self._settings = database.run(SETTINGS)
        self._number = 0

    def next(self) -> str:
        """Return one that changes something, and then gives a pillar; some of them end the transaction first.

        Half of them do it inside a function, where a query looks as harmless as any.
        """
        self._number += 1
        statement = self._random.choice(self._kinds())
        if self._random.random() < FUNCTIONS:
            return f"SELECT doing($query${statement}$query$)"
        leave = self._random.choice(("", "", "", "", "COMMIT; ", "ROLLBACK; ", "COMMIT AND CHAIN; ", "SAVEPOINT a; "))
        back = self._random.choice(("", "", "", "; BEGIN", "; COMMIT", "; ROLLBACK"))
        return f"{leave}{statement}{back}; {ANSWER}"

    def _kinds(self) -> list[str]:
        number, some = self._number, self._random.randrange(1, 100)
        return [
            *(self._setting() for _ in range(10)),
            f"PREPARE p{number % 5} AS SELECT {number}",
            f"PREPARE p{number % 5} (text) AS SELECT $1",
            f"DECLARE c{number % 5} CURSOR WITH HOLD FOR SELECT {number}",
            f"DECLARE c{number % 5} SCROLL CURSOR FOR SELECT {number}",
            f"LISTEN channel_{number % 5}",
            f"LISTEN channel_{number % 5}; NOTIFY channel_{number % 5}",
            f"CREATE TEMPORARY TABLE t{number % 5} (a INTEGER)",
            f"CREATE TEMPORARY TABLE suseMinionInfo AS SELECT {number} AS server_id, 'web1' AS minion_id",
            f"CREATE TEMPORARY VIEW v{number % 5} AS SELECT {number}",
            f"CREATE TEMPORARY SEQUENCE s{number % 5}",
            f"CREATE FUNCTION pg_temp.f{number % 5}() RETURNS INTEGER LANGUAGE sql AS 'SELECT 1'",
            f"SELECT pg_advisory_lock({some})",
            f"SELECT pg_advisory_lock_shared({some}, {some})",
            f"SELECT pg_try_advisory_lock({some}), pg_advisory_xact_lock({some + 1})",
            "SELECT nextval('numbers')",
            f"SELECT setval('numbers', {some})",
            "SET ROLE pg_monitor",
            "SET SESSION AUTHORIZATION plain",
            f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {self._random.choice(LEVELS)} READ ONLY",
            f"SET TRANSACTION ISOLATION LEVEL {self._random.choice(LEVELS)}",
            "SET TRANSACTION READ WRITE",
            f"INSERT INTO written VALUES ({number})",  # noqa: S608 - own text
            f"LOCK TABLE written IN {self._random.choice(('SHARE', 'ACCESS EXCLUSIVE'))} MODE",
            "SELECT set_config('salt.minion', 'web1', false)",
            "SELECT 1/0",
        ]

    def _setting(self) -> str:
        name, kind, names, least, most = self._random.choice(self._settings)
        value = str(self._value(name, kind, names, least, most)).replace("'", "''")
        form = self._random.choice(
            (
                "SET {} TO '{}'",
                "SET SESSION {} TO '{}'",
                "SET LOCAL {} TO '{}'",
                "SELECT set_config('{}', '{}', false)",
                "DO $$ BEGIN PERFORM set_config('{}', '{}', false); END $$",
            )
        )
        return form.format(name, value)

    def _value(self, name: str, kind: str, names: list[str] | None, least: str | None, most: str | None) -> Any:
        if names:
            return self._random.choice(names)
        if kind == "bool":
            return self._random.choice(("on", "off"))
        if kind in {"integer", "real"} and least is not None and most is not None:
            low, high = float(least), float(most)
            chosen = self._random.choice((low, high, self._random.uniform(low, min(high, low + 1000))))
            return int(chosen) if kind == "integer" else chosen
        return self._random.choice(TEXTS.get(name, ("x", "")))
