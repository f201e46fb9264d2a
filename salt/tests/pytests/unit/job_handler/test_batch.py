"""
Tests for a batch whose parts wait in the queue of the job handler
"""

import pytest

from salt.cli.batch import Batch
from salt.exceptions import JobQueueFullError
from salt.job_handler.client import about, patiently, renew
from salt.job_handler.control import JobHandlerUnavailable
from salt.utils.batch_manager import BatchManager
from salt.utils.batch_state import (
    create_batch_state,
    progress_batch,
    read_batch_state,
    write_batch_state,
)
from tests.support.mock import Mock, patch

JID = "20261121000000000000"


@pytest.fixture
def manager(tmp_path):
    """
    What drives the batches of ``salt --async``, with one batch of size 1
    """
    opts = {
        "cachedir": str(tmp_path),
        "hash_type": "sha256",
        "rate_limiting": {"criteria": "capacity"},
    }
    ret = BatchManager(opts)
    ret.local = Mock()
    # what the job handler says when it is asked
    ret.reply = {"waiting": [], "left_out": {}}
    batch = {"fun": "test.ping", "batch": 1, "timeout": 3, "gather_job_timeout": 10}
    state = create_batch_state(batch, ["web1", "web2"], JID, "master", now=0)
    assert progress_batch(state, {}, now=0).publish == ["web1"]
    write_batch_state(JID, state, opts)
    ret.active_batches.add(JID)
    ret.asked = []

    def ask(opts, request, timeout):
        ret.asked.append(request)
        if isinstance(ret.reply, Exception):
            raise ret.reply  # pylint: disable=raising-bad-type
        return ret.reply

    with patch("salt.job_handler.control.ask_sync", ask):
        yield ret


def sent(manager):
    """
    Return to whom the manager has sent a part of the batch
    """
    return [call.kwargs["tgt"] for call in manager.local.run_job.call_args_list]


def returned(minion):
    return {minion: {"ret": True, "retcode": 0}}


def test_minions_that_wait_in_the_queue_keep_their_slots():
    """
    A part that waits in the queue for longer than its minions may run holds its slots
    until its iterator gives up
    """
    opts = {"fun": "test.ping", "batch": 1, "timeout": 3, "gather_job_timeout": 10}
    state = create_batch_state(opts, ["web1", "web2"], JID, now=0)
    assert progress_batch(state, {}, now=0).publish == ["web1"]
    tracked = {"minions": ["web1"], "active": True}
    for now in (10, 20, 30):
        renew({"rate_limiting": {"x": 1}}, state, {object(): tracked}, now)
        action = progress_batch(state, {}, now=now)
        assert (action.publish, action.timed_out_minions) == ([], [])
    tracked["active"] = False
    renew({"rate_limiting": {"x": 1}}, state, {object(): tracked}, 43)
    action = progress_batch(state, {}, now=43)
    assert (action.publish, action.timed_out_minions) == (["web2"], ["web1"])


def test_a_batch_of_the_master_waits_for_its_part(manager):
    """
    While a part waits in the queue its minions are not late, and the next part is not
    handed over.
    """
    manager.reply["waiting"] = [{}]
    # pylint: disable=protected-access
    for now in (20, 40, 60):
        manager._tick(now=now)
    assert sent(manager) == []
    manager.reply["waiting"] = []
    manager._tick(now=72)
    assert sent(manager) == []
    manager._tick(now=73)
    assert sent(manager) == [["web2"]]
    assert read_batch_state(JID, manager.opts)["failed"] == {"web1": "timeout"}


def test_a_batch_of_the_master_goes_on_without_minions_that_are_left_out(manager):
    manager.reply["left_out"] = {"web1": "the minion is busy"}
    # pylint: disable-next=protected-access
    manager._tick(now=1)
    assert sent(manager) == [["web2"]]
    state = read_batch_state(JID, manager.opts)
    assert state["failed"] == {"web1": "failed"}
    assert state["left_out"] == {
        "web1": "Minion did not get the job. [the minion is busy]"
    }


