"""
Every way of asking for a job names the minions that did not get it, and work that nobody
would ask for again is not lost when the master's queue is full.
"""

# pylint: disable=protected-access

import asyncio
import itertools
import threading
import time

import pytest

import salt.cli.cp
import salt.client
import salt.exceptions
import salt.job_handler.client
import salt.modules.saltutil as saltutil
import salt.runners.manage as manage
import salt.states.saltmod as saltmod
import salt.utils.reactor
from salt.cli.batch import Batch
from salt.exceptions import JobQueueFullError
from tests.support.mock import MagicMock, patch

SENTENCE = "Minion did not get the job. [the minion has 1 of 1 slots occupied]"
ROW = {
    "failed": True,
    "left_out": True,
    "out": "no_return",
    "ret": SENTENCE,
    "retcode": 1,
}


@pytest.fixture
def configure_loader_modules():
    return {manage: {"__opts__": {"conf_file": "", "timeout": 5}}}


def refused_once():
    """
    Return a function that is refused the first time it is called.
    """
    calls = []

    def ask(*args, **kwargs):
        calls.append(args)
        if len(calls) == 1:
            raise JobQueueFullError("full", 0.01)
        return iter([{"web1": {"ret": True}}])

    ask.calls = calls
    return ask


@pytest.fixture
def batch(minion_opts):
    """
    A batch of two minions, one of which is left out.
    """
    minion_opts.update(
        {
            "conf_file": "",
            "batch": "2",
            "fun": "test.echo",
            "arg": [],
            "timeout": 5,
            "gather_job_timeout": 5,
            "tgt": "",
            "transport": "",
            "rate_limiting": {"criteria": "capacity"},
        }
    )
    local = MagicMock()
    local.cmd_iter_no_block = lambda *args, **kwargs: iter(
        [{"web1": {"ret": "x", "retcode": 0}}, {"web2": ROW}]
    )
    with patch("salt.client.get_local_client", MagicMock(return_value=local)):
        ret = Batch(minion_opts, quiet=True)
        ret.gather_minions = lambda: (["web1", "web2"], [], set())
        ret._fire_event = ret._subscribe_to_halt = MagicMock()
        ret._unsubscribe_from_halt = ret._teardown_event_handle = MagicMock()
        ret._consume_halt_event = MagicMock(return_value=False)
        yield ret


def test_batch(batch):
    returned = {}
    codes = []
    for ret, code in batch.run():
        returned.update(ret)
        codes.append(code)
    assert returned == {"web1": "x", "web2": SENTENCE}
    assert max(codes) == 1
    assert batch.left_out == {"web2": SENTENCE}


def test_batch_that_people_read(batch, capsys):
    batch.quiet = False
    batch.opts["output"] = "json"
    list(batch.run())
    printed = capsys.readouterr().out
    assert f'"web2": "{SENTENCE}"' in printed
    assert "left_out" not in printed


def test_state_function_says_why():
    row = {"web1": {"ret": True}, "web2": dict(ROW)}
    with patch.object(
        saltmod, "__salt__", {"saltutil.cmd": lambda *_, **__: row}, create=True
    ), patch.object(saltmod, "__opts__", {"test": False}, create=True):
        found = saltmod.function("test.echo", "web*")
    assert found["result"] is False
    assert found["changes"] == {"ret": {"web1": True, "web2": SENTENCE}}


@pytest.mark.parametrize("batched", [True, False])
def test_orchestration(batched):
    """
    The minion counts as failed, with the sentence as its return.
    """
    client = MagicMock()
    client.job_handler.left_out = {"web2": SENTENCE} if batched else {}
    client.cmd_batch = lambda **kwargs: iter([{"web1": True}, {"web2": SENTENCE}])
    client.cmd_iter = lambda **kwargs: iter([{"web1": {"ret": True}}, {"web2": ROW}])
    found = saltutil._exec(
        client, "*", "f", (), 5, "glob", "", {}, batch="2" if batched else False
    )
    assert found["web1"]["ret"] is True
    assert found["web2"]["failed"] is True
    assert (found["web2"]["ret"], found["web2"]["retcode"]) == (SENTENCE, 1)


