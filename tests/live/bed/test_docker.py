"""The bed as containers, on a real engine; these tests need one, and an image with Python to make containers on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

import psutil
import psycopg2
import pytest

from harness import samples
from harness.containers import engine
from harness.containers import image as containers_image
from harness.containers.image import BASE_VARIABLE
from harness.database import Place, sources
from harness.database.container import IMAGE_VARIABLE
from harness.processes.deadline import Deadline, until
from harness.processes.ports import Ports
from harness.processes.processes import Processes
from harness.results import result, runs
from harness.samples import ClientSample, EventSample
from tests.live.helpers.engines import SMALL, connected, left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


@pytest.fixture
def client() -> Iterator[DockerClient]:
    """Yield a client that no other test has: it keeps the connections that were opened for it."""
    with connected() as found:
        yield found


def command(folder: Path, *options: str) -> list[str]:
    """Return the command line of a load run in containers."""
    scenario = folder / "small.toml"
    scenario.write_text(SMALL)
    line = [sys.executable, "-m", "harness", "load", "--scenario", str(scenario), "--tree", "stock", "--docker"]
    return [*line, "--folder", str(folder / "runs"), *options]


@pytest.fixture(scope="module")
def finished(root: Path, stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run with two fleets and two workers."""
    with connected() as client:
        assert (stock.is_dir(), left(client)) == (True, [])
    folder = tmp_path_factory.mktemp("docker")
    argv = command(folder, "--fleets", "2", "--workers", "2", "--json")
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    return runs.find(None, folder / "runs")


def test_a_run_in_containers_passes(finished: Path) -> None:
    """The scenario's requests are answered in full, and its limits are met."""
    found = result.load(finished)
    stock = found["trees"]["stock"]
    assert [verdict["passed"] for verdict in found["thresholds"]] == [True, True]
    assert (stock["minions"], stock["client_requests"], stock["publications"]) == (20, 12, 12)
    assert stock["returns_kept"] == stock["returns_expected"] == 10 * 20 + 2 * 10


def test_every_request_was_sent_once(finished: Path) -> None:
    """Two workers share the schedule."""
    folder = finished / "stock" / "samples"
    rows = [(row.clients, row.number) for row in samples.read(folder, ClientSample)]
    assert sorted(rows) == [*(("api", number) for number in range(10)), ("cli", 0), ("cli", 1)]
    assert len(list(folder.glob("requests.*.csv"))) == 2


def test_samples_of_all_containers(finished: Path) -> None:
    """Every kind of process is in the samples, and two fleets are one."""
    stock = result.load(finished)["trees"]["stock"]
    assert {"MWorker", "PubServerChannel", "api", "postgres", "fleet", "locust"} <= stock["cpu_s"].keys()
    assert stock["cpu_s"]["MWorker"] > 0
    assert {path.name for path in (finished / "stock" / "samples" / "fleet").glob("jobs.*")} == {
        "jobs.0.csv",
        "jobs.1000.csv",
    }


def test_the_timeline_reaches_the_master(finished: Path) -> None:
    """Keys are rotated in the master's container."""
    (moment,) = samples.read(finished / "stock" / "samples", EventSample)
    assert (moment.do, moment.error) == ("rotate-keys", "")


def test_logs_are_fetched(finished: Path) -> None:
    """The logs of each container stay with the run."""
    logs = finished / "stock" / "logs"
    names = {"master", "api", "postgres", "fleet-0", "fleet-1", "clients"}
    assert {path.name for path in logs.iterdir() if path.is_dir()} == names
    assert (logs / "master" / "master.log").is_file()


def test_nothing_is_left(client: DockerClient, finished: Path) -> None:
    """No container, network or image of the run is left, only the image that is kept by name."""
    assert finished.is_dir()
    assert left(client) == []


@pytest.mark.parametrize("everybody", [False, True], ids=["harness", "harness, warden, reaper and janitor"])
def test_killed(client: DockerClient, root: Path, finished: Path, tmp_path: Path, everybody: bool) -> None:  # noqa: FBT001 - a case of the test
    """After kill -9 of the harness all of it goes; if its helpers are killed too, the next run sweeps what stays."""
    assert finished.is_dir()
    log = tmp_path / "log"
    with (
        log.open("w") as output,
        subprocess.Popen(command(tmp_path), cwd=root, stdout=output, stderr=output) as process,
    ):
        try:
            until(lambda: "ramp-up" in log.read_text(), Deadline(300), log.read_text)
            helpers = psutil.Process(process.pid).children(recursive=True)
            assert len(client.containers.list(filters={"label": engine.RUN})) >= 4
        finally:
            process.kill()
    if everybody:
        for helper in reversed(helpers):
            os.kill(helper.pid, signal.SIGKILL)
        # the containers lose their lifeline, and end by themselves
        until(
            lambda: not client.containers.list(all=True, ignore_removed=True), Deadline(120), lambda: f"{left(client)}"
        )
        engine.remove(client, engine.abandoned)
    until(lambda: left(client) == [], Deadline(120), lambda: f"{left(client)}")


def test_postgres_in_a_container(client: DockerClient, root: Path, tmp_path: Path) -> None:
    """One of the bed's sources of PostgreSQL: a container of the engine, gone at the end."""
    image = "saltbed-test-postgres:1"
    recipe = (root / "tests" / "live" / "helpers" / "postgres.dockerfile").read_text()
    containers_image.build(
        client, {"Dockerfile": recipe.replace("${BASE}", os.environ[BASE_VARIABLE]).encode()}, image, {}
    )
    before = {entry.id for entry in client.containers.list(all=True)}
    try:
        with Ports(SystemRandom()) as ports, Processes(Path("/tmp")) as processes:  # noqa: S108 - short
            place = Place(processes, ports, tmp_path, {**os.environ, IMAGE_VARIABLE: image})
            postgres = sources.start(place, "docker")
            with closing(psycopg2.connect(postgres.dsn)) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT current_database(), current_setting('fsync')")
                assert cursor.fetchone() == ("saltbed", "off")
        until(
            lambda: {entry.id for entry in client.containers.list(all=True)} == before,
            Deadline(30),
            lambda: "the container stays",
        )
    finally:
        client.images.remove(image, force=True)


def test_json_says_what_ran(finished: Path) -> None:
    """The command that repeats the run names the containers."""
    words = json.loads((finished / "run.json").read_text())["command"].split()
    assert words[-5:] == ["--fleets", "2", "--workers", "2", "--json"]
    assert "--docker" in words
