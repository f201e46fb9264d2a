"""Scenarios with runners, batches, users and several processes of salt-api: what is read, and how it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.errors import ScenarioError
from harness.scenarios import scenario
from harness.scenarios.clients import CLI, OVER_API, Asked, Expected, Group

if TYPE_CHECKING:
    from pathlib import Path

    from harness.scenarios.scenario import Scenario

HEAD = 'description = "x"\nminions = 10\n'
API = '[[clients]]\nname = "a"\nkind = "api"\nfunction = "test.ping"\ntgt = "*"\nburst = 1\n'
BATCH = f'{API}batch = "10%"\n'
ORCHESTRATE = '[[clients]]\nname = "o"\nkind = "runner"\nfunction = "state.orchestrate"\nburst = 1\n'
STATUS = ORCHESTRATE.replace("state.orchestrate", "manage.status")
ACTIVE = ORCHESTRATE.replace("state.orchestrate", "jobs.active")
OPS = '[users.ops]\ncount = 3\npermissions = ["test.*", "@runner"]\n'


def _load(folder: Path, text: str) -> Scenario:
    path = folder / "mine.toml"
    path.write_text(text)
    return scenario.load(path)


def test_runner(tmp_path: Path) -> None:
    """A runner that names minions has a target, everybody's by default; steps have others; all sizes are asked for."""
    text = f"{HEAD}{ORCHESTRATE}steps = {{ canary = 'minion-00000' }}\n"
    (clients,) = _load(tmp_path, text).clients
    assert (clients.tgt, clients.steps) == ("*", {"canary": "minion-00000"})
    assert clients.targets == {"o": "*", "o / canary": "minion-00000"}
    assert clients.expects({"o": 10, "o / canary": 1}) == Expected(10, {"canary": 1})
    assert "state.orchestrate on '*' (glob)" in clients.text
    (clients,) = _load(tmp_path, HEAD + ACTIVE).clients
    assert (clients.tgt, clients.targets, clients.expects({})) == ("", {}, Expected(0))
    assert clients.text == "o: 1 at once, runner sync, jobs.active"


def test_batch(tmp_path: Path) -> None:
    """A batch's size is a number or a share."""
    for given, expected in (('"10%"', "10%"), ("25", "25"), ('"7"', "7"), ('"100%"', "100%")):
        (clients,) = _load(tmp_path, f"{HEAD}{API}batch = {given}\nbatch_wait = 2\n").clients
        assert (clients.batch, clients.batch_wait) == (expected, 2)
    assert f"{expected} at a time" in clients.text


def test_users(tmp_path: Path) -> None:
    """Groups of users have numbered names and permissions, which go to the master for the kinds that they use."""
    text = HEAD + API + 'user = "ops"\n' + STATUS.replace('"o"', '"p"').replace("runner", "api") + 'tgt = "*"\n' + OPS
    found = _load(tmp_path, f"salt_api = 3\n{text}")
    assert (found.salt_api, found.users) == (3, {"ops": Group("ops", 3, ("test.*", "@runner"))})
    assert found.permissions(OVER_API) == {f"ops-00{number}": ["test.*", "@runner"] for number in (1, 2, 3)}
    assert found.permissions({CLI}) == {}
    group = _load(tmp_path, text + 'login = "request"\n').users["ops"]
    assert (group.login, group.user(0), group.user(4)) == ("request", "ops-001", "ops-002")
    assert "by the users ops" in found.clients[0].text


@pytest.mark.parametrize(
    "permission",
    ["'.*'", "'@runner'", "{ 'web*' = ['state.apply', 'test.*'] }", "{ '@runner' = ['manage.status'] }",
     "{ '*' = [{ 'cmd.run' = { args = ['uptime'] } }] }"],
)  # fmt: skip
def test_permissions(tmp_path: Path, permission: str) -> None:
    """Whatever form of permission Salt takes is taken."""
    users = f"[users.ops]\ncount = 1\npermissions = [{permission}]\n"
    assert len(_load(tmp_path, f'{HEAD}{API}user = "ops"\n{users}').users["ops"].permissions) == 1


def test_what_counts_as_asked_for(tmp_path: Path) -> None:
    """Jobs that runners and batches publish are asked for; what an orchestration publishes only the master knows."""
    plain = _load(tmp_path, HEAD + API)
    assert "test.ping" in plain.asked
    assert "state.sls" not in plain.asked
    pinging = _load(tmp_path, HEAD + API.replace("test.ping", "cmd.run") + STATUS)
    assert pinging.functions == {"cmd.run", "test.ping"}
    assert ("test.ping" in pinging.asked, "state.sls" in pinging.asked) == (True, False)
    batch = _load(tmp_path, HEAD + BATCH.replace("test.ping", "cmd.run"))
    assert batch.functions == {"cmd.run", "test.ping"}
    any_job = _load(tmp_path, HEAD + API + ORCHESTRATE)
    assert "state.sls" in any_job.asked
    assert [
        fun for fun in ("saltutil.find_job", "runner.state.orchestrate", "wheel.key.list") if fun in any_job.asked
    ] == []
    assert Asked.read(any_job.asked.lines()) == any_job.asked
    assert _load(tmp_path, HEAD + ACTIVE).functions == {"saltutil.running"}


