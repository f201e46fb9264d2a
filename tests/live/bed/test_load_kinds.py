"""Load runs with runners, batches, users and several processes of salt-api, each against a real master."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

from harness import samples
from harness.results import evidence, result, runs
from harness.samples import ClientSample

if TYPE_CHECKING:
    from pathlib import Path

    from harness.results.evidence import Evidence

pytestmark = pytest.mark.live

# patient, as the machine may be busy: nobody here is to be late
HEAD = 'description = "x"\npillar = "none"\nsettle_s = 120\n'
PATIENT = "timeout = 30\ngather_job_timeout = 30\n"
BLOCK = '\n[[clients]]\nname = "{0}"\nkind = "{1}"\nfunction = "{2}"\nstart_s = {3}\nburst = 1\n'
LATE = "timeout_s = 30\n"
CANARY = 'args = ["rollout"]\nkwarg = { pillar = { canary = "*1" } }\nsteps = { canary = "*1" }\n'
# one after the other where they run states: a minion refuses a second state run
KINDS = HEAD + "minions = 6\n[master]\n" + PATIENT + "".join((
    BLOCK.format("status", "runner", "manage.status", 0) + LATE,
    BLOCK.format("up", "salt-run", "manage.up", 0) + LATE,
    BLOCK.format("orchestrate", "runner", "state.orchestrate", 1) + CANARY,
    BLOCK.format("active", "runner", "jobs.active", 1),
    BLOCK.format("batch over api", "api", "test.ping", 0) + 'tgt = "*"\nbatch = "50%"\n' + LATE,
    BLOCK.format("batch", "cli", "cmd.run", 0) + 'args = ["uptime"]\ntgt = "*"\nbatch = 4\nbatch_wait = 1\n' + LATE,
    BLOCK.format("list", "runner", "jobs.list_jobs", 25),
    BLOCK.format("orchestrate later", "salt-run", "state.orchestrate", 30) + CANARY + 'mode = "async"\n',
    BLOCK.format("status later", "runner", "manage.status", 30) + 'mode = "async"\n' + LATE,
    # the last to end: between its parts nothing moves for longer than a quiet fleet takes to count as settled
    BLOCK.format("batch later", "cli", "test.ping", 30) + 'tgt = "*"\nbatch = 2\nbatch_wait = 5\nmode = "async"\n',
    BLOCK.format("no such", "runner", "manage.nothing", 2),
    BLOCK.format("no such command", "salt-run", "manage.nothing", 2),
    BLOCK.format("no orchestration", "runner", "state.orchestrate", 2) + 'args = ["nothing"]\n',
))  # fmt: skip
FAULTY = {"no such", "no such command", "no orchestration"}


def _run(root: Path, folder: Path, text: str, *options: str) -> tuple[Path, int, str]:
    """Run a scenario; return the run's folder, the exit code and what was said."""
    (folder / "mine.toml").write_text(text)
    command = [sys.executable, "-m", "harness", "load", "--scenario", str(folder / "mine.toml"), *options]
    done = subprocess.run(
        [*command, "--folder", str(folder / "runs")], cwd=root, capture_output=True, text=True, check=False, timeout=580
    )
    assert done.returncode in {0, 1}, done.stderr
    return runs.find(None, folder / "runs"), done.returncode, done.stderr


def _blocks(found: Evidence) -> dict[str, ClientSample]:
    return {row.clients: row for row in found.clients}


