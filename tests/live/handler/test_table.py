"""Every way of asking for a job in every situation of the job handler: the table of docs/job-handler.md, cell by cell.

All callers of a situation run at once, each with a word of its own, by which the job cache tells their jobs apart.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import pytest

from harness.bed import api
from harness.bed.settings import ApiSettings
from harness.paths import ROOT
from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST, Ports
from tests.live.helpers import real_minion
from tests.live.helpers.handler_bed import Client, HandlerBed, RaisedError, answers, handler_bed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(600)]

WAIT_S = 240
QUEUE = 120
# the one that has a limit, and the other ones
BUSY = "minion-00003"
REAL = "real-1"
FREE = ["minion-00001", "minion-00002"]
# salt.function, salt.state, the reactor and a runner; a job of the schedule may be in the queue before that is full
AGAIN = 4
SENTENCE = "Minion did not get the job. ["
SITUATIONS = ("room", "waits", "queue full", "minion full", "handler down", "handler restarted")

ORCHESTRATION = """
it:
  salt.%s:
    - tgt: {{ pillar["tgt"] | json }}
    - tgt_type: list
    %s
"""
BODIES = {
    "function": "- name: test.echo\n    - arg: [{{ pillar.word | json }}]",
    "state": "- highstate: True",
}
SCHEDULED = {"args": [[FREE[0], BUSY], "test.echo", ["scheduled"]], "kwargs": {"tgt_type": "list"}}
REACTION = """
it:
  local.test.echo:
    - tgt: {{ data["tgt"] | json }}
    - tgt_type: list
    - args: [{{ data["word"] | json }}]
