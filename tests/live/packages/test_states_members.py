"""Files of package states in a fleet that never stands still: after each hundred changes every file is right."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from harness.database import sources
from harness.saltprocess.patched import patched
from tests.live.helpers.package_states import uyuni

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(7200)]
WALK = Path(__file__).parents[1] / "helpers" / "membership_walk.py"
MINIONS, STEPS = (int(one) for one in os.environ.get("SALTBED_MEMBERS", "100,1000").split(","))


@pytest.mark.parametrize("registry", ["keys", "database"])
def test_every_file_is_what_is_wanted(registry: str, tmp_path: Path) -> None:
    """Random joins, leaves, renames, deletions and saves, with minions from keys and from Uyuni's tables."""
    seed = int(os.environ.get("SALTBED_SEED", "0")) or random.SystemRandom().randrange(10**6)
    with sources.served(tmp_path) as server:
        made = sources.make(server, "members")
        options = {
            "postgres": made.server.salt_options(),
            "package_states": {"sls_root": str(tmp_path / "sls"), "minions": registry},
            "pki_dir": str(tmp_path / "pki"),
            "cachedir": str(tmp_path / "cache"),
        }
        if registry == "database":
            uyuni(made)
            made.run("DELETE FROM rhnServerGroupMembers")
            for table in ("suseMinionInfo", "rhnServer", "rhnServerGroup"):
                made.run(f"DELETE FROM {table}")  # noqa: S608 - ours
        with patched(tmp_path / "salt") as salt:
            salt.act("run", options, "package_states.setup", {"uyuni": registry == "database"})
        asked = {
            "options": options,
            "minions": MINIONS,
            "steps": STEPS,
            "seed": seed,
            "database": registry == "database",
        }
        done = subprocess.run(
            [sys.executable, str(WALK)],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    print("SALTBED_SEED", seed, done.stdout)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == [], seed
    assert sum(found["done"].values()) == STEPS
    # what happened once is settled; whether that is so is asked for all together
    before, after = found["queries"]
    assert after <= before + 1
