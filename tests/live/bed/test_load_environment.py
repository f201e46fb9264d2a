"""A load run, and a bed that stays, on a Salt that has a virtual environment of its own, as another release has."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

import psycopg2
import pytest

from harness.processes.deadline import Deadline, until
from harness.results import runs

pytestmark = pytest.mark.live

SCENARIO = """
description = "Ping all, while the master's key is rotated"
minions = 3
pillar = "none"

[master]
loop_interval = 1

[[clients]]
kind = "cli"
function = "test.ping"
tgt = "*"
burst = 1

[[timeline]]
at_s = 1
do = "rotate-keys"
"""
COMMAND = """#!{python}
import sys
from salt.scripts import {function}
sys.exit({function}())
"""


@pytest.fixture(scope="module")
def environment(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment with stock Salt in it, which finds what Salt needs in ours."""
    made = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True, timeout=60)
    (packages,) = made.glob("lib/python*/site-packages")
    (packages / "salt").symlink_to(stock / "salt")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    for name in ("salt", "salt-api", "salt-master"):
        command = made / "bin" / name
        function = "salt_main" if name == "salt" else name.replace("-", "_")
        command.write_text(COMMAND.format(python=made / "bin" / "python", function=function))
        command.chmod(0o755)
    return made


def test_environment_of_its_own(root: Path, environment: Path, tmp_path: Path) -> None:
    """Its master is loaded, its keys are rotated and its job cache is read, by the environment's Python."""
    (tmp_path / "rotated.toml").write_text(SCENARIO)
    command = [sys.executable, "-m", "harness", "load", "--scenario", str(tmp_path / "rotated.toml"), "--json"]
    where = ["--tree", str(environment), "--folder", str(tmp_path / "runs")]
    done = subprocess.run([*command, *where], cwd=root, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    other = json.loads(done.stdout)["trees"]["other"]
    assert (other["client_errors"], other["returns_expected"], other["returns_kept"]) == (0, 3, 3)
    folder = runs.find(None, tmp_path / "runs")
    assert "rotate" in (folder / "other" / "samples" / "timeline.csv").read_text()
    assert json.loads((folder / "environment.json").read_text())["trees"]["other"]["hash"]


def test_bed_that_stays_for_a_program(root: Path, environment: Path, tmp_path: Path) -> None:
    """`up --json` says in one line, also into a file, how to use it; the command it tells works, Ctrl-C ends it."""
    told = tmp_path / "told"
    command = [sys.executable, "-m", "harness", "up", "--minions", "3", "--json", "--tree", str(environment)]
    with (
        told.open("w") as file,
        # without the variable, as in an ordinary shell: nobody must wait for a full buffer
        subprocess.Popen(
            [*command, "--folder", str(tmp_path)],
            cwd=root,
            stdout=file,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        ) as process,
    ):
        try:
            until(lambda: told.read_text().endswith("\n") or process.poll() is not None, Deadline(120), told.read_text)
            found = json.loads(told.read_text())
            ping = [*found["salt"]["command"], "--out=json", "--static", "*", "test.ping"]
            answer = subprocess.run(ping, capture_output=True, text=True, check=False, timeout=60)
            psycopg2.connect(found["postgresql"]).close()
            password = Path(found["api"]["password_file"])
            assert (stat.S_IMODE(password.stat().st_mode), len(password.read_text())) == (0o600, 33)
            assert password.read_text().strip() not in told.read_text()
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert json.loads(answer.stdout) == {f"minion-{number:05}": True for number in range(3)}
    assert (found["format"], found["fleet"]["minions"], found["salt"]["PYTHONPATH"]) == (2, 3, None)
    assert found["master"]["request_port"] != found["master"]["publish_port"]
    assert found.keys() == {"format", "master", "api", "postgresql", "salt", "fleet"}
    assert len(told.read_text().splitlines()) == 1