"""


@dataclass(frozen=True)
class Situation:
    """What callers meet."""

    name: str
    target: list[str]


class Callers:
    """All ways of asking for a job; each method is a row of the table and returns what its caller sees."""

    def __init__(self, setup: HandlerBed, tornado: int) -> None:
        """Take the bed and the port of rest_tornado."""
        self.setup = setup
        self.tornado = tornado
        self.clients = {name: Client(setup.bed) for name in ROWS if name.startswith(("LocalClient", "reactor"))}
        self.scheduled: set[Path] = set()
        # not while it is stopped
        self.handler_answers = True
        self.lock = threading.Lock()

    def ask(self, cmd: str, **arguments: object) -> dict[str, Any]:
        """Ask the job handler, one caller after the other."""
        with self.lock:
            return self.setup.ask(cmd, **arguments)

    def refused(self) -> int:
        """Return how many callers have logged that they ask again."""
        lines = self.setup.bed.master.log.read_text().splitlines()
        # by their process ids
        return len({line.split("]")[2] for line in lines if "The job waits: " in line})

    # ------------------------------------------------------------------
    # What the master knows of a job
    # ------------------------------------------------------------------

    def jobs(self, word: str) -> set[Path]:
        """Return the folders of the jobs with this word in the master's job cache."""
        loads = self.setup.bed.master.job_cache.glob("*/*/.load.p")
        return {load.parent for load in loads if word.encode() in load.read_bytes()}

    def look(self, word: str, target: list[str], before: AbstractSet[Path] = frozenset()) -> str:
        """Wait until all minions have returned the job with a word or are known to be left out; say which."""

        def ended() -> str:
            for folder in self.jobs(word) - before:
                done = {path.parent.name for path in folder.glob("*/return.p")}
                if done >= set(target):
                    return "all"
                jid = (folder / "jid").read_text()
                if self.handler_answers and done | set(self.ask("show", jid=jid)["left_out"]) >= set(target):
                    return "looked up"
            return ""

        try:
            return until(ended, Deadline(WAIT_S), lambda: "")
        except Exception:  # noqa: BLE001 - it is what the caller sees
            return "nothing"

    # ------------------------------------------------------------------
    # Rows
    # ------------------------------------------------------------------

    def salt(self, where: Situation, word: str, *options: str) -> tuple[int, dict[str, Any]]:
        """Run the command line; return its exit code and its rows."""
        argv = ["-L", ",".join(where.target), "test.echo", word, "--out=json", *options]
        done = self.setup.bed.salt(argv, timeout=WAIT_S)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done.returncode, printed(done.stdout)

    def cli(self, where: Situation, word: str, *options: str) -> str:
        """Return what a command that waits says."""
        code, rows = self.salt(where, word, *options)
        if code == 75:
            return "75"
        seen = describe(rows, where.target, word)
        return seen if code == {"all": 0, "named": 1}.get(seen) else f"{seen}, exit code {code}: {rows}"

    def cli_async(self, where: Situation, word: str, *options: str) -> str:
        """Return what becomes of the job of a command that does not wait."""
        argv = ["-L", ",".join(where.target), "test.echo", word, "--async", *options]
        done = self.setup.bed.salt(argv, timeout=WAIT_S)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        if done.returncode:
            return str(done.returncode)
        seen = self.look(word, where.target)
        return "named" if seen == "looked up" and f"{BUSY}: {SENTENCE}" in done.stderr else seen

    def python(self, where: Situation, word: str, method: str, **more: Any) -> str:
        """Return what a method of LocalClient returns or raises."""
        request = {"tgt": where.target, "fun": "test.echo", "arg": [word], "tgt_type": "list", "timeout": 20, **more}
        try:
            found = self.clients[f"LocalClient.{method}"].do("call", method=method, **request)
        except RaisedError as error:
            return "raises" if error.name == "JobQueueFullError" else str(error)
        return describe(found, where.target, word)

    def http(self, where: Situation, word: str, client: str, port: int, **more: Any) -> str:
        """Return what a server of salt-api answers."""
        token = api.login(replace(self.setup.bed.api, port=port))
        job: dict[str, Any] = {
            "client": client,
            "tgt": where.target,
            "fun": "test.echo",
            "arg": [word],
            "tgt_type": "list",
            **more,
        }
        if client == "runner":
            del job["tgt"], job["tgt_type"]
        connection = http.client.HTTPConnection(HOST, port, timeout=WAIT_S)
        headers = {"X-Auth-Token": token, "Content-Type": "application/json", "Accept": "application/json"}
        connection.request("POST", "/", json.dumps([job]), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert "Traceback" not in text, text
        if answer.status != 200:
            return f"{answer.status}" if answer.getheader("Retry-After") else f"{answer.status}: {text}"
        found = json.loads(text)["return"]
        # a batch is a list of answers
        found = found[0] if len(found) == 1 else {name: value for each in found for name, value in each.items()}
        if client == "local_async":
            return self.look(word, where.target)
        return describe(found if isinstance(found, dict) else {"": found}, where.target, word)

    def orchestrate(self, where: Situation, word: str, kind: str) -> str:
        """Return how an orchestration ends."""
        pillar = json.dumps({"tgt": where.target, "word": word})
        argv = ["state.orchestrate", kind, f"pillar={pillar}", "--out=json"]
        done = self.setup.bed.salt_run(argv, timeout=WAIT_S)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        ((state,),) = [list(states.values()) for states in json.loads(done.stdout)["data"].values()]
        if state["result"]:
            return "all" if not done.returncode else f"exit code {done.returncode}"
        named = f"{SENTENCE}the minion has 1 of 1" in json.dumps(state) and done.returncode == 1
        return "named" if named else json.dumps(state)

    def reactor(self, where: Situation, word: str) -> str:
        """Return what becomes of a reaction."""
        self.clients["reactor"].do("fire", tag="saltbed/go", data={"tgt": where.target, "word": word})
        return self.look(word, where.target)

    def schedule(self, where: Situation, word: str) -> str:
        """Return what becomes of a job of the master's schedule that begins now."""
        del where, word
        return self.look("scheduled", [FREE[0], BUSY], self.scheduled)

    def peer(self, where: Situation, word: str) -> str:
        """Return what a minion gets that publishes itself."""
        (config,) = self.setup.bed.temporary.glob("minion-*/etc")
        publish = ["publish.publish", ",".join(where.target), "test.echo", word, "timeout=30", "tgt_type=list"]
        argv = [*self.setup.bed.tree.command("salt-call", config), "--out=json", "--log-level=error", *publish]
        environment = self.setup.bed.environment
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return describe(json.loads(done.stdout)["local"], where.target, word)


def printed(text: str) -> dict[str, Any]:
    """Return the rows that a command prints, between which a batch says what it does."""
    return answers("".join(re.findall(r"^\{.*?^\}$", text, re.MULTILINE | re.DOTALL)))


def describe(rows: dict[str, Any], target: list[str], word: str) -> str:
    """Return in a word what comes of a job: the answers of all minions, or a sentence for the one that is left out."""
    rows = {name: row for name, row in rows.items() if name not in {"jid", "retcode"}}
    plain = {minion: row["ret"] if isinstance(row, dict) and "ret" in row else row for minion, row in rows.items()}
    if plain == dict.fromkeys(target, word):
        return "all"
    busy = str(plain.pop(BUSY, ""))
    if busy.startswith(SENTENCE) and plain == dict.fromkeys([each for each in target if each != BUSY], word):
        return "named"
    return f"{plain} {busy}"


ROWS: dict[str, Callable[[Callers, Situation, str], str]] = {
    "salt": lambda at, where, word: at.cli(where, word, "--timeout=20"),
    "salt --async": lambda at, where, word: at.cli_async(where, word),
    "salt --batch": lambda at, where, word: at.cli(where, word, "--batch=1", "--timeout=20"),
    "salt --batch --async": lambda at, where, word: at.cli_async(where, word, "--batch=1", "--timeout=20"),
    # simulated minions do not say which functions they have
    "salt --subset": lambda at, where, word: at.cli(replace(where, target=[REAL]), word, "--subset=9", "--timeout=20"),
    "LocalClient.cmd": lambda at, where, word: at.python(where, word, "cmd"),
    "LocalClient.cmd_iter": lambda at, where, word: at.python(where, word, "cmd_iter"),
    "LocalClient.cmd_batch": lambda at, where, word: at.python(where, word, "cmd_batch", batch="1"),
    "LocalClient.cmd_full_return": lambda at, where, word: at.python(where, word, "cmd_full_return"),
    "LocalClient.run_job": lambda at, where, word: at.python(where, word, "run_job"),
    "rest_cherrypy local": lambda at, where, word: at.http(where, word, "local", at.setup.bed.api.port, timeout=20),
    "rest_cherrypy local_async": lambda at, where, word: at.http(where, word, "local_async", at.setup.bed.api.port),
    "rest_cherrypy local_batch": lambda at, where, word: at.http(
        where, word, "local_batch", at.setup.bed.api.port, batch="1", timeout=20
    ),
    "rest_cherrypy runner": lambda at, where, word: at.http(
        where, word, "runner", at.setup.bed.api.port, **runner(where, word)
    ),
    "rest_tornado local": lambda at, where, word: at.http(where, word, "local", at.tornado, timeout=20),
    "rest_tornado local_async": lambda at, where, word: at.http(where, word, "local_async", at.tornado),
    "salt.function": lambda at, where, word: at.orchestrate(where, word, "function"),
    "salt.state": lambda at, where, word: at.orchestrate(where, word, "state"),
    "reactor": Callers.reactor,
    "schedule of the master": Callers.schedule,
    "publish.publish": Callers.peer,
}


def runner(where: Situation, word: str) -> dict[str, Any]:
    """Return what is special of a runner that asks for a job."""
    return {"fun": "salt.execute", "arg": [where.target, "test.echo", [word]], "kwarg": {"tgt_type": "list"}}


def table() -> dict[str, dict[str, str]]:
    """Return the table of the page: what each caller sees in each situation."""
    text = (ROOT / "docs" / "job-handler.md").read_text()
    lines = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line]
    (start,) = [number for number, line in enumerate(lines) if tuple(line[1:]) == SITUATIONS]
    found = {}
    for line in lines[start + 2 :]:
        if len(line) != len(SITUATIONS) + 1:
            break
        for name in re.split(r"`?, `?", line[0]):
            found[name] = dict(zip(SITUATIONS, line[1:], strict=True))
    return found


