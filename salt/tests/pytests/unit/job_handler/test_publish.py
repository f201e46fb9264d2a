"""
The hook in ClearFuncs.publish, and what LocalClient makes of the answers.
"""

import asyncio

import pytest

import salt.client
import salt.exceptions
import salt.job_handler.client
import salt.master
from tests.support.mock import AsyncMock, MagicMock, patch

MINIONS = ["a", "b"]


@pytest.fixture
def clear_funcs(master_opts):
    """
    A ClearFuncs whose parts write down what they are asked for.
    """
    funcs = salt.master.ClearFuncs.__new__(salt.master.ClearFuncs)
    funcs.opts = dict(master_opts, rate_limiting={}, order_masters=False)
    funcs.key = {"root": "key"}
    funcs.event = MagicMock()
    funcs.ckminions = MagicMock()
    funcs.ckminions.check_minions.return_value = {"minions": MINIONS, "missing": []}
    funcs.loadauth = MagicMock()
    funcs.loadauth.check_authentication.return_value = {"auth_list": []}
    funcs.mminion = MagicMock()
    funcs.mminion.returners = {
        "local_cache.prep_jid": MagicMock(return_value="20260101000000000000"),
        "local_cache.save_load": MagicMock(),
    }
    funcs.channels = [MagicMock(publish=AsyncMock())]
    return funcs


def _load(**kwargs):
    return {
        "cmd": "publish",
        "fun": "test.version",
        "arg": [],
        "tgt": "*",
        "tgt_type": "glob",
        "user": "root",
        "key": "key",
        "ret": "",
        "jid": "",
        "kwargs": {},
        **kwargs,
    }


def _publish(funcs, **kwargs):
    return asyncio.run(funcs.publish(_load(**kwargs)))


def _published(funcs):
    return [call.args[0] for call in funcs.channels[0].publish.call_args_list]


def test_off(clear_funcs):
    """
    No call, and the load is that of a master without a job handler.
    """
    with patch("salt.job_handler.handover.enter", AsyncMock()) as enter:
        answer = _publish(clear_funcs)
    assert not enter.called
    assert answer == {
        "enc": "clear",
        "load": {"jid": "20260101000000000000", "minions": MINIONS, "missing": []},
    }
    assert _published(clear_funcs) == [
        {
            "fun": "test.version",
            "arg": [],
            "tgt": "*",
            "jid": "20260101000000000000",
            "ret": "",
            "tgt_type": "glob",
            "user": "root",
        }
    ]


@pytest.mark.parametrize("section", [{}, {"criteria": "capacity", "fail_mode": "open"}])
def test_what_a_client_says_of_itself_goes_nowhere(clear_funcs, section):
    """
    Neither to minions, nor into the job cache, nor onto the event bus.
    """
    clear_funcs.opts["rate_limiting"] = section
    clear_funcs.opts["sock_dir"] = "/nowhere"
    _publish(clear_funcs, job_handler={"id": "x", "sync": True, "timeout": 5})
    (load,) = _published(clear_funcs)
    assert "job_handler" not in load
    saved = clear_funcs.mminion.returners["local_cache.save_load"].call_args.args[1]
    assert "job_handler" not in saved
    for call in clear_funcs.event.fire_event.call_args_list:
        assert "job_handler" not in call.args[0]


def test_refused_job_leaves_no_trace(clear_funcs):
    """
    There is no job id, no event, and nothing in the job cache.
    """
    clear_funcs.opts["rate_limiting"] = {"criteria": "capacity"}
    handover = MagicMock(answer={"error": {"name": "JobQueueFullError"}})
    with patch("salt.job_handler.handover.enter", AsyncMock(return_value=handover)):
        assert _publish(clear_funcs) == handover.answer
    assert not clear_funcs.mminion.returners["local_cache.prep_jid"].called
    assert not clear_funcs.event.fire_event.called
    assert _published(clear_funcs) == []


