"""Queries on a real master: a real minion's grains, salt-api, permissions, and a client that knows nothing of Salt."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
import yaml

from harness.bed import Bed, BedSettings
from harness.bed.settings import Tree
from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST, Ports
from tests.live.helpers import real_minion
from tests.live.helpers.query_rows import grains_are_cached, query

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

REAL = "real"
RIGHTS = {
    "saltbed": [".*", "@wheel", "@runner", "@jobs"],
    "reader": [{"@runner": ["query.*"]}],
    "nobody": ["test.ping"],
}
CLIENT = Path(__file__).parents[1] / "helpers" / "query_client.py"
GRAINS = {
    "os": "os",
    "os_family": "os_family",
    "os_release": "osrelease",
    "os_finger": "osfinger",
    "kernel": "kernel",
    "kernel_release": "kernelrelease",
    "arch": "cpuarch",
    "ctotal": "num_cpus",
    "cpu_model": "cpu_model",
    "mtotal": "mem_total",
    "virtual": "virtual",
    "fqdn": "fqdn",
    "salt_version": "saltversion",
    "python_version": "pythonversion",
    "ip4_list": "ipv4",
}


@pytest.fixture(scope="module")
def bed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a patched master with salt-api and users with and without the right to query, and a real minion."""
    settings = BedSettings(
        tree=root / "salt",
        folder=tmp_path_factory.mktemp("query"),
        minions=100,
        pillar="none",
        postgres="none",
        master_options={"external_auth": {"sharedsecret": RIGHTS}},
    )
    with Bed(settings) as found:
        found.start_fleet().wait_ready(120)
        real_minion.start(found, REAL)
        yield found


def test_real_minion(bed: Bed) -> None:
    """The values of a real minion are those of its `grains.items`."""
    grains_are_cached(bed, 101)
    grains = json.loads(bed.salt([REAL, "grains.items", "--out=json", "--static"]).stdout)[REAL]
    (row,) = query(bed, "node", ",".join(GRAINS), f"name == {REAL}")
    missing = [3, None]
    expected = [[0, grains[name]] if grains.get(name) not in (None, "") else missing for name in GRAINS.values()]
    assert row == expected


