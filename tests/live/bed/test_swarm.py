"""The bed with its minions on the nodes of a swarm: three engines in network namespaces of this machine.

These tests need root, dockerd, and an image with Python on the engine of this machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness import samples
from harness.containers.image import BASE_VARIABLE, KEPT
from harness.processes.deadline import Deadline, until
from harness.results import result, runs
from harness.samples import ClientSample, ProcessSample
from tests.live.helpers.engines import SMALL, connected, swarm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.live.helpers.engines import Node

pytestmark = [pytest.mark.live, pytest.mark.needs_root, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Node]]:
    """Yield the nodes of a swarm, each of which has the base, and the manager what this machine made of it."""
    with connected() as client, swarm() as found:
        for node in found:
            node.gets(client, os.environ[BASE_VARIABLE])
        # an environment that this machine has already saves the manager the minutes of making it
        for image in client.images.list(KEPT):
            found[0].gets(client, image.tags[0])
        yield found


def load(nodes: Sequence[Node], root: Path, folder: Path, **options: Any) -> subprocess.Popen[str]:
    """Start a load run on a swarm."""
    scenario = folder / "small.toml"
    scenario.write_text(SMALL)
    words = [sys.executable, "-m", "harness", "load", "--scenario", str(scenario), "--tree", "stock", "--swarm"]
    words += ["--folder", str(folder / "runs")]
    environment = {**os.environ, "DOCKER_HOST": nodes[0].url}
    return subprocess.Popen(words, cwd=root, env=environment, text=True, **options)


def nothing_is_left(nodes: Sequence[Node]) -> None:
    """Check that no service, container, network or image of a run is on any node; a worker forgets the last ones."""
    assert nodes[0].left() == []
    until(lambda: not any(node.left() for node in nodes), Deadline(60), lambda: f"{[node.left() for node in nodes]}")


@pytest.fixture(scope="module")
def refused(nodes: list[Node], root: Path, stock: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what a run says whose image only the manager has; then the image is on all nodes."""
    assert stock.is_dir()
    with load(nodes, root, tmp_path_factory.mktemp("refused"), stderr=subprocess.PIPE) as process:
        _, error = process.communicate()
    assert process.returncode == 3, error
    nothing_is_left(nodes)
    manager, *workers = nodes
    with manager.client() as client:
        for image in client.images.list(KEPT):
            for node in workers:
                node.gets(client, image.tags[0])
    return error


def test_a_node_without_the_image(refused: str) -> None:
    """The run ends before its master starts, and says what to do on each node."""
    last = refused.splitlines()[-1]
    assert "No such image" in last
    assert f"`docker save {KEPT}:" in last


@pytest.fixture(scope="module")
def finished(nodes: list[Node], refused: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run with minions on three nodes."""
    assert refused
    folder = tmp_path_factory.mktemp("finished")
    with load(nodes, root, folder, stderr=subprocess.PIPE) as process:
        _, error = process.communicate()
    assert process.returncode == 0, error
    return runs.find(None, folder / "runs")


def test_a_run_on_a_swarm_passes(finished: Path) -> None:
    """Every minion of three nodes answers every request, and there is a report."""
    found = result.load(finished)
    stock = found["trees"]["stock"]
    assert [verdict["passed"] for verdict in found["thresholds"]] == [True, True]
    assert (stock["minions"], stock["client_requests"], stock["publications"]) == (20, 12, 12)
    assert stock["returns_kept"] == stock["returns_expected"] == 10 * 20 + 2 * 10
    assert "stock" in (finished / "report.html").read_text()


def test_samples_of_all_nodes(finished: Path) -> None:
    """Samples of every task come back, and logs."""
    folder = finished / "stock" / "samples"
    assert len(samples.read(folder, ClientSample)) == 12
    names = {path.name for path in (folder / "fleet").glob("jobs.*")}
    assert names == {"jobs.0.csv", "jobs.1000.csv", "jobs.2000.csv"}
    fleets = {row.pid // samples.APART for row in samples.read(folder, ProcessSample) if row.role == "fleet"}
    assert len(fleets) == 3
    assert (finished / "stock" / "logs" / "fleet-2" / "fleet.out").is_file()


def test_nothing_is_left(nodes: list[Node], finished: Path) -> None:
    """All of the run has gone from all nodes."""
    assert finished.is_dir()
    nothing_is_left(nodes)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted(nodes: list[Node], finished: Path, root: Path, tmp_path: Path, how: signal.Signals) -> None:
    """After Ctrl-C and after kill -9 all of it goes from all nodes; before, each of them has minions."""
    assert finished.is_dir()
    log = tmp_path / "log"
    with log.open("w") as output, load(nodes, root, tmp_path, stdout=output, stderr=output) as process:
        try:
            until(lambda: "ramp-up" in log.read_text(), Deadline(600), log.read_text)
            assert all(node.left() for node in nodes)
        finally:
            process.send_signal(how)
    until(lambda: nodes[0].left() == [], Deadline(120), lambda: f"{nodes[0].left()}")
    nothing_is_left(nodes)