def test_a_batch_of_the_master_asks_now_and_then(manager):
    # pylint: disable=protected-access
    for now in (10, 11, 12, 14, 15, 16):
        manager._progress_one(JID, {}, now=now)
    assert manager.asked == [{"cmd": "show", "jid": JID}] * 2
    # the clock may be set back
    manager._progress_one(JID, {}, now=1)
    assert len(manager.asked) == 3


def test_a_batch_of_the_master_while_the_job_handler_is_started_again(manager):
    """
    Its minions are not late meanwhile, but a job handler that does not come back stops no
    batch.
    """
    manager.reply = JobHandlerUnavailable()
    # pylint: disable=protected-access
    for now in (10, 20, 40, 60):
        manager._tick(now=now)
    assert sent(manager) == []
    manager._tick(now=73)
    assert sent(manager) == [["web2"]]


@pytest.mark.parametrize("kind", ["queued", "dispatched", "excluded", "discarded"])
def test_a_batch_of_the_master_believes_no_event(manager, kind):
    """
    It asks the job handler at once instead
    """
    # pylint: disable=protected-access
    assert not manager._wanted(f"salt/job/2/{kind}")
    assert not manager._wanted(f"salt/job/{JID}/new")
    manager._tick(now=1)
    manager.reply["left_out"] = {"web1": "x"}
    tag = f"salt/job/{JID}/{kind}"
    assert manager._wanted(tag)
    manager._handle_event({"tag": tag, "data": {"excluded": {"web2": "forged"}}})
    manager._tick(now=2)
    assert read_batch_state(JID, manager.opts)["left_out"].keys() == {"web1"}
    manager._retire(JID)
    assert not manager.parts._known


def _refusing(times):
    """
    Return what asks for a part of a batch, is refused so often, and yields then.
    """
    asked = []

    def ask():
        asked.append(None)
        if len(asked) <= times:
            raise JobQueueFullError("The queue is full.", 0.01)
        yield {"web2": {"ret": True}}

    return ask, asked


def test_part_that_is_refused_is_asked_for_again():
    """
    Others have executed, so "nothing was sent" would be wrong.
    """
    ask, asked = _refusing(3)
    found = [each for each in patiently(ask) if each is not None]
    assert (found, len(asked)) == ([{"web2": {"ret": True}}], 4)


def test_part_that_is_always_refused():
    ask, asked = _refusing(10)
    with pytest.raises(JobQueueFullError):
        list(patiently(ask, tries=5))
    assert len(asked) == 5


@pytest.mark.parametrize("on", [True, False])
def test_batch_that_meets_a_full_queue(minion_opts, on):
    """
    The first part executes, the second is refused once, and all rows are there.
    """
    opts = {**minion_opts, "batch": 1, "fun": "test.ping", "arg": [], "timeout": 5}
    opts.update({"tgt": "*", "transport": "", "gather_job_timeout": 5})
    opts["rate_limiting"] = {"criteria": "capacity"} if on else {}
    calls = []

    def cmd_iter_no_block(minions, *args, **kwargs):
        calls.append(minions)
        if len(calls) == 2:
            raise JobQueueFullError("The queue is full.", 0.01)
        yield {minions[0]: {"ret": True, "retcode": 0}}

    with patch("salt.client.get_local_client"):
        batch = Batch(opts, quiet=True)
    batch.local = Mock(cmd_iter_no_block=cmd_iter_no_block, opts=opts)
    batch.gather_minions = lambda: (["web1", "web2"], iter([]), [])
    # pylint: disable=protected-access
    batch._subscribe_to_halt = Mock()
    batch._consume_halt_event = Mock(return_value=False)
    batch._fire_event = Mock()
    if not on:
        with pytest.raises(JobQueueFullError):
            list(batch.run())
        return
    found = [row for row, _ in batch.run()]
    assert found == [{"web1": True}, {"web2": True}]
    assert calls == [["web1"], ["web2"], ["web2"]]


