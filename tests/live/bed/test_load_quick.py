"""Load runs against a real master: the small scenario, an interrupted run, a run that can't begin."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from harness import __main__ as cli
from harness import samples
from harness import verify as verification
from harness.processes.deadline import Deadline, until
from harness.results import result, runs
from harness.samples import ClientSample, KeptReturn
from harness.verify.store import WRONG
from tests import oracle
from tests.mutations import mutate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

MINIONS = 100
MUTATIONS = 100


@pytest.fixture(scope="module")
def finished(root: Path, stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run of `quick` on the stock tree."""
    assert stock.is_dir()
    parent = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-m", "harness", "load", "--scenario", "quick", "--tree", "stock", "--json"]
    done = subprocess.run(
        [*command, "--folder", str(parent)], cwd=root, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    folder = runs.find(None, parent)
    assert json.loads(done.stdout) == json.loads((folder / "result.json").read_text())
    return folder


def test_every_request_got_a_complete_answer(finished: Path) -> None:
    """All requests of the schedule were sent, and each got the answer of every targeted minion."""
    rows = samples.read(finished / "stock" / "samples", ClientSample)
    assert sorted((row.clients, row.error) for row in rows if row.kind == "cli") == [("cli ping all", "")] * 2
    assert {row.error for row in rows} == {""}
    assert {row.answered for row in rows if row.clients == "api ping all"} == {MINIONS}


def test_requests_left_in_time(finished: Path) -> None:
    """Requests arrive when they are due whatever became of earlier ones."""
    rows = samples.read(finished / "stock" / "samples", ClientSample)
    assert {row.number for row in rows if row.clients == "api ping all"} == set(range(5))
    assert max(row.started - row.scheduled for row in rows) < 1.0


def test_figures_agree_with_the_master(finished: Path) -> None:
    """What the fleet sent, what clients asked for and what the master kept are the same, to the last return."""
    stock = result.load(finished)["trees"]["stock"]
    rows = samples.read(finished / "stock" / "samples", ClientSample)
    jids = {jid for row in rows for jid in row.jids.split()}
    kept = samples.read(finished / "stock" / "samples", KeptReturn)
    assert stock["publications"] == stock["jobs_requested"] == len(rows) == len(jids)
    assert {row.jid for row in kept} == jids
    assert stock["returns_expected"] == stock["returns_kept"] == sum(row.expected for row in rows)
    assert stock["acknowledged_ratio"] == pytest.approx(1.0, abs=0.05)


def test_master_is_in_the_samples(finished: Path) -> None:
    """CPU and memory are there for the master's workers, and for the rest of the bed."""
    stock = result.load(finished)["trees"]["stock"]
    assert {"MWorker", "MWorkerQueue", "PubServerChannel", "api", "postgres", "fleet", "locust"} <= stock[
        "cpu_s"
    ].keys()
    assert stock["cpu_s"]["MWorker"] > 0
    assert stock["peak_memory_mb"]["MWorker"] > 50


def test_a_run_is_verified(finished: Path) -> None:
    """All that the run left agrees, to the last figure; whether the machine was quiet enough, it says."""
    found = verification.verify(finished)
    assert found.of(WRONG) == []
    written = result.load(finished)
    assert (written["trustworthy"], written["why"], written["disagrees"]) == (found.trustworthy, found.why, [])
    assert list(oracle.look(finished)) == []
    assert found.figures == len(dict(verification.flattened(written["trees"]["stock"])))


def test_mutations_are_named(finished: Path, tmp_path: Path) -> None:
    """A hundred changes of the samples of a real run: each is named, or no figure depends on it."""
    before = result.load(finished)["trees"]
    escaped = []
    for seed in range(MUTATIONS):
        folder = tmp_path / finished.name
        shutil.copytree(finished, folder)
        mutation = mutate(folder / "stock" / "samples", seed)
        if verification.verify(folder).agrees and json.loads(json.dumps(result.compute(folder).trees)) != before:
            escaped.append(f"{seed}: {mutation}")
        shutil.rmtree(folder)
    assert escaped == []


def test_a_run_leaves_everything(finished: Path) -> None:
    """The run's folder holds what its reader needs, no password among it."""
    expected = {"environment.json", "report.html", "result.json", "run.json", "scenario.toml", "stock"}
    assert {path.name for path in finished.iterdir()} == expected
    assert {path.name for path in (finished / "stock").iterdir()} == {"logs", "samples"}
    assert runs.read(finished).status == "finished"
    assert "went well" in (finished / "report.html").read_text()


def test_interrupted_run(root: Path, tmp_path: Path) -> None:
    """Ctrl-C ends a run with exit code 130 and a sentence; no process is left, and the folder says what happened."""
    command = [sys.executable, "-m", "harness", "load", "--scenario", "quick", "--tree", "stock"]
    output = tmp_path / "output"
    with (
        output.open("w") as file,
        subprocess.Popen(
            [*command, "--folder", str(tmp_path)], cwd=root, stdout=file, stderr=file, start_new_session=True
        ) as process,
    ):
        try:
            until(lambda: "ramp-up" in output.read_text(), Deadline(120), output.read_text)
            children = psutil.Process(process.pid).children(recursive=True)
            assert children
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
    assert output.read_text().endswith("Interrupted: everything that was started has been stopped.\n")
    assert [child for child in children if child.is_running()] == []
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert runs.read(folder).status == "interrupted"
    assert (folder / "stock" / "logs" / "master.log").is_file()


def test_clients_that_target_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target that only the fleet can resolve and that means nobody is refused in a sentence, with the logs kept."""
    path = tmp_path / "nobody.toml"
    clients = '[[clients]]\nkind = "api"\nfunction = "test.ping"\ntgt = "os:Plan9"\ntgt_type = "grain"\nburst = 1\n'
    text = f'description = "x"\nminions = 3\npillar = "none"\n{clients}'
    path.write_text(text)
    assert cli.main(["load", "--scenario", str(path), "--tree", "stock", "--folder", str(tmp_path / "runs")]) == 2
    expected = "The clients `api test.ping` target none of the 3 minions: change `tgt` or `minions`.\n"
    assert capsys.readouterr().err.endswith(expected)
    (folder,) = (tmp_path / "runs").iterdir()
    assert runs.read(folder).status == "failed"
