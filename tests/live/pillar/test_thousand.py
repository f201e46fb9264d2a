"""The pillars of a thousand minions: the same bytes by every way, however the rows lie on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.database import sources
from harness.saltprocess.patched import Salt, options, patched
from tests.live.helpers import pillar_layouts
from tests.live.helpers.pillar_layouts import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database import Postgres

pytestmark = [pytest.mark.live, pytest.mark.long]
ORDERED = ("four", "target", "improved")
IDS = sources.ids(1000)
SHUFFLES = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with sources.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        yield found


def digests(salt: Salt, database: sources.Database, source: list[dict[str, object]]) -> list[str]:
    """Return a digest of each minion's pillar."""
    found: list[str] = salt.act("digests", options(database.server, source), IDS)
    return found


def test_shuffled_rows_give_the_same_pillars(salt: Salt, server: Postgres) -> None:
    """Function, four queries and target queries agree on all minions, and go on to do so after each of 20 shuffles."""
    databases = {form: pillar_layouts.filled(server, f"shuffled_{form}", form, IDS) for form in ORDERED}
    expected = digests(salt, databases["improved"], FORMS["improved"].options())
    assert len(set(expected)) == len(IDS)
    for number in range(SHUFFLES + 1):
        for form in ORDERED:
            if number:
                pillar_layouts.shuffle(databases[form].server.dsn, FORMS[form])
            assert digests(salt, databases[form], FORMS[form].options()) == expected, (form, number)
