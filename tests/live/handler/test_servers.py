"""The job handler seen through both servers of salt-api, rest_cherrypy and rest_tornado, in one process."""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import pytest

from harness.bed import api
from harness.bed.settings import ApiSettings
from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST, Ports
from tests.live.helpers.handler_bed import HandlerBed, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(300)]

# one user may have half of it, and the longest test has four jobs
QUEUE = 10
MINION = "minion-00001"


@pytest.fixture(scope="module")
def servers(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HandlerBed, dict[str, int]]]:
    """Yield a patched master with a small queue and a salt-api of two servers, and the ports of these."""
    with Ports(SystemRandom()) as ports:
        tornado = ports.take("rest_tornado")
        options = {
            "rest_tornado": {"port": tornado, "address": HOST, "disable_ssl": True},
            # for how long rest_tornado's callers wait
            "gather_job_timeout": 4,
        }
        limits = {"criteria": "capacity", "max_master_jobs": 20, "max_queue_size": QUEUE}
        folder = tmp_path_factory.mktemp("handler")
        with handler_bed(root, folder, 10, limits, api=ApiSettings(), master_options=options) as found:
            yield found, {"rest_cherrypy": found.bed.api.port, "rest_tornado": tornado}


@pytest.fixture(params=["rest_cherrypy", "rest_tornado"])
def server(request: pytest.FixtureRequest, servers: tuple[HandlerBed, dict[str, int]]) -> tuple[HandlerBed, int]:
    """Return the bed and the port of one server."""
    setup, ports = servers
    return setup, ports[request.param]


def post(setup: HandlerBed, port: int, client: str, word: str, timeout: int = 30) -> tuple[int, str | None, Any]:
    """Ask a server for a job that echoes a word; return status, Retry-After and what came back."""
    token = api.login(replace(setup.bed.api, port=port))
    connection = http.client.HTTPConnection(HOST, port, timeout=120)
    job: dict[str, Any] = {"client": client, "tgt": MINION, "fun": "test.echo", "arg": [word]}
    if client == "local":
        job["timeout"] = timeout
    headers = {"X-Auth-Token": token, "Content-Type": "application/json", "Accept": "application/json"}
    connection.request("POST", "/", json.dumps([job]), headers)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    return answer.status, answer.getheader("Retry-After"), body["return"]


def test_full_queue(server: tuple[HandlerBed, int]) -> None:
    """503 with Retry-After, no trace in the job cache, and a retry succeeds."""
    setup, port = server
    setup.ask("pause", paused=True)
    jids = setup.submit(MINION, "test.echo", ["x"], QUEUE)
    before = sorted(setup.bed.master.job_cache.glob("*/*/jid"))
    for client in ("local", "local_async"):
        status, retry_after, text = post(setup, port, client, "refused")
        assert status == 503
        assert int(retry_after or 0) >= 1
        assert "jobs waiting, and takes at most" in str(text)
        assert "Nothing was sent" in str(text)
    assert sorted(setup.bed.master.job_cache.glob("*/*/jid")) == before
    setup.ask("pause", paused=False)
    setup.complete(jids, QUEUE)
    assert post(setup, port, "local", "again") == (200, None, [{MINION: "again"}])


def test_job_that_waits_for_too_long(server: tuple[HandlerBed, int]) -> None:
    """A synchronous job that waited past its timeout is never on the wire, wherever it stood; its twin runs."""
    setup, port = server
    setup.ask("pause", paused=True)

    def queued() -> list[str]:
        return [job["jid"] for job in setup.ask("list")["jobs"]]

    def wait(length: int) -> None:
        until(lambda: len(queued()) == length, Deadline(30), lambda: f"in the queue there are {queued()}")

    def late() -> threading.Thread:
        thread = threading.Thread(target=lambda: found.append(post(setup, port, "local", "late", 4)))
        thread.start()
        return thread

    found: list[tuple[int, str | None, Any]] = []
    status, _, answer = post(setup, port, "local_async", "blocks")
    threads = [late()]
    wait(2)
    twin = post(setup, port, "local_async", "twin")[2][0]["jid"]
    threads.append(late())
    wait(4)
    jids = queued()
    for thread in threads:
        thread.join(60)
    assert status == 200
    until(lambda: len(queued()) == 2, Deadline(30), lambda: f"in the queue there are {queued()}")
    assert queued() == [answer[0]["jid"], twin]
    setup.ask("pause", paused=False)
    setup.complete([twin], 1)
    assert setup.arrivals(jids) == [answer[0]["jid"], twin]
    assert "late" not in [value for _, _, result in found for part in result for value in part.values()]