def test_part_of_an_asynchronous_batch_that_is_refused(manager):
    """
    It is asked for again when the master said, and its minion is not late meanwhile.
    """
    manager.local.run_job.side_effect = JobQueueFullError("The queue is full.", 30)
    # pylint: disable=protected-access
    manager._progress_one(JID, returned("web1"), now=10)
    assert sent(manager) == [["web2"]]
    manager.local.run_job.side_effect = None
    manager.local.run_job.return_value = {"jid": JID}
    for now in (10.5, 20, 39):
        manager._progress_one(JID, {}, now=now)
    assert sent(manager) == [["web2"]]
    manager._progress_one(JID, {}, now=41)
    assert sent(manager) == [["web2"], ["web2"]]
    manager._progress_one(JID, returned("web2"), now=42)
    assert sorted(read_batch_state(JID, manager.opts)["done"]) == ["web1", "web2"]


def test_parts_of_an_asynchronous_batch_that_are_refused(manager):
    """
    A second refusal does not forget the first one, nor does a restart of the master.
    """
    state = read_batch_state(JID, manager.opts)
    state.update({"batch_size": 2, "pending": ["web2", "web3"]})
    write_batch_state(JID, state, manager.opts)
    manager.local.run_job.side_effect = JobQueueFullError("The queue is full.", 30)
    # pylint: disable=protected-access
    manager._progress_one(JID, {}, now=10)
    manager._progress_one(JID, returned("web1"), now=11)
    assert sent(manager) == [["web2"], ["web3"]]
    again = BatchManager(manager.opts)
    again.local = Mock()
    again.active_batches.add(JID)
    for now in (20, 39, 42):
        again._progress_one(JID, {}, now=now)
    assert sent(again) == [["web2"], ["web3"]]
    again._progress_one(JID, {**returned("web2"), **returned("web3")}, now=43)
    state = read_batch_state(JID, manager.opts)
    assert (sorted(state["done"]), state["failed"]) == (["web1", "web2", "web3"], {})


def test_part_of_an_asynchronous_batch_that_a_rule_refuses(manager):
    """
    It is not asked for again, and the job says why its minions did not get it.
    """
    refusal = JobQueueFullError("web servers have to answer. Nothing was sent.", 0)
    manager.local.run_job.side_effect = refusal
    # pylint: disable=protected-access
    manager._progress_one(JID, returned("web1"), now=10)
    manager._progress_one(JID, {}, now=11)
    assert sent(manager) == [["web2"]]
    assert JID not in manager.active_batches
    assert read_batch_state(JID, manager.opts)["failed"] == {"web2": "failed"}
    with patch("salt.job_handler.control.ask_sync", return_value={}):
        assert about(manager.opts, JID)["LeftOut"] == {
            "web2": "Minion did not get the job. [web servers have to answer]"
        }


def test_part_of_an_asynchronous_batch_that_was_cancelled(manager):
    """
    The batch ends without waiting for a timeout.
    """
    # pylint: disable=protected-access
    manager._progress_one(JID, returned("web1"), now=10)
    manager.reply["left_out"] = {"web2": "It was taken out of the master's queue"}
    manager._progress_one(JID, {}, now=11)
    assert JID not in manager.active_batches
    assert read_batch_state(JID, manager.opts)["failed"] == {"web2": "failed"}


def test_a_batch_without_a_job_handler(manager):
    """
    Nobody is asked, no event is one of the job handler, and a minion that has not answered
    in time is late, as on stock Salt
    """
    manager.opts["rate_limiting"] = {}
    manager.reply = {"waiting": [{}], "left_out": {"web1": "x"}}
    # pylint: disable=protected-access
    for now in (1, 6, 12):
        for kind in ("queued", "dispatched", "excluded", "discarded"):
            data = {"excluded": {"web1": "x"}, "targets": ["web1"], "waiting": 2}
            manager._handle_event({"tag": f"salt/job/{JID}/{kind}", "data": data})
        manager._tick(now=now)
        assert read_batch_state(JID, manager.opts)["failed"] == {}
    assert (sent(manager), manager.asked) == ([], [])
    manager._tick(now=13)
    state = read_batch_state(JID, manager.opts)
    assert (state["failed"], "left_out" in state) == ({"web1": "timeout"}, False)
    assert sent(manager) == [["web2"]]