@pytest.mark.parametrize("tree", [pytest.param("stock", marks=pytest.mark.long), "patched"])
def test_runners_and_batches(root: Path, tmp_path: Path, tree: str) -> None:
    """Whatever administrators start is answered completely and followed to its end; what can't be is an error.

    A batch is one job in parts, after a ping of its own; the steps of an orchestration are jobs as well.
    """
    folder, _, _ = _run(root, tmp_path, KINDS, "--tree", tree)
    found = evidence.read(folder / tree / "samples")
    rows = _blocks(found)
    assert {row.clients: row.error for row in found.clients if row.clients not in FAULTY and row.error} == {}
    assert {
        answer.clients: answer.error for answer in found.answers if answer.error and answer.clients not in FAULTY
    } == {}
    assert rows["no such"].error == "HTTP 500 Internal Server Error"
    assert rows["no such command"].error == "exit code 0: 'manage.nothing' is not available."
    assert rows["no orchestration"].error.startswith("the orchestration failed: [\"No matching sls found for 'nothing'")
    assert {row.answered for name, row in rows.items() if name not in FAULTY} == {6, 0}
    assert (rows["status"].expected, rows["active"].expected) == (6, 0)
    assert len(rows["orchestrate"].jids.split()) == 4
    functions = {job.jid: job.fun for job in found.jobs}
    assert [functions[jid] for jid in rows["orchestrate"].jids.split()] == [
        "test.ping", "state.highstate", "state.highstate", "cmd.run",
    ]  # fmt: skip
    # the parts of a batch are one job
    parts = defaultdict(set)
    for sent in found.returns:
        parts[sent.jid].add(sent.minion)
    for name in ("batch", "batch over api", "batch later"):
        assert len(parts[rows[name].jids]) == 6
    figures = result.load(folder)["trees"][tree]
    # each batch and each status pings; two orchestrations of four steps, three batches, one question for jobs
    assert Counter(functions.values()) - Counter({"saltutil.find_job": 99}) == Counter(
        {"test.ping": 3 + 3 + 2 + 2, "state.highstate": 4, "cmd.run": 2 + 1, "saltutil.running": 1}
    )
    assert figures["publications"] == figures["jobs_accepted"] == 18
    assert (figures["jobs_requested"], figures["publications_per_job"]) == (0, None)
    assert figures["returns_expected"] == figures["returns_kept"] == 6 * 18 - 2 * 5
    assert (figures["never_reached"], figures["returns_lost"], figures["returns_unfinished"]) == (0, 0, 0)
    assert figures["settled_in_time"]
    assert figures["client_errors"] == len(FAULTY)


SILENT = """
[[timeline]]
at_s = 0
do = "kill"
tgt = "minion-00003"
"""
PING = "ping:\n  salt.function:\n    - name: test.ping\n    - tgt: '*'\n"


@pytest.mark.long
def test_answers_without_a_minion(root: Path, tmp_path: Path) -> None:
    """A dead minion makes the answers incomplete that Salt calls a success: of an orchestration, of a status."""
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "silent.sls").write_text(PING)
    names = 'args = ["silent"]\n'
    text = f"minions = 5\nmaster = {{ file_roots = {{ base = ['{tmp_path / 'states'}'] }} }}\n" + "".join((
        BLOCK.format("orchestrate", "runner", "state.orchestrate", 2) + names,
        BLOCK.format("orchestrate later", "runner", "state.orchestrate", 2) + names + 'mode = "async"\n',
        BLOCK.format("status", "runner", "manage.status", 2),
        BLOCK.format("down", "salt-run", "manage.down", 2),
        BLOCK.format("batch", "api", "test.ping", 2) + 'tgt = "*"\nbatch = 5\n',
    ))  # fmt: skip
    folder, _, _ = _run(root, tmp_path, HEAD + text + SILENT, "--tree", "stock")
    found = evidence.read(folder / "stock" / "samples")
    rows = _blocks(found)
    step = "step `ping`: 4 of 5 minions answered"
    assert {name: row.error for name, row in rows.items()} == {
        "orchestrate": step,
        "orchestrate later": "",
        "status": "4 of 5 minions answered",
        "down": "4 of 5 minions answered",
        "batch": "4 of 5 minions answered",
    }
    errors = {answer.clients: (answer.answered, answer.error) for answer in found.answers}
    assert errors["orchestrate later"] == (4, step)
    assert result.load(folder)["trees"]["stock"]["client_errors"] == 5


