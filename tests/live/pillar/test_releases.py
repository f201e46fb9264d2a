"""Pillars out of PostgreSQL on releases of Salt to which the topics are carried over, with a real master and minion."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness import samples
from harness.bed import Bed, BedSettings
from harness.bed.master import PILLAR_QUERY
from harness.database import sources
from harness.results import runs
from harness.samples import ClientSample
from tests.live.helpers import real_minion
from tests.live.helpers.salt_release import RELEASES, release, with_extensions

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]
REAL, MINIONS = "real", 5
FAILING = "__virtualname__ = 'system'\ndef __virtual__():\n    return False, 'not this platform'\n"
WITH_PARAMETERS = {
    "query": "SELECT json_build_object('asked', json_build_object('id', %(minion_id)s::text, 'os', %(os)s::text))",
    "params": {"os": "grains:kernel"},
}


def test_pillar_on_a_patched_release(made: Path, tmp_path: Path) -> None:
    """What is kept for the release goes onto the installed one; its pillars are whole, over one kept connection."""
    options = {"ext_pillar": [{"postgres": [PILLAR_QUERY, WITH_PARAMETERS]}]}
    settings = BedSettings(tree=made, folder=tmp_path / "bed", minions=MINIONS, api=None, master_options=options)
    with Bed(settings) as bed:
        real_minion.start(bed, REAL)
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
        database = sources.Database(bed.postgres)
        found = database.run("SELECT state FROM pg_stat_activity WHERE application_name = 'salt'")
        assert 1 <= len(found) <= 5
        database.run("ALTER TABLE suseSaltPillars RENAME TO elsewhere")
        refused = json.loads(bed.salt([REAL, "state.apply", *more], timeout=120).stdout)[REAL]
        assert "Failed to load ext_pillar postgres" in str(refused)


def test_quick_on_a_patched_release(made: Path, root: Path, tmp_path: Path) -> None:
    """The bed's small scenario runs to its end on the release with its patches: each request is answered by all."""
    command = [sys.executable, "-m", "harness", "load", "--scenario", "quick", "--tree", str(made), "--json"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], cwd=root, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    rows = samples.read(runs.find(None, tmp_path) / "other" / "samples", ClientSample)
    assert rows
    assert {row.error for row in rows} == {""}


def test_all_modules_are_loaded(made: Path, tmp_path: Path) -> None:
    """A file that is named as another one which does not load here is loaded: these releases mend it themselves."""
    (tmp_path / "mac_system.py").write_text(FAILING)
    (tmp_path / "system.py").write_text("def halt():\n    return True\n")
    options = {"optimization_order": [0, 1, 2]}
    code = f"import salt.loader.lazy as lazy; print(list(lazy.LazyLoader([{str(tmp_path)!r}], {options})))"
    done = subprocess.run([made / "bin/python", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['system.halt']"


@pytest.fixture(scope="module", params=RELEASES[:2])
def version(request: pytest.FixtureRequest) -> str:
    """Give each release that a series is kept for."""
    return str(request.param)


@pytest.fixture(scope="module")
def made(version: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with a release of Salt and what is kept for it, as a distribution would patch it."""
    folder = tmp_path_factory.mktemp("release")
    command = [sys.executable, "-m", "patches", "export", "--base", version, "--code", "--output"]
    subprocess.run([*command, str(folder / "patches")], cwd=root, check=True, capture_output=True)
    base = release(root, version)
    made = with_extensions(base, folder / "salt", [])
    site = next((made / "lib").glob("python3*")) / "site-packages"
    shutil.copytree(next((base / "lib").glob("python3*")) / "site-packages" / "salt", site / "salt")
    for name in (folder / "patches/series").read_text().split():
        apply = ["git", "apply", str(folder / "patches" / name)]
        subprocess.run(apply, cwd=site, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(made)}, check=True)
    assert (site / "salt" / "utils" / "postgres" / "connection.py").exists()
    return made