def request(
    port: int, path: str, token: str, body: dict[str, Any] | list[Any] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and the headers that say what the body is."""
    connection = http.client.HTTPConnection(HOST, port, timeout=120)
    headers = {"X-Auth-Token": token, "Accept": "application/json", "Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    found = response.read()
    connection.close()
    kept = {name: value for name, value in response.getheaders() if name in {"Content-Type", "Content-Length"}}
    return response.status, found, kept


def token_of(bed: Bed, user: str, port: int | None = None) -> str:
    """Return a token of a user."""
    connection = http.client.HTTPConnection(HOST, port or bed.api.port, timeout=60)
    form = urlencode({"username": user, "password": bed.api.password, "eauth": "sharedsecret"})
    connection.request(
        "POST", "/login", form, {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    )
    found = json.loads(connection.getresponse().read())["return"][0]["token"]
    connection.close()
    return str(found)


def test_a_live_query_is_no_last_job(bed: Bed) -> None:
    """The master's job cache says which job was a query's: it is in no list, and no last job of a minion."""
    bed.salt([REAL, "test.echo", "hello"])
    assert query(bed, "node", "alive", f"name == {REAL}") == [[[0, True]]]
    bed.salt([REAL, "saltutil.find_job", "20261129000000000000"])
    assert query(bed, "node", "last_fun,last_result", f"name == {REAL}") == [[[0, "test.echo"], [0, "success"]]]
    internal = query(bed, "job", "fun", f'internal and "{REAL}" in exp_list')
    assert {fun for ((_, fun),) in internal} == {"saltutil.find_job", "test.ping"}
    assert [[0, "saltutil.find_job"]] not in query(bed, "job", "fun")


def test_api_answers_as_the_command_does(bed: Bed) -> None:
    """The parameter of /minions and /jobs and POST /query give what the runner gives; wrong requests are refused."""
    token = token_of(bed, "reader")
    rows = query(bed, "node", "name,os", "name =* 'minion-0000*'")
    rule = quote("name =* 'minion-0000*'")
    status, found, _ = request(bed.api.port, f"/minions?query=name,os&filter={rule}", token)
    assert (status, json.loads(found)["return"][0]["data"]) == (200, rows)
    body = {"fields": ["name", "os"], "filter": ["=~", "name", "^minion-0000"]}
    status, found, _ = request(bed.api.port, "/query/node", token, body)
    assert (status, json.loads(found)["return"][0]["data"]) == (200, rows)
    jid = json.loads(bed.salt_run(["jobs.list_jobs", "--out=json"]).stdout).popitem()[0]
    status, found, _ = request(bed.api.port, f"/jobs/{jid}?query=id,fun", token)
    assert json.loads(found)["return"][0]["data"][0][0] == [0, jid]
    requests: tuple[tuple[str, dict[str, Any] | None], ...] = (
        ("/query/nodes", {"fields": ["name"]}),
        ("/query/node", {"fields": ["name"], "filter": ["=", "nope", "x"]}),
        ("/query/node", {"fields": ["name"], "fun": "cmd.run"}),
        ("/minions?query=name&limit=x", None),
    )
    for path, wrong in requests:
        assert request(bed.api.port, path, token, wrong)[0] == http.HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["query.items", "nodes", "name"], "Ask for one of instance, job, "),
        (["query.items", "node", "name", "name ="], "Correct the filter at character 7: "),
        (["job_handler.status"], "The job handler is off: set rate_limiting "),
        (["package_states.set", "../x"], "'../x' is no state name; use "),
        (["package_states.set", "web", "vim", "installed", "version=1.5"], "1.5 is a number here"),
        (["package_states.load", "/nope/x"], "'/nope/x' can't be read: "),
        (["package_states.show", "web"], "PostgreSQL says: "),
        (["pillar_sql.import_files"], "There is neither /srv/susemanager/pillar_data nor "),
        (["pkgset.refresh", "*", "batch=0"], "batch=0: give a number of minions"),
    ],
)
def test_runners_refuse_with_one_sentence(bed: Bed, command: list[str], sentence: str) -> None:
    """Whatever a runner of ours refuses is one line without a traceback or a usage, and the exit code is 1."""
    done = bed.salt_run(command)
    assert done.returncode == 1, done.stdout
    assert done.stdout.startswith(sentence)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_nobody_is_answered_without_rights(bed: Bed) -> None:
    """A user without `@runner` gets no row, and one with the right to query can run nothing else."""
    token = token_of(bed, "nobody")
    for path, body in (("/query/node", {"fields": ["name"]}), ("/minions?query=name", None), ("/query/node", None)):
        status, found, _ = request(bed.api.port, path, token, body)
        assert status == http.HTTPStatus.UNAUTHORIZED
        assert b"minion-0" not in found
        assert request(bed.api.port, path, "0" * 64, body)[0] == http.HTTPStatus.UNAUTHORIZED
    other = [{"client": "runner", "fun": "test.arg"}]
    assert request(bed.api.port, "/", token_of(bed, "reader"), other)[0] == http.HTTPStatus.UNAUTHORIZED


def test_client_that_knows_nothing_of_salt(bed: Bed) -> None:
    """Fifteen lines of Python print any query from the definitions alone."""
    code = CLIENT.read_text(encoding="utf-8").split('"""')[2].strip().splitlines()
    assert len([line for line in code if line.strip() and not line.startswith(("import", "from"))]) <= 15
    token = token_of(bed, "reader")
    for what, fields, title in (
        ("node", ["name", "os", "nope"], "Node OS nope"),
        ("os", ["name", "node_cnt"], "Name Nodes"),
        ("job", ["id", "fun"], "ID Function"),
        ("lock", ["name"], "Name"),
        ("instance", ["name"], "Instance"),
    ):
        argv = [sys.executable, str(CLIENT), bed.api.url, token, what, *fields]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
        assert printed[0] == title
        if what == "node":
            assert len(printed) == 102
            assert all(line.endswith(" (1)") for line in printed[1:])


def test_api_is_as_before_without_the_parameter(bed: Bed, stock: Path) -> None:
    """Stock's salt-api, on the same master, answers the same bytes to what has no new parameter."""
    with Ports(Random()) as ports:  # noqa: S311 - no secret
        port = ports.take("api")
    folder = bed.temporary / "stock-api"
    folder.mkdir()
    options = yaml.safe_load((bed.master.config_dir / "master").read_text(encoding="utf-8"))
    options["rest_cherrypy"]["port"] = port
    options["api_pidfile"] = str(folder / "api.pid")
    (folder / "master").write_text(yaml.safe_dump(options), encoding="utf-8")
    tree = Tree(stock)
    bed.spawn("stock-api", tree.command("salt-api", folder), env=tree.environment({}))
    token = token_of(bed, "saltbed")

    def up() -> bool:
        try:
            return bool(token_of(bed, "saltbed", port))
        except OSError:
            return False

    until(up, Deadline(60), lambda: "stock's salt-api does not come up")
    their_token = token_of(bed, "saltbed", port)
    bed.salt(["minion-00003", "test.ping"])
    jid = min(json.loads(bed.salt_run(["jobs.list_jobs", "--out=json"]).stdout))
    for path in ("/", "/minions/minion-00003", f"/jobs/{jid}", "/keys", "/minions?nope=1", "/jobs?limit=1"):
        ours, theirs = request(bed.api.port, path, token), request(port, path, their_token)
        assert ours[0] == theirs[0], path
        if ours[0] == http.HTTPStatus.OK:
            assert ours == theirs, path
