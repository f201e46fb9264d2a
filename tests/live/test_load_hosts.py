"""A load run whose requests come from two hosts: this one, and a network of its own behind a router."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from harness.processes.deadline import Deadline, until
from harness.results import evidence, result, runs
from harness.samples import files as samples
from harness.samples.rows import ClientSample, ClockSample
from harness.scenarios import clients, scenario
from tests.live.cut_network import cut_network
from tests.live.load_runs import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.cut_network import CutNetwork
    from tests.live.load_runs import Running

pytestmark = [pytest.mark.live, pytest.mark.needs_root, pytest.mark.timeout(900)]
PORT = 4711
KEY = "7d1c0e5a94b82f60"


@pytest.fixture
def network() -> Iterator[CutNetwork]:
    """Yield the network."""
    with cut_network() as found:
        yield found


@contextmanager
def _both(root: Path, folder: Path, network: CutNetwork, seconds: int) -> Iterator[tuple[Running, Path]]:
    """Yield a load run of one worker here and one in the network, and what the latter prints."""
    address = f"{network.master}:{PORT}"
    key = folder / "word"
    key.write_text(KEY)
    command = [*network.inside(), sys.executable, "-m", "harness", "worker", address, "--loads", "1"]
    command += ["--key-file", str(key)]
    output = folder / "worker"
    with output.open("w") as file, subprocess.Popen(command, cwd=root, stdout=file, stderr=file) as process:
        try:
            words = ("--remote-workers", "1", "--workers-address", address, "--workers-key-file", str(key))
            with load(root, folder, seconds, *words) as running:
                yield running, output
        finally:
            process.terminate()


def test_every_request_is_sent_once(root: Path, stock: Path, tmp_path: Path, network: CutNetwork) -> None:
    """Of two hosts each sends its part of the schedule, at its times, and the result has the requests of both."""
    assert stock.is_dir()
    with _both(root, tmp_path, network, 10) as (running, output):
        assert running.ends() == 0, running.said()
        until(lambda: "its samples are handed in" in output.read_text(), Deadline(20), output.read_text)
    told = f"a copy of {tmp_path / 'word'}: build/venv/bin/python -m harness worker {network.master}:{PORT} "
    assert told in running.said()
    # output and folder may come to people who are not to join
    assert [KEY for text in (running.said(), (running.run() / "run.json").read_text()) if KEY in text] == []
    folder = running.run() / "stock" / "samples"
    assert sorted(path.name for path in folder.glob("requests*")) == ["requests.0.csv", "requests.1.csv"]
    rows = samples.read(folder, ClientSample)
    wanted = scenario.load(running.run() / "scenario.toml")
    due = {request.number: request.due_s for request in clients.requests_of(wanted.clients[0], wanted.seed)}
    assert sorted(row.number for row in rows) == sorted(due) == list(range(20))
    zero = evidence.read(folder).timeline.load_start
    assert {row.number: round(row.scheduled - zero, 3) for row in rows} == {
        number: round(seconds, 3) for number, seconds in due.items()
    }
    for worker in (0, 1):
        numbers = {int(line.split(",")[4]) for line in (folder / f"requests.{worker}.csv").read_text().splitlines()[1:]}
        assert numbers == set(range(worker, 20, 2))
    assert {row.started >= row.scheduled for row in rows} == {True}
    # one machine has one clock
    assert samples.read(folder, ClockSample) == []
    assert result.load(running.run())["trees"]["stock"]["client_requests"] == 20


def test_a_host_that_vanishes(root: Path, stock: Path, tmp_path: Path, network: CutNetwork) -> None:
    """A host whose network is cut in mid-run ends the run with 3 and a sentence that names it; its rows so far stay."""
    assert stock.is_dir()
    with _both(root, tmp_path, network, 200) as (running, _):
        rows = running.run() / "stock" / "samples" / "requests.1.csv"
        until(lambda: rows.exists() and rows.read_text().count("\n") > 3, Deadline(60), running.said)
        network.cut()
        assert running.ends() == 3, running.said()
    run = runs.read(running.run())
    assert run.status == "failed"
    assert re.match(r"The worker 1 on \S+ has been silent since \d\d:\d\d:\d\d: start the run again\.", run.problem)
    assert rows.read_text().count("\n") > 3
