"""Who publishes besides clients, with the job handler on: minions, batches, reactor, orchestrate, schedules."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import yaml

from harness.processes.deadline import Deadline, until
from tests.live.helpers import real_minion
from tests.live.helpers.handler_bed import HandlerBed, answers, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(600)]

MINIONS = 100
LIMIT = 20
REAL = "real-1"
WAIT_S = 90


@pytest.fixture(scope="module")
def setup(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master, simulated minions and a real one, with a reactor and a file to orchestrate."""
    states = tmp_path_factory.mktemp("states")
    job = {"local.test.echo": [{"tgt": "minion-00004"}, {"args": ["reacted"]}]}
    (states / "react.sls").write_text(yaml.safe_dump({"react": job}))
    function = [{"tgt": "minion-0000*"}, {"arg": ["orchestrated"]}]
    (states / "orch.sls").write_text(yaml.safe_dump({"test.echo": {"salt.function": function}}))
    options = {
        "peer": {".*": [".*"]},
        "reactor": [{"saltbed/go": [str(states / "react.sls")]}],
        "file_roots": {"base": [str(states)]},
    }
    limits = {"criteria": "capacity", "max_master_jobs": LIMIT, "sync_wait": "extend"}
    folder = tmp_path_factory.mktemp("handler")
    with handler_bed(root, folder, MINIONS, limits, master_options=options) as found:
        real_minion.start(found.bed, REAL)
        yield found


def call(setup: HandlerBed, *arguments: str) -> object:
    """Run a function on the real minion and return what `salt-call` prints."""
    (config,) = setup.bed.temporary.glob("minion-*/etc")
    argv = [*setup.bed.tree.command("salt-call", config), "--out=json", "--log-level=error", *arguments]
    done = subprocess.run(argv, env=setup.bed.environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["local"]


def wait_for_queue(setup: HandlerBed, fun: str) -> None:
    """Wait until a job with this function waits in the queue."""
    until(
        lambda: fun in [job["fun"] for job in setup.ask("list")["jobs"]],
        Deadline(WAIT_S),
        lambda: f"the job is not queued: {setup.ask('list')}",
    )


def test_peer_publications_at_full_capacity(setup: HandlerBed) -> None:
    """Four minions publish at once while there is no capacity left: each gets its answer, and the master goes on."""
    fillers = setup.bed.settings.minion_ids()[50 : 50 + LIMIT]
    jids = setup.submit(fillers, "test.sleep", ["60"])
    (waiting,) = setup.submit("minion-00049", "test.echo", ["x"])
    until(lambda: setup.arrivals(jids) == jids, Deadline(WAIT_S), lambda: "the fillers do not arrive")
    targets = [f"minion-0000{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call, setup, "publish.publish", tgt, "test.echo", "peer", "timeout=30") for tgt in targets]
        ping = setup.bed.salt(["minion-00040", "test.ping", "--timeout=30"], timeout=WAIT_S)
        found = [each.result(WAIT_S) for each in calls]
    assert found == [{tgt: "peer"} for tgt in targets]
    assert ping.returncode == 0
    # all of that happened while there was no capacity
    assert setup.arrivals([waiting]) == []
    assert setup.ask("show", jid=waiting)["state"] == "queued"
    setup.complete([*jids, waiting], LIMIT + 1)


def test_batch_under_contention(setup: HandlerBed) -> None:
    """A batch of 10 over 100 minions has never more than 10 at a time, and ends complete."""
    ids = setup.bed.settings.minion_ids()
    before = {row.jid for row in setup.returns()}
    load = setup.submit(ids, "test.sleep", ["2"], 2)
    arguments = ["-L", ",".join(ids), "test.sleep", "1", "--batch=10", "--timeout=3", "--out=json", "--static"]
    done = setup.bed.salt(arguments, timeout=300)
    assert answers(done.stdout) == dict.fromkeys(ids, True)
    rows = [row for row in setup.returns() if row.fun == "test.sleep" and row.jid not in {*before, *load}]
    assert Counter(row.minion for row in rows) == Counter(ids)
    ends = sorted(row.time - row.seconds for row in rows)
    # each sleeps for a second, so ten that end before an eleventh one do so a second before it
    assert min(late - early for early, late in zip(ends, ends[10:], strict=False)) > 0.9
    assert setup.ask("status")["excluded"] == 0
    setup.complete(load, 2 * MINIONS)


def test_reactor(setup: HandlerBed) -> None:
    """What the reactor publishes goes through the queue."""
    setup.ask("pause", paused=True)
    setup.bed.salt_run(["event.send", "saltbed/go"])
    wait_for_queue(setup, "test.echo")
    (job,) = setup.ask("list")["jobs"]
    setup.ask("pause", paused=False)
    assert setup.complete([job["jid"]], 1) == [(job["jid"], "minion-00004")]


def test_orchestrate(setup: HandlerBed) -> None:
    """So does what an orchestration publishes, which waits for it."""
    setup.ask("pause", paused=True)
    found: list[subprocess.CompletedProcess[str]] = []
    run = threading.Thread(
        target=lambda: found.append(setup.bed.salt_run(["state.orchestrate", "orch", "--out=json"], timeout=200))
    )
    run.start()
    wait_for_queue(setup, "test.echo")
    setup.ask("pause", paused=False)
    run.join(200)
    ((state,),) = [
        list(states.values()) for name, states in json.loads(found[0].stdout)["data"].items() if name.endswith("master")
    ]
    expected = {f"minion-0000{number}": "orchestrated" for number in range(10)}
    assert (state["result"], state["changes"]["ret"]) == (True, expected)


def test_forged_events(setup: HandlerBed) -> None:
    """While a job waits, nothing that a minion fires changes that."""
    setup.ask("pause", paused=True)
    (jid,) = setup.submit("minion-00005", "test.echo", ["x"])
    before = setup.ask("show", jid=jid)["waiting"][0]
    kinds = ["discarded", "dispatched", "cancel", "ret/minion-00005"]
    for tag in (*[f"salt/job/{jid}/{kind}" for kind in kinds], "salt/job_handler/cancel"):
        call(setup, "event.fire_master", json.dumps({"jid": jid, "id": "minion-00005", "cmd": "cancel"}), tag)
    after = setup.ask("show", jid=jid)["waiting"][0]
    # which differ with every look
    for row in (before, after):
        row["waited"] = row["gives_up_in"] = 0
    assert after == before
    assert setup.ask("status")["queued"] == 1
    setup.ask("pause", paused=False)
    assert setup.complete([jid], 1) == [(jid, "minion-00005")]


def test_schedule(setup: HandlerBed) -> None:
    """Returns of a minion's own schedule, which have no lease, are kept and free no slot."""
    setup.idle()
    before = setup.ask("status")

    def kept() -> int:
        return len(list(setup.bed.master.job_cache.glob(f"*/*/{REAL}/return.p")))

    assert "Added job" in setup.bed.salt([REAL, "schedule.add", "often", "function=test.ping", "seconds=1"]).stdout
    count = kept()
    until(lambda: kept() >= count + 3, Deadline(WAIT_S), lambda: "the schedule does not return")
    setup.bed.salt([REAL, "schedule.delete", "often"])
    setup.idle()
    status = setup.ask("status")
    # the two commands themselves are all that had leases
    assert status["submitted"] == before["submitted"] + 2
    assert status["capacity"]["used"] == status["capacity"]["leases"] == 0
