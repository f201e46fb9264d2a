"""Pillars out of PostgreSQL on a real master: complete on the fleet, refused by a real minion when they are not."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from harness.bed import Bed, BedSettings
from harness.database import schema, sources
from tests.live.helpers import real_minion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live
REAL, MINIONS = "real", 30


@pytest.fixture(scope="module")
def bed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a bed of the patched tree with the improved schema, which logs all that Salt can log."""
    settings = BedSettings(
        tree=root / "salt",
        folder=tmp_path_factory.mktemp("bed"),
        minions=MINIONS,
        api=None,
        master_options={"log_level_logfile": "all", "ext_pillar": schema.FORMS["improved"].options()},
    )
    with Bed(settings) as found:
        schema.install_form(found.postgres.dsn, schema.FORMS["improved"])
        real_minion.start(found, REAL)
        fleet = found.start_fleet()
        fleet.wait_ready(120)
        yield found
        fleet.stop()


def local(bed: Bed, *arguments: str) -> Any:
    """Return what the real minion answers."""
    return json.loads(bed.salt([REAL, *arguments, "--out=json", "--static", "--timeout=60"], timeout=120).stdout)[REAL]


def test_every_minion_has_its_pillar(bed: Bed) -> None:
    """`pillar.items` gives each minion the rows of all four scopes."""
    options = ["unmask=True", "--out=json", "--static", "--timeout=60"]
    answers = json.loads(bed.salt(["*", "pillar.items", *options], timeout=120).stdout)
    assert sorted(answers) == sorted([*bed.settings.minion_ids(), REAL])
    for minion, pillar in answers.items():
        scopes = {category.partition("/")[0] for category in pillar["saltbed"]["categories"]}
        assert (pillar["minion_id"], scopes) == (minion, {"global", "organisation", "group", "minion"})


def test_one_connection_for_each_worker(bed: Bed) -> None:
    """While it compiles pillars the master has at most as many connections as workers."""
    database = sources.Database(bed.postgres)
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'salt'"
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(bed.salt, ["*", "pillar.items", "--timeout=60"], timeout=120)
        counts = []
        while not done.done():
            counts.append(len(database.run(sessions)))
    assert 1 <= max(counts) <= 5


def test_state_apply_refuses_a_pillar_with_errors(bed: Bed) -> None:
    """A real minion applies no state while its pillar has errors, and works again afterwards."""
    database = sources.Database(bed.postgres)
    database.run("ALTER TABLE suseSaltPillars RENAME TO elsewhere")
    try:
        refused = local(bed, "state.apply")
    finally:
        database.run("ALTER TABLE elsewhere RENAME TO suseSaltPillars")
    assert refused == [
        "Pillar failed to render with the following messages:",
        "Failed to load ext_pillar postgres: the database reports UndefinedTable (42P01), see the log of the master",
    ]
    assert {state["result"] for state in local(bed, "state.apply").values()} == {True}


def test_runner_from_the_command_line(bed: Bed) -> None:
    """What the runner refuses is a sentence and an exit code of Salt's own command."""
    done = bed.salt_run(["pillar_sql.compare", f"minions={REAL}"])
    assert (done.returncode, "There is no ext_pillar suma_minion here" in done.stdout) == (1, True)


def test_password_is_in_no_log(bed: Bed) -> None:
    """No process of the bed has written the password of the database anywhere, at any level."""
    logs = [path for path in bed.logs.iterdir() if path.is_file()]
    assert any("[TRACE" in path.read_text(errors="replace") for path in logs)
    assert [path for path in logs if bed.postgres.password in path.read_text(errors="replace")] == []
