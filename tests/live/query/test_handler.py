"""Live fields of queries while the job handler keeps jobs in its queue, and whose right it is to ask minions."""

from __future__ import annotations

import getpass
import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from evil_minions import Selection
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

COUNT, STOPPED = 60, 10
EXECUTED = "status.meminfo"
RIGHTS = {
    "saltbed": [".*", "@wheel", "@runner", "@jobs"],
    "reader": [{"@runner": ["query.*"]}],
    "asker": [{"@runner": ["query.*"]}, "test.ping"],
}


@pytest.fixture(scope="module")
def bed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, set[str]]]:
    """Yield a patched master with a job handler and a fleet of which some minions are stopped."""
    settings = BedSettings(
        tree=root / "salt",
        folder=tmp_path_factory.mktemp("query"),
        minions=COUNT,
        pillar="none",
        postgres="none",
        master_options={
            "rate_limiting": {"criteria": "capacity", "max_master_jobs": 500, "sync_wait": "extend"},
            "external_auth": {"sharedsecret": RIGHTS},
            "query": {"live_cache": 0},
        },
    )
    with Bed(settings) as found:
        fleet = found.start_fleet()
        fleet.wait_ready(120)
        stopped = set(settings.minion_ids()[:STOPPED])
        fleet.control.order("kill", Selection(tgt=sorted(stopped), tgt_type="list"))
        yield found, stopped


def answer(bed: Bed, fields: str, *more: str) -> dict[str, Any]:
    """Return the whole answer of the runner."""
    found: dict[str, Any] = json.loads(bed.salt_run(["query.items", "node", fields, *more, "--out=json"], 240).stdout)
    return found


def test_nothing_waits(bed: tuple[Bed, set[str]]) -> None:
    """With room in the queue every value is right, and the stopped ones are offline."""
    setup, stopped = bed
    found = answer(setup, "name,alive,mfree")
    for (_, name), alive, free in found["data"]:
        assert alive == [0, name not in stopped], name
        assert free[0] == (4 if name in stopped else 0), name
    live = found["live"]
    assert (live["answered"], live["offline"], live["not_asked"]) == (COUNT - STOPPED, STOPPED, 0)


def test_the_queue_is_paused(bed: tuple[Bed, set[str]]) -> None:
    """Who lives is known all the same; memory was not asked for, which is no value and not offline."""
    setup, stopped = bed
    setup.salt_run(["job_handler.pause"])
    try:
        found = answer(setup, "name,alive,mfree", "live_timeout=24")
        for (_, name), alive, free in found["data"]:
            assert alive == [0, name not in stopped], name
            assert free == [4 if name in stopped else 2, None], name
        live = found["live"]
        assert (live["offline"], live["not_asked"]) == (STOPPED, COUNT - STOPPED)
        (reason,) = live["reasons"]
        assert reason.startswith("the job waits in the master's queue: the queue is paused")
        # the question is taken out of the queue: nobody waits for it any more
        assert json.loads(setup.salt_run(["job_handler.list", "--out=json"]).stdout) == []
        # what is exempt does not wait
        (row,) = answer(setup, "alive", "filter=name == minion-00020")["data"]
        assert row == [[0, True]]
        command = [str(Path(sys.executable).with_name("salt-query")), f"--config-dir={setup.master.config_dir}"]
        words = ["node", "minion-00020", "-o", "name,alive,mfree", "--live-timeout=12"]
        shown = subprocess.run([*command, *words], env=setup.environment, capture_output=True, text=True, check=False)
        assert shown.stdout.splitlines()[1].split() == ["minion-00020", "Y", "?"], shown
        assert "of 1 there is no answer" in shown.stderr
        assert shown.returncode == 0
    finally:
        setup.salt_run(["job_handler.resume"])