@pytest.fixture(scope="module")
def callers(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    """Yield a patched master, simulated minions and a real one, salt-api with two servers, and all callers."""
    files = tmp_path_factory.mktemp("files")
    for kind, body in BODIES.items():
        (files / f"{kind}.sls").write_text(ORCHESTRATION % (kind, body))
    (files / "react.sls").write_text(REACTION)
    (files / "top.sls").write_text("base: {'*': [nothing]}")
    (files / "nothing.sls").write_text("nothing: {test.nop: []}")
    with Ports(SystemRandom()) as ports:
        tornado = ports.take("rest_tornado")
        options = {
            "rest_tornado": {"port": tornado, "address": HOST, "disable_ssl": True},
            "gather_job_timeout": 20,
            "loop_interval": 1,
            "peer": {".*": [".*"]},
            "reactor": [{"saltbed/go": [str(files / "react.sls")]}],
            "file_roots": {"base": [str(files)]},
            "schedule": {"it": {"function": "salt.execute", **SCHEDULED, "seconds": 5}},
        }
        limits = {
            "criteria": "capacity",
            "max_master_jobs": 1000,
            "minion_jobs": [{BUSY: 1}],
            "max_queue_size": QUEUE,
            "sync_wait": "extend",
            # a minion whose job was killed is asked
            "long_running": 10,
            "reconcile_interval": 2,
        }
        folder = tmp_path_factory.mktemp("handler")
        with handler_bed(root, folder, 5, limits, api=ApiSettings(), master_options=options) as setup:
            real_minion.start(setup.bed, REAL)
            found = Callers(setup, tornado)
            yield found
            for client in found.clients.values():
                client.__exit__(None, None, None)


def begin(callers: Callers, where: Situation, pool: ThreadPoolExecutor) -> dict[str, Future[str]]:
    """Let all callers ask at once."""
    callers.scheduled = callers.jobs("scheduled")
    return {
        name: pool.submit(call, callers, where, f"word-{SITUATIONS.index(where.name)}-{number}-")
        for number, (name, call) in enumerate(ROWS.items())
    }


def wait_for(callers: Callers, name: str, count: int) -> None:
    """Wait until a figure of the job handler is so high."""

    def reached() -> bool:
        return int(callers.ask("status")[name]) >= count

    until(reached, Deadline(WAIT_S), lambda: f"{name} is {callers.ask('status')[name]}, not {count}")


def meet(callers: Callers, name: str, pool: ThreadPoolExecutor) -> dict[str, Future[str]]:
    """Bring a situation about, let all callers ask, and end it when all have met it."""
    setup = callers.setup
    where = Situation(name, [*FREE, BUSY] if name == "minion full" else FREE)
    # a minion that publishes gets past the queue
    count = len(ROWS) - 1
    if name == "room":
        return begin(callers, where, pool)
    if name == "minion full":
        (jid,) = setup.submit(BUSY, "test.sleep", ["600"])
        until(lambda: setup.arrivals([jid]), Deadline(WAIT_S), lambda: "the minion is not busy")
        found = begin(callers, where, pool)
        for future in found.values():
            future.exception(WAIT_S)
        setup.bed.salt([BUSY, "saltutil.kill_job", jid])
        return found
    if name == "handler down":
        pid = setup.pid()
        callers.handler_answers = False
        os.kill(pid, signal.SIGSTOP)
        try:
            found = begin(callers, where, pool)
            for future in found.values():
                future.exception(WAIT_S)
        finally:
            os.kill(pid, signal.SIGCONT)
            callers.handler_answers = True
        return found
    callers.ask("pause", paused=True)
    try:
        return meet_queue(callers, where, pool, count)
    finally:
        callers.ask("pause", paused=False)


def meet_queue(callers: Callers, where: Situation, pool: ThreadPoolExecutor, count: int) -> dict[str, Future[str]]:
    """Let all callers ask while the queue is paused, until they have met what is to happen then."""
    setup, name = callers.setup, where.name
    if name == "queue full":
        with pytest.raises(RaisedError, match="JobQueueFullError"):
            setup.submit("minion-00004", "test.echo", ["x"], 2 * QUEUE)
        found = begin(callers, where, pool)
        for row, future in found.items():
            if table()[row][name] != "again":
                future.exception(WAIT_S)
        until(lambda: callers.refused() >= AGAIN, Deadline(WAIT_S), lambda: "nobody asks again")
    else:
        found = begin(callers, where, pool)
        wait_for(callers, "queued", count)
        if name == "handler restarted":
            with callers.lock:
                pid = setup.pid()
                os.kill(pid, signal.SIGKILL)
                setup.pid(other_than=pid)
    return found


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_callers_see(callers: Callers, name: str) -> None:
    """Each caller sees what the table says, and no traceback."""
    callers.setup.idle()
    with ThreadPoolExecutor(len(ROWS)) as pool:
        found = meet(callers, name, pool)
        seen = {
            row: future.result(WAIT_S) if not future.exception(WAIT_S) else repr(future.exception())
            for row, future in found.items()
        }
    expected = {row: cells[name] for row, cells in table().items()}
    # which ends so
    assert seen == {row: "all" if cell == "again" else cell for row, cell in expected.items()}
