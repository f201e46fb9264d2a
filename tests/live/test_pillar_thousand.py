"""The pillars of a thousand minions: the same bytes by every way, however the rows lie on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.database import forms, scratch
from harness.saltprocess.patched import Salt, options, patched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database.postgres import Postgres

pytestmark = [pytest.mark.live, pytest.mark.long]
ORDERED = ("four", "target", "improved")
IDS = scratch.ids(1000)
SHUFFLES = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with scratch.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        yield found


def digests(salt: Salt, database: scratch.Database, source: list[dict[str, object]]) -> list[str]:
    """Return a digest of each minion's pillar."""
    found: list[str] = salt.act("digests", options(database.server, source), IDS)
    return found


def test_shuffled_rows_give_the_same_pillars(salt: Salt, server: Postgres) -> None:
    """Function, four queries and target queries agree on all minions, and go on to do so after each of 20 shuffles."""
    databases = {form: scratch.filled(server, f"shuffled_{form}", form, IDS) for form in ORDERED}
    expected = digests(salt, databases["improved"], forms.FORMS["improved"].options())
    assert len(set(expected)) == len(IDS)
    for number in range(SHUFFLES + 1):
        for form in ORDERED:
            if number:
                forms.shuffle(databases[form].server.dsn, forms.FORMS[form])
            assert digests(salt, databases[form], forms.FORMS[form].options()) == expected, (form, number)


def test_files_of_a_thousand_minions(salt: Salt, server: Postgres, tmp_path: Path) -> None:
    """Exported, imported twice and verified: nothing is lost or changed, and the pillars are those of the files."""
    database = scratch.filled(server, "thousand", "improved", IDS)
    report = salt.run(database.server, "pillar_sql.export", folder=str(tmp_path))
    folders: dict[str, object] = {name: str(tmp_path / name) for name in ("pillar_data", "static_data", "formula_data")}
    folders["categories"] = report["categories"]
    first = salt.run(database.server, "pillar_sql.import_files", **folders)
    # the bed's rows have no lists of formulas
    assert (first["added"], first["changed"], first["bad"]) == (len(IDS), 0, 0)
    broken = tmp_path / "pillar_data" / f"pillar_{IDS[0]}.yml"
    text = broken.read_text()
    broken.write_text("a: [")
    answer = salt.answer(database.server, "pillar_sql.import_files", skip_bad=True, **folders)
    assert (answer["retcode"], answer["result"]["bad"]) == (1, 1)
    broken.write_text(text)
    second = salt.run(database.server, "pillar_sql.import_files", **folders)
    assert [answer["result"]["added"], answer["result"]["changed"], second["added"], second["changed"]] == [0, 0, 0, 0]
    verified = salt.run(database.server, "pillar_sql.verify", **folders)
    assert (verified["minions"], verified["different"]) == (len(IDS), {})
    files = digests(salt, database, [{"uyuni_files": {**folders, "keep": True}}])
    assert files == digests(salt, database, forms.FORMS["improved"].options())
