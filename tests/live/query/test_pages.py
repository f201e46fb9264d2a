"""Twenty thousand rows arrive whole, through the runner and through both servers of salt-api."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import pytest

from harness.bed import Bed, BedSettings, api
from harness.bed.made_up import fill
from harness.processes.ports import HOST, Ports
from tests.live.helpers.query_rows import query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]

COUNT = 20_000
FIELDS = ["name", "os", "mtotal", "nope"]
LOCAL = """
import json, sys, salt.config, saltext.query
opts = salt.config.master_config(sys.argv[1])
print(json.dumps(saltext.query.items(opts, "node", sys.argv[2].split(","))["data"]))
"""


@pytest.fixture(scope="module")
def bed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, int]]:
    """Yield a master that knows so many minions, and the port of its rest_tornado; rest_cherrypy is the bed's own."""
    with Ports(SystemRandom()) as ports:
        port = ports.take("rest_tornado")
        settings = BedSettings(
            tree=root / "salt",
            folder=tmp_path_factory.mktemp("query"),
            pillar="none",
            postgres="none",
            master_options={"rest_tornado": {"port": port, "address": HOST, "disable_ssl": True}},
        )
        with Bed(settings) as found:
            fill(found.master.cache_dir, found.master.pki_dir, COUNT)
            yield found, port


@pytest.fixture(scope="module")
def expected(bed: tuple[Bed, int]) -> list[list[list[Any]]]:
    """Return the rows of the Python API."""
    master = bed[0].master.config_dir / "master"
    argv = [sys.executable, "-c", LOCAL, str(master), ",".join(FIELDS)]
    done = subprocess.run(argv, env=bed[0].environment, capture_output=True, text=True, check=True)
    rows: list[list[list[Any]]] = json.loads(done.stdout)
    assert [row[0][1] for row in rows] == [f"minion-{number:05d}" for number in range(COUNT)]
    return rows


def test_runner(bed: tuple[Bed, int], expected: list[list[list[Any]]]) -> None:
    """The runner gives all rows, in pages."""
    assert query(bed[0], "node", ",".join(FIELDS)) == expected


@pytest.mark.parametrize("server", ["rest_cherrypy", "rest_tornado"])
def test_api(bed: tuple[Bed, int], expected: list[list[list[Any]]], server: str) -> None:
    """So does each server of salt-api; there a page is as long as one asks for."""
    setup, tornado = bed
    port = tornado if server == "rest_tornado" else setup.api.port
    token = api.login(replace(setup.api, port=port))
    headers = {"X-Auth-Token": token, "Accept": "application/json", "Content-Type": "application/json"}
    rows: list[list[list[Any]]] = []
    offset: int | str | None = 0
    while offset is not None:
        connection = http.client.HTTPConnection(HOST, port, timeout=240)
        body = {"fields": FIELDS, "offset": offset}
        connection.request("POST", "/query/node", json.dumps(body), headers)
        response = connection.getresponse()
        assert response.status == http.HTTPStatus.OK, response.read()[:500]
        (answer,) = json.loads(response.read())["return"]
        connection.close()
        rows += answer["data"]
        offset = answer.get("next")
    assert rows == expected
