"""Databases whose changes of pillars are noted: made once for a file of tests, and copied for each of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.database import sources
from tests.live.helpers.pillar_files import OWNERS, UYUNI, install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = ("ours", "uyuni")
ROWS = """
INSERT INTO suseSaltPillars (group_id, category, pillar) VALUES (1, 'group', '{"group": 1}');
INSERT INTO suseSaltPillars (server_id, category, pillar) VALUES (1, 'own', '{"own": 1}'), (3, 'own', '{"own": 3}');
"""
CHANGES = "SELECT snapshot, minions FROM suse_salt_pillar_changes(%s)"
EVERYBODY = ["other", "web1", "web2"]


@contextmanager
def model(kind: str, logs: Path, more: str = "") -> Iterator[sources.Database]:
    """Start a server and yield a database with pillars on it, over our table or over Uyuni's."""
    with sources.served(logs) as server:
        made = sources.make(server, "model")
        install(made, "uyuni.sql")
        made.run(UYUNI if kind == "uyuni" else "SELECT 1")
        install(made, *["pillar.sql", "pillar_changes.sql"] * 2)
        made.run(OWNERS + ROWS + more)
        yield made


@contextmanager
def copied(template: sources.Database, test: str) -> Iterator[sources.Database]:
    """Yield a copy of a database for a test."""
    name = f"copy_{abs(hash(test))}"
    yield sources.make(template.server, name, template=template.server.database)
    template.alone(f'DROP DATABASE "{name}" WITH (FORCE)')


def since(database: sources.Database, snapshot: str | None = None) -> tuple[str, list[str]]:
    """Return up to where changes are known, and the minions that they touch."""
    ((found, minions),) = database.run(CHANGES, snapshot)
    return str(found), list(minions)
