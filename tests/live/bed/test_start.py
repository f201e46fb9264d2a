"""A bed that is up: everything real, answering, and apart from other beds."""

from __future__ import annotations

import http.client
import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from harness import samples
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from harness.samples import ProcessSample
from tests.live.helpers import real_minion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.live
REAL = "real"


@pytest.fixture(scope="module")
def bed(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a bed with a real minion."""
    with Bed(BedSettings(tree=stock, folder=tmp_path_factory.mktemp("bed"), minions=3)) as found:
        real_minion.start(found, REAL)
        yield found


def local(bed: Bed, *arguments: str) -> Any:
    """Return what the real minion answers to a job that Salt's own command starts."""
    result = bed.salt([REAL, *arguments, "--out=json", "--static"])
    return json.loads(result.stdout)[REAL]


def api(bed: Bed, **low: object) -> Any:
    """Return what salt-api answers to one request."""
    connection = http.client.HTTPConnection("127.0.0.1", bed.api.port, timeout=30)
    credentials = {"username": bed.api.user, "password": bed.api.password, "eauth": bed.api.eauth}
    body = json.dumps([{**credentials, **low}])
    connection.request("POST", "/run", body, {"Content-Type": "application/json", "Accept": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    assert response.status == http.HTTPStatus.OK, answer
    return json.loads(answer)["return"][0]


def test_ping_by_command(bed: Bed) -> None:
    """Salt's own command reaches a real minion."""
    assert local(bed, "test.ping") is True


def test_states_change_only_the_bed(bed: Bed) -> None:
    """The bed's states, more than twenty, all work on a real minion, and again without a change."""
    first, second = local(bed, "state.apply"), local(bed, "state.apply")
    assert len(first) > 20
    assert {state["result"] for state in first.values()} == {True}
    assert {name for name, state in second.items() if state["changes"]} == set()
    names = [state["name"] for state in first.values() if state["name"].startswith("/")]
    assert {name for name in names if not name.startswith(f"{bed.temporary}/")} == set()


def test_pillar_from_sql(bed: Bed) -> None:
    """Pillars of all four scopes arrive from PostgreSQL, and the narrowest scope wins."""
    pillar = json.loads(bed.salt_run(["pillar.show_pillar", REAL, "--out=json"]).stdout)["saltbed"]
    scopes = Counter(category.partition("/")[0] for category in pillar["categories"])
    assert scopes == {"global": 4, "organisation": 4, "group": 4, "minion": 4}
    assert pillar["scope"] == "minion"


def test_pillar_of_a_simulated_minion(bed: Bed) -> None:
    """A minion that the bed is made for has its pillars too."""
    result = bed.salt_run(["pillar.show_pillar", "minion-00002", "--out=json"])
    pillar = json.loads(result.stdout)
    assert (pillar["minion_id"], pillar["mgr_server_id"]) == ("minion-00002", 3)


def test_keys_by_command(bed: Bed) -> None:
    """The master has accepted the real minion's key."""
    assert json.loads(bed.run("salt-key", ["--list=accepted", "--out=json"]).stdout) == {"minions": [REAL]}


@pytest.mark.parametrize(
    ("low", "expected"),
    [
        ({"client": "local", "tgt": "*", "fun": "test.ping"}, {REAL: True}),
        ({"client": "runner", "fun": "manage.up"}, [REAL]),
    ],
    ids=["local", "runner"],
)
def test_api_clients(bed: Bed, low: dict[str, Any], expected: object) -> None:
    """The API runs jobs and runners for the bed's user."""
    assert api(bed, **low) == expected


def test_api_wheel(bed: Bed) -> None:
    """The API runs wheel functions for the bed's user."""
    answer = api(bed, client="wheel", fun="key.list", match="accepted")
    assert answer["data"]["return"] == {"minions": [REAL]}


@pytest.mark.parametrize("client", ["local_async", "runner_async"])
def test_api_asynchronous_clients(bed: Bed, client: str) -> None:
    """The API starts jobs and runners and answers at once with their ids."""
    answer = api(bed, client=client, tgt="*", fun="test.ping" if client == "local_async" else "manage.up")
    assert answer["jid"].isdigit()


def test_api_refuses_others(bed: Bed) -> None:
    """The API lets nobody in without the bed's secret."""
    connection = http.client.HTTPConnection("127.0.0.1", bed.api.port, timeout=30)
    form = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", "username=saltbed&password=x&eauth=sharedsecret", form)
    assert connection.getresponse().status == http.HTTPStatus.UNAUTHORIZED
    connection.close()


def test_monitor_knows_the_roles(bed: Bed) -> None:
    """The samples name every part of the bed."""
    wanted = {"master", "MWorker", "MWorkerQueue", "PubServerChannel", "Maintenance", "FileserverUpdate"}
    wanted |= {"api", "postgres", "minion", "cli", "harness"}
    seen: list[ProcessSample] = []
    bed.salt(["*", "test.sleep", "2"])

    def complete() -> bool:
        seen[:] = samples.read(bed.samples, ProcessSample)
        return wanted <= {sample.role for sample in seen}

    until(complete, Deadline(10), lambda: f"missing: {wanted - {sample.role for sample in seen}}")
    workers = {sample.pid for sample in seen if sample.role == "MWorker"}
    assert len(workers) >= 5


def test_two_beds_at_once(bed: Bed, stock: Path, tmp_path: Path) -> None:
    """A second bed has ports, processes and keys of its own, and its end leaves the first one undisturbed."""
    with Bed(BedSettings(tree=stock, folder=tmp_path, pillar="none", postgres="none", api=None)) as other:
        ports = {one.master.request_port for one in (bed, other)} | {one.master.publish_port for one in (bed, other)}
        assert len(ports) == 4
        assert other.temporary != bed.temporary
        assert json.loads(other.run("salt-key", ["--list=accepted", "--out=json"]).stdout) == {"minions": []}
    bed.check()
    assert local(bed, "test.ping") is True


def test_master_options_take_precedence(stock: Path, tmp_path: Path) -> None:
    """Options of the settings reach the master's configuration, and what Salt makes of them."""
    settings = BedSettings(
        tree=stock,
        folder=tmp_path,
        pillar="none",
        postgres="none",
        api=None,
        master_options={"worker_threads": 2, "log_level_logfile": "info"},
    )
    with Bed(settings) as other:
        result = other.salt_run(["config.get", "worker_threads"])
        assert result.stdout.strip() == "2"
        assert "[INFO" in other.master.log.read_text()


def test_bed_stays_out_of_the_machine(bed: Bed) -> None:
    """No path of the configuration that the master runs with lies outside of the bed's folders and the tree."""
    options = json.loads(bed.salt_run(["salt.cmd", "config.items", "--out=json"]).stdout)
    own = (str(bed.temporary), str(bed.settings.tree.parent.parent), os.devnull)
    paths = {
        name: options[name]
        for name in (
            "cachedir",
            "pki_dir",
            "sock_dir",
            "log_file",
            "pidfile",
            "key_logfile",
            "token_dir",
            "root_dir",
            "extension_modules",
        )
    }
    assert {name: path for name, path in paths.items() if not path.startswith(own)} == {}