def test_requests_that_are_one_job_each(tmp_path: Path) -> None:
    """Jobs are compared with requests only where nobody else publishes the same function."""
    assert _load(tmp_path, HEAD + API).single_functions == {"test.ping"}
    assert _load(tmp_path, HEAD + API + STATUS).single_functions == set()
    assert _load(tmp_path, HEAD + API.replace("test.ping", "cmd.run") + STATUS).single_functions == {"cmd.run"}
    assert _load(tmp_path, HEAD + API + ORCHESTRATE).single_functions == set()
    assert _load(tmp_path, HEAD + BATCH).single_functions == set()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (API + 'batch = "0%"\n', "batch` is '0%', but has to be a number of minions, or a share from '1%' to '100%'"),
        (API + "batch = true\n", "batch` is True, but has to be a number"),
        (API + "batch = 0\n", "batch` is 0, but has to be a number"),
        (API + "batch = -3\n", "batch` is -3, but has to be a number"),
        (API + "batch = 1.5\n", "batch` is 1.5, but has to be a number"),
        (API + 'batch = "101%"\n', "batch` is '101%', but has to be a number"),
        (API + 'batch = "ten"\n', "batch` is 'ten', but has to be a number"),
        (API + "batch_wait = 1\n", "batch_wait` needs a `batch` beside it"),
        (BATCH + "batch_wait = -1\n", "batch_wait` is -1, but has to be from 0 to 3600"),
        (BATCH + 'mode = "async"\n', "batch` of the kind 'api' is sync only, as salt-api has no other"),
        (STATUS + "batch = 3\n", "batch` is for the kinds 'api' and 'cli', not for 'runner'"),
        (ACTIVE + 'tgt = "*"\n', "tgt` has no meaning for 'jobs.active', whose answer names no minions: leave it out"),
        (ACTIVE + 'tgt_type = "glob"\n', "tgt_type` has no meaning for 'jobs.active'"),
        (ACTIVE + "timeout_s = 9\n", "timeout_s` has no meaning for 'jobs.active', which takes none: leave it out"),
        (ORCHESTRATE + "timeout_s = 9\n", "timeout_s` has no meaning for 'state.orchestrate'"),
        (STATUS + 'kwarg = { tgt = "x" }\n', "kwarg` holds `tgt`: give it as `tgt` of the clients"),
        (STATUS + "kwarg = { timeout = 1 }\n", "kwarg` holds `timeout`: give it as `timeout_s` of the clients"),
        (STATUS + "steps = { a = '*' }\n", "steps` belongs to an orchestration, 'manage.status' of kind 'runner' is"),
        (API + "steps = { a = '*' }\n", "steps` belongs to an orchestration, 'test.ping' of kind 'api' is none"),
        (ORCHESTRATE + "steps = { a = 3 }\n", "steps.a` is 3, but has to be a target, such as 'web*'"),
        (API + 'user = "ops"\n', "user` is 'ops', but there is no table `[users.ops]`"),
        (STATUS.replace("runner", "salt-run") + 'user = "ops"\n' + OPS, "user` can't stand beside the kind 'salt-run'"),
        (API + OPS, "mine.toml: `users.ops` is used by no clients: give a block `user`, or leave the table out."),
        (API + OPS.replace("ops", "Ops"), "`users.Ops` is no name of a group: take lower-case letters"),
        (API + OPS.replace("count = 3", "count = 0"), "`users.ops.count` is 0, but has to be from 1 to 1000"),
        (API + OPS.replace("count = 3\n", ""), "`users.ops.count` is missing: give it a whole number"),
        (API + OPS.replace("count", "number"), "`users.ops.number` is no key here"),
        (API + OPS + 'login = "never"\n', "`users.ops.login` is 'never', but has to be one of start, request"),
        (API + "[users.ops]\ncount = 1\npermissions = []\n", "`users.ops.permissions` is empty, so nobody could do"),
        (API + "[users.ops]\ncount = 1\npermissions = [3]\n", "`users.ops.permissions` holds 3, but may hold func"),
        (API + "[users.ops]\ncount = 1\npermissions = [{ a = 'b' }]\n", "permissions` holds {'a': 'b'}, but may hold"),
        (API + "[users.ops]\ncount = 1\n", "`users.ops.permissions` is missing: give it a list"),
        ("salt_api = 0\n" + API, "`salt_api` is 0, but has to be from 1 to 16"),
        ('salt_api = "two"\n' + API, "`salt_api` is 'two', but has to be a whole number"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, text: str, problem: str) -> None:
    """Whatever can't be meant is one sentence that names the key and says what would be right."""
    with pytest.raises(ScenarioError) as caught:
        _load(tmp_path, HEAD + text)
    assert problem in str(caught.value)
    assert str(caught.value).startswith("mine.toml: ")


def test_target_of_a_step_that_nobody_is(tmp_path: Path) -> None:
    """The target of a step is checked before anything starts, as that of its clients is."""
    found = _load(tmp_path, f"{HEAD}{ORCHESTRATE}steps = {{ canary = 'web*' }}\n")
    with pytest.raises(ScenarioError, match="The clients `o / canary` target none of the 1 minions"):
        scenario.check(found, ["minion-00000"])
    scenario.check(_load(tmp_path, HEAD + ACTIVE), ["minion-00000"])
