"""Pillars out of PostgreSQL on releases of Salt to which the topics are carried over, with a real master and minion."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness.bed import Bed, BedSettings
from harness.bed.master import PILLAR_QUERY
from harness.database import scratch
from tests.live.salt_release import RELEASES, release, with_extensions

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]
REAL, MINIONS = "real", 5
TOPICS = ("sql-base-json", "sql-base-params", "sql-pillar-failures", "sql-pillar-tls", "sql-pillar-connections")
WITH_PARAMETERS = {
    "query": "SELECT json_build_object('asked', json_build_object('id', %(minion_id)s::text, 'os', %(os)s::text))",
    "params": {"os": "grains:kernel"},
}


@pytest.mark.parametrize("version", RELEASES[:2])
def test_pillar_on_a_patched_release(version: str, root: Path, tmp_path: Path) -> None:
    """The patches that `fits` writes go onto the installed release; its pillars are whole, over one kept connection."""
    made = patched(version, root, tmp_path)
    options = {"ext_pillar": [{"postgres": [PILLAR_QUERY, WITH_PARAMETERS]}]}
    settings = BedSettings(tree=made, folder=tmp_path / "bed", minions=MINIONS, api=False, master_options=options)
    with Bed(settings) as bed:
        bed.start_minion(REAL)
        bed.start_fleet().wait_ready(120)
        more = ["--out=json", "--static", "--timeout=60"]
        answers: dict[str, Any] = {}
        # simulated minions mask what they show, as Salt 3008 does; the real one does not know that
        for asked in (["minion-*", "pillar.items", "unmask=True"], [REAL, "pillar.items"]):
            answers |= json.loads(bed.salt([*asked, *more], timeout=120).stdout)
        assert sorted(answers) == sorted([*bed.settings.minion_ids(), REAL])
        for minion, pillar in answers.items():
            scopes = {category.partition("/")[0] for category in pillar["saltbed"]["categories"]}
            assert (pillar["minion_id"], scopes) == (minion, {"global", "organisation", "group", "minion"})
            assert pillar["asked"] == {"id": minion, "os": "Linux"}
        database = scratch.Database(bed.postgres)
        found = database.run("SELECT state FROM pg_stat_activity WHERE application_name = 'salt'")
        assert 1 <= len(found) <= 5
        database.run("ALTER TABLE suseSaltPillars RENAME TO elsewhere")
        refused = json.loads(bed.salt([REAL, "state.apply", *more], timeout=120).stdout)[REAL]
        assert "Failed to load ext_pillar postgres" in str(refused)


def patched(version: str, root: Path, folder: Path) -> Path:
    """Return an environment with a release of Salt and the topics."""
    topics = [word for topic in TOPICS for word in ("--topic", topic)]
    command = [sys.executable, "-m", "patches", "fits", version, *topics, "--output", str(folder / "fits"), "--json"]
    found = json.loads(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout)["fits"]
    assert all(set(one["requires"]) <= set(TOPICS) for one in found)
    base = release(root, version)
    made = with_extensions(base, folder / "salt", [])
    site = next((made / "lib").glob("python3*")) / "site-packages"
    shutil.copytree(next((base / "lib").glob("python3*")) / "site-packages" / "salt", site / "salt")
    for one in found:
        # what belongs to tests and docs is not installed
        apply = ["git", "apply", "--include=salt/*", one["written"]]
        subprocess.run(apply, cwd=site, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(made)}, check=True)
    assert (site / "salt" / "utils" / "postgres.py").exists()
    return made