def test_job_that_is_taken_over(clear_funcs):
    """
    The job handler publishes it, and says so on the event bus.
    """
    clear_funcs.opts["rate_limiting"] = {"criteria": "capacity"}
    handover = MagicMock(
        answer=None, submit=AsyncMock(return_value={"load": "its answer"})
    )
    with patch("salt.job_handler.handover.enter", AsyncMock(return_value=handover)):
        assert _publish(clear_funcs) == {"load": "its answer"}
    tags = [call.args[1] for call in clear_funcs.event.fire_event.call_args_list]
    assert tags == ["salt/job/20260101000000000000/new"]
    assert _published(clear_funcs) == []


@pytest.mark.parametrize(
    "kwargs,auth_list,forced",
    [
        ({}, [], False),
        ({"id": "minion"}, [], True),
        ({"id": "minion"}, ["test.*"], False),
    ],
)
def test_publication_of_a_minion_does_not_wait(clear_funcs, kwargs, auth_list, forced):
    """
    The master asks for these with its own key. Who has to be authorised can't do so.
    """
    clear_funcs.opts["rate_limiting"] = {"criteria": "capacity"}
    clear_funcs.loadauth.check_authentication.return_value = {"auth_list": auth_list}
    handover = MagicMock(answer=None, submit=AsyncMock(return_value={"load": {}}))
    with patch(
        "salt.job_handler.handover.enter", AsyncMock(return_value=handover)
    ) as enter:
        _publish(clear_funcs, kwargs=kwargs)
    assert enter.call_args.kwargs["forced"] is forced


@pytest.fixture
def client(master_opts):
    with salt.client.LocalClient(mopts=master_opts) as found:
        yield found


def test_refusal_is_an_exception_of_its_own(client):
    """
    It is not rewritten to a master that can't be contacted.
    """
    error = salt.exceptions.JobQueueFullError("full", 7)
    with patch.object(client, "pub", side_effect=error):
        with pytest.raises(salt.exceptions.JobQueueFullError, match="^full$") as caught:
            client.run_job("*", "test.version")
    assert caught.value.retry_after == 7


def _events(jid, *events):
    """
    Return an iterator as LocalClient reads events from.
    """

    def read(tag, match_type=None):
        for kind, data in events:
            yield {"tag": f"salt/job/{jid}/{kind}", "data": {"ticket": "t", **data}}
        while True:
            yield None

    return read


def test_waiting_for_a_job_in_the_queue(client):
    """
    No find_job goes out, and those who won't get it are shown with the reason.
    """
    queued = client.job_handler.jobs["1"] = salt.job_handler.client.QueuedJob("1")
    queued.add({"publication": 1, "waiting": 2, "ticket": "t"})
    ret = {"fun": "test.version", "return": "x", "retcode": 0}
    events = _events(
        "1",
        ("ret/a", {"id": "a", **ret}),
        ("excluded", {"excluded": {"b": "busy"}}),
        ("dispatched", {"publication": 1, "waiting": 0, "targets": ["c"]}),
        ("ret/c", {"id": "c", **ret}),
    )
    with patch.object(client, "get_returns_no_block", events), patch.object(
        client, "returns_for_job", return_value=True
    ), patch.object(client, "gather_job_info") as find_job:
        found = list(
            client.get_iter_returns(
                "1", {"a", "b", "c"}, timeout=0, expect_minions=True
            )
        )
    assert not find_job.called
    assert [next(iter(row)) for row in found] == ["a", "c", "b"]
    assert found[-1]["b"]["ret"] == "Minion did not get the job. [busy]"
    assert client.job_handler.jobs == {}


@pytest.mark.parametrize(
    "answer, count",
    [
        ({"enc": "clear", "load": {"jid": "1"}}, 1),
        ({"error": {"name": "JobQueueFullError", "message": "Nothing was sent."}}, 0),
    ],
)
def test_minions_over_ssh_get_no_job_that_is_refused(clear_funcs, answer, count):
    """
    The caller reads that nothing was sent, and tries again.
    """
    clear_funcs.opts["rate_limiting"] = {"criteria": "capacity"}
    handover = MagicMock(answer=None)
    handover.submit = AsyncMock(return_value=answer)
    with (
        patch("salt.job_handler.handover.enter", AsyncMock(return_value=handover)),
        patch.object(clear_funcs, "_send_ssh_pub", create=True) as sent,
    ):
        assert _publish(clear_funcs) == answer
    assert sent.call_count == count