def test_orchestration_asks_again_while_the_queue_is_full():
    client = MagicMock()
    client.job_handler.left_out = {}
    client.cmd_iter = ask = refused_once()
    found = saltutil._exec(client, "*", "f", (), 5, "glob", "", {})
    assert found == {"web1": {"ret": True}}
    assert len(ask.calls) == 2


class Refusing:
    """
    A LocalClient whose first jobs are refused.
    """

    opts = {}

    def __init__(self, mopts=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def cmd_async(self, tgt, fun, **kwargs):
        self.asked.append(tgt)
        if self.refusals:
            raise self.refusals.pop(0)


@pytest.fixture
def reactor():
    """
    A reactor and the jobs that it has asked for; what is refused is asked for again when
    the test says so.
    """
    wrap = salt.utils.reactor.ReactWrap.__new__(salt.utils.reactor.ReactWrap)
    wrap.asked = Refusing.asked = []
    wrap.refusals = Refusing.refusals = []
    wrap.client_cache = {"local": Refusing()}
    wrap.waits = threading.Event()
    wrap.later = salt.job_handler.client.Later(size=3)

    def wait():
        deadline = time.monotonic() + 30
        wrap.waits.set()
        while wrap.later.jobs and time.monotonic() < deadline:
            time.sleep(0.01)

    wrap.wait = wait
    with patch("salt.utils.reactor.later", wrap.later), patch(
        "salt.job_handler.client.time"
    ) as clock:
        clock.sleep = lambda seconds: wrap.waits.wait(30)
        clock.monotonic = itertools.count(0, 1000).__next__
        yield wrap
        wait()


def test_full_queue_does_not_stop_the_reactor(reactor):
    """
    The job is asked for again, in the order of the events, and other events are handled
    meanwhile.
    """
    reactor.refusals += [JobQueueFullError("full", 3600)] * 2
    for minion in ("web1", "web2", "web3"):
        reactor.local("test.echo", minion)
    assert set(reactor.asked) == {"web1"}
    reactor.wait()
    assert reactor.asked == ["web1", "web1", "web1", "web2", "web3"]


def test_more_jobs_than_the_reactor_keeps(reactor, caplog):
    """
    Each job that is lost is named.
    """
    reactor.refusals += [JobQueueFullError("full", 3600)] * 2
    for minion in ("web1", "web2", "web3"):
        reactor.local("test.echo", minion)
    with pytest.raises(JobQueueFullError, match="^3 jobs wait for a place"):
        reactor.local("test.echo", "web4")
    reactor.later.lose()
    for minion in ("web1", "web2", "web3"):
        assert f"The job ('{minion}', 'test.echo') {{}} ends with" in caplog.text


def test_job_of_the_reactor_that_is_refused_for_good(reactor, caplog):
    reactor.refusals.append(JobQueueFullError("full", 3600))
    reactor.refusals.append(JobQueueFullError("not today", 0))
    reactor.local("test.echo", "web1")
    reactor.wait()
    assert reactor.asked == ["web1"] * 2
    assert "The job ('web1', 'test.echo') is given up: not today" in caplog.text


def test_job_of_the_reactor_that_a_rule_refuses(reactor):
    reactor.refusals.append(JobQueueFullError("not today", 0))
    with pytest.raises(JobQueueFullError):
        reactor.local("test.echo", "web1")
    assert not reactor.later.jobs


def _forward(refusals):
    """
    Let a syndic pass a job on; return how often it asked, what it does when it is refused
    for good, and how far it was when it could go on with the next job.
    """
    asked, told = [], []

    async def ask(jid):
        asked.append(jid)
        if refusals:
            raise refusals.pop(0)

    async def refused(ret):
        assert (ret["retcode"], ret["success"]) == (1, False)
        told.append(ret["return"])

    async def run():
        await salt.job_handler.client.forward(refused, ask, "1")
        before = len(asked)
        await asyncio.gather(*salt.job_handler.client._forwarded)
        return before

    return asyncio.run(run()), len(asked), told


def test_syndic_below_which_the_queue_is_full():
    refusals = [JobQueueFullError("full", 0.01) for _ in range(3)]
    assert _forward(refusals) == (1, 4, [])
    assert _forward([]) == (1, 1, [])


def test_syndic_below_which_a_rule_refuses_the_job():
    """
    The caller at the master of masters hears of it from the syndic.
    """
    assert _forward([JobQueueFullError("not today", 0)]) == (1, 1, ["not today"])
    refusals = [JobQueueFullError("full", 0.01), salt.exceptions.SaltClientError("x")]
    assert _forward(refusals) == (1, 2, ["x"])


def test_a_queue_that_stays_full():
    def ask():
        raise JobQueueFullError("full", 0.01)

    with pytest.raises(JobQueueFullError):
        list(salt.job_handler.client.insist(ask, 3))


def test_a_job_that_is_refused_for_good():
    """
    A rule says so, for instance: it is not asked for again.
    """
    calls = []

    def ask():
        calls.append(1)
        raise JobQueueFullError("not today", 0)

    with pytest.raises(JobQueueFullError):
        list(salt.job_handler.client.insist(ask))
    assert calls == [1]


def test_salt_cp(capsys):
    command = salt.cli.cp.SaltCPCli.__new__(salt.cli.cp.SaltCPCli)
    command.config = {}
    full = MagicMock()
    full.return_value.run.side_effect = JobQueueFullError("The queue is full.", 5)
    with patch.object(command, "parse_args", create=True), patch(
        "salt.cli.cp.SaltCP", full
    ):
        with pytest.raises(SystemExit) as caught:
            command.run()
    assert caught.value.code == 75
    assert capsys.readouterr().err == "ERROR: The queue is full.\n"


def test_a_minion_that_was_not_asked_is_not_down():
    """
    ``manage.down removekeys=True`` deletes the keys of those that are.
    """
    client = MagicMock()
    client.__enter__.return_value = client
    client.run_job.return_value = {"jid": "1", "minions": ["web1", "web2", "web3"]}
    gone = {"out": "no_return", "ret": "Minion did not return. [No response]"}
    client.get_cli_event_returns.return_value = iter(
        [{"web1": {"ret": True}}, {"web2": ROW}, {"web3": gone}]
    )
    with patch("salt.client.get_local_client", MagicMock(return_value=client)):
        assert manage._ping("*", "glob", 5, 5) == (["web1"], ["web3"])


def test_versions_of_minions_that_were_not_asked():
    client = MagicMock()
    client.cmd.return_value = {"web2": ROW, "web3": {}}
    with patch("salt.client.get_local_client", MagicMock(return_value=client)):
        found = manage.versions()
    assert found["Minion not asked"] == {"web2": False}
    assert found["Minion offline"] == {"web3": False}


@pytest.mark.parametrize(
    "method, expected",
    [
        ("get_returns", {"web1": "x", "web2": SENTENCE}),
        ("get_full_returns", {"web1": {"ret": "x"}, "web2": ROW}),
        ("get_cli_static_event_returns", {"web1": {"ret": "x"}, "web2": ROW}),
    ],
)
def test_methods_that_read_events_in_their_own_way(method, expected):
    client = salt.client.LocalClient.__new__(salt.client.LocalClient)
    client.opts = {"timeout": 5}
    client.job_handler = salt.job_handler.client.Caller({})
    client.job_handler.jobs = {"1": "a job that waits"}
    rows = MagicMock(return_value=iter([{"web1": {"ret": "x"}}, None, {"web2": ROW}]))
    with patch.object(client, "get_iter_returns", rows, create=True), patch.object(
        salt.client.LocalClient, "__del__", create=True
    ):
        assert getattr(client, method)("1", ["web1", "web2"]) == expected