USERS = (
    HEAD
    + """
minions = 5
salt_api = 2
master = { token_expire = 10 }

[users.ops]
count = 3
permissions = ["test.*", "@runner"]

[users.workers]
count = 2
permissions = [{ "minion-00001" = ["test.ping"] }]
login = "request"

[[clients]]
name = "ops"
kind = "api"
function = "test.ping"
tgt = "*"
user = "ops"
timeout_s = 30
burst = 6

[[clients]]
name = "ops later"
kind = "api"
function = "test.ping"
tgt = "*"
user = "ops"
timeout_s = 30
start_s = 20
burst = 3

[[clients]]
name = "ops' runners"
kind = "runner"
function = "manage.up"
timeout_s = 30
user = "ops"
burst = 1

[[clients]]
name = "workers"
kind = "api"
function = "test.ping"
timeout_s = 30
tgt = "minion-00001"
user = "workers"
burst = 3

[[clients]]
name = "workers who want more"
kind = "api"
function = "test.ping"
tgt = "*"
user = "workers"
burst = 2

[[clients]]
name = "nobody's"
kind = "api"
function = "test.ping"
timeout_s = 30
tgt = "*"
burst = 3
"""
)


@pytest.mark.parametrize("tree", ["stock", pytest.param("patched", marks=pytest.mark.long)])
def test_users_with_log_ins_of_their_own(root: Path, tmp_path: Path, tree: str) -> None:
    """Each user has a token and permissions of its own, renews the one and is refused beyond the other.

    Two processes of salt-api share the requests, and the monitor sees both.
    """
    folder, _, _ = _run(root, tmp_path, USERS, "--tree", tree)
    found = evidence.read(folder / tree / "samples")
    errors = Counter((row.clients, row.error) for row in found.clients)
    assert errors == {
        ("ops", ""): 6, ("ops later", ""): 3, ("ops' runners", ""): 1, ("workers", ""): 3, ("nobody's", ""): 3,
        ("workers who want more", "HTTP 401 Unauthorized"): 2,
    }  # fmt: skip
    whys = Counter((sample.user, sample.why) for sample in found.logins)
    assert {user for user, why in whys if why == "start"} == {"ops-001", "ops-002", "ops-003"}
    # on a busy machine the token of the bed's own user may be over as well when the load begins
    assert {user for user, why in whys if why == "expired"} - {"saltbed"} == {"ops-001", "ops-002", "ops-003"}
    assert whys["workers-001", "request"] + whys["workers-002", "request"] == 5
    assert [sample.error for sample in found.logins if sample.error] == []
    figures = result.load(folder)["trees"][tree]
    assert figures["logins"] == len(found.logins) == figures["login_s"]["n"]
    apis = {row.pid for row in found.processes if row.role == "api" and row.cpu_s > 0}
    asked = (folder / tree / "logs").glob("api*.log")
    assert {path.name for path in asked} == {"api.log", "api-2.log"}
    # two of each: the one that started it, and the one that answers
    assert len(apis) == 4
    # who asks is the user, not the bed's own
    assert figures["cpu_s"]["api"] > 0


ACL = (
    HEAD
    + """
minions = 3
[users.ops]
count = 2
permissions = ["test.ping"]
[[clients]]
name = "may"
kind = "cli"
function = "test.ping"
tgt = "*"
user = "ops"
timeout_s = 30
burst = 2
[[clients]]
name = "may not"
kind = "cli"
function = "test.version"
tgt = "*"
user = "ops"
burst = 1
"""
)


@pytest.mark.needs_root
def test_users_of_the_command(root: Path, tmp_path: Path) -> None:
    """Who became root to type `salt` may do what the master's publisher_acl says, and no more."""
    folder, _, _ = _run(root, tmp_path, ACL, "--tree", "stock")
    rows = samples.read(folder / "stock" / "samples", ClientSample)
    errors = Counter((row.clients, row.error) for row in rows)
    assert errors == {("may", ""): 2, ("may not", 'exit code 0: "Authorization error occurred."'): 1}


@pytest.mark.skipif(os.geteuid() == 0, reason="as root this works")
def test_users_of_the_command_need_root(root: Path, tmp_path: Path) -> None:
    """Without root the bed refuses, in a sentence, what Salt would not ask about."""
    (tmp_path / "mine.toml").write_text(ACL)
    command = [sys.executable, "-m", "harness", "load", "--scenario", str(tmp_path / "mine.toml"), "--tree", "stock"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], cwd=root, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 2
    assert "Salt asks `publisher_acl` about users who became root: run the bed as root" in done.stderr