def posted(bed: Bed, user: str, body: dict[str, Any]) -> tuple[int, Any]:
    """Return what salt-api answers a user: status and body."""
    connection = http.client.HTTPConnection(HOST, bed.api.port, timeout=120)
    form = urlencode({"username": user, "password": bed.api.password, "eauth": "sharedsecret"})
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", form, headers)
    token = json.loads(connection.getresponse().read())["return"][0]["token"]
    headers = {"X-Auth-Token": token, "Accept": "application/json", "Content-Type": "application/json"}
    connection.request("POST", "/query/node", json.dumps(body), headers)
    response = connection.getresponse()
    found = json.loads(response.read())
    connection.close()
    return response.status, found


def test_rights_over_the_api(bed: tuple[Bed, set[str]]) -> None:
    """Who may run the runner alone asks nobody, and sees no pillars."""
    setup, _ = bed
    one = {"filter": "name == minion-00020"}
    assert posted(setup, "reader", {"fields": ["name"], **one})[0] == http.HTTPStatus.OK
    for user, field, function in (("reader", "alive", "test.ping"), ("asker", "mfree", EXECUTED)):
        status, found = posted(setup, user, {"fields": ["name", field], **one})
        assert status == http.HTTPStatus.BAD_REQUEST
        assert found["return"].startswith(f"{user} may not run {function} on these minions")
    status, found = posted(setup, "reader", {"fields": ["pillar.x"], **one})
    assert status == http.HTTPStatus.BAD_REQUEST
    assert "may not see pillars" in found["return"]


def test_who_may_ping_pings_under_his_own_name(bed: tuple[Bed, set[str]]) -> None:
    """The job carries the name of the caller of salt-api, as of who uses sudo if the master is an ordinary user's."""
    setup, _ = bed
    one = {"filter": "name == minion-00020"}
    status, found = posted(setup, "asker", {"fields": ["name", "alive"], **one})
    assert status == http.HTTPStatus.OK, found
    assert found["return"][0]["data"] == [[[0, "minion-00020"], [0, True]]]
    jobs = json.loads(setup.salt_run(["jobs.list_jobs", "--out=json"]).stdout).values()
    name = "asker" if getpass.getuser() in {"root", "salt"} else "sudo_asker"
    assert name in {job["User"] for job in jobs if job["Function"] == "test.ping"}


@pytest.mark.parametrize("rule", ["name =~ m/(/", ["=", "nope", "x"], ["=~", "name", "a{2,1}"]])
def test_a_bad_filter_is_bad_over_the_api(bed: tuple[Bed, set[str]], rule: str | list[str]) -> None:
    """It has the status 400 and one sentence, as JSON."""
    status, found = posted(bed[0], "reader", {"fields": ["name"], "filter": rule})
    assert (status, found["status"]) == (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.BAD_REQUEST)
    assert isinstance(found["return"], str)


@pytest.mark.long
@pytest.mark.parametrize("fields", ["name,alive", "name,alive,mfree"])
def test_the_master_is_stopped_under_a_question(bed: tuple[Bed, set[str]], fields: str) -> None:
    """Nobody is told to be offline whose answer can't arrive: what was not heard of fails, or is not known."""
    setup, _ = bed
    ids = setup.settings.minion_ids()
    setup.salt_run(["job_handler.pause"])
    argv = [str(Path(sys.executable).with_name("salt-query")), f"--config-dir={setup.master.config_dir}"]
    argv += ["node", "-o", fields, "--live-timeout=15"]
    known = {*setup.master.job_cache.glob("*/*/jid")}
    asking = subprocess.Popen(argv, env=setup.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: {*setup.master.job_cache.glob("*/*/jid")} - known, Deadline(30), lambda: "no job was published")
        os.kill(setup.master_pid, signal.SIGTERM)
        shown, told = asking.communicate(timeout=120)
    finally:
        asking.kill()
        setup.restart_master()
        setup.salt_run(["job_handler.resume"])
    if asking.returncode == 69:
        assert "The master does not take the question" in told or "event bus was closed" in told
        assert not shown
        return
    assert asking.returncode == 0, told
    rows = [line.split() for line in shown.splitlines()[1:]]
    assert {row[0] for row in rows} == set(ids)
    for name, *cells in rows:
        assert set(cells) <= {"?", "Y"}, name
