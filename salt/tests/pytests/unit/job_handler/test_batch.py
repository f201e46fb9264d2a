"""
Tests for a batch whose parts wait in the queue of the job handler
"""

import pytest

from salt.cli.batch import Batch
from salt.exceptions import JobQueueFullError
from salt.job_handler.client import patiently
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
    opts = {"cachedir": str(tmp_path), "hash_type": "sha256"}
    ret = BatchManager(opts)
    ret.local = Mock()
    batch = {"fun": "test.ping", "batch": 1, "timeout": 3, "gather_job_timeout": 10}
    state = create_batch_state(batch, ["web1", "web2"], JID, "master", now=0)
    assert progress_batch(state, {}, now=0).publish == ["web1"]
    state["job_handler"] = {"ticket": "t"}
    write_batch_state(JID, state, opts)
    ret.active_batches.add(JID)
    return ret


def tell(manager, kind, **data):
    """
    Let the manager hear an event of the job handler
    """
    # pylint: disable-next=protected-access
    manager._handle_event(
        {"tag": f"salt/job/{JID}/{kind}", "data": {"ticket": "t", **data}}
    )


def sent(manager):
    """
    Return to whom the manager has sent a part of the batch
    """
    return [call.kwargs["tgt"] for call in manager.local.run_job.call_args_list]


def returned(minion):
    return {minion: {"ret": True, "retcode": 0}}


def test_a_return_that_comes_to_another_iterator():
    """
    An iterator may hear the return that another one waits for; that one is done then and
    its minion is not late
    """
    batch = Batch.__new__(Batch)
    batch.quiet = False
    asked = Mock(side_effect=AssertionError("asked again"))

    def never():
        asked()
        yield None

    first = iter([returned("web1"), returned("web2")])
    second = never()
    tracker = {
        first: {"minions": ["web1"], "active": True},
        second: {"minions": ["web2"], "active": True},
    }
    raw = {}
    # pylint: disable-next=protected-access
    new, late = batch._poll_iterators([first, second], tracker, False, raw)
    assert (sorted(new), late) == (["web1", "web2"], [])
    assert not tracker[first]["active"]
    assert not tracker[second]["active"]
    assert sorted(raw) == ["web1", "web2"]


def test_a_minion_that_nobody_heard_of_is_late():
    batch = Batch.__new__(Batch)
    batch.quiet = True
    iterator = iter([returned("web1")])
    tracker = {iterator: {"minions": ["web1", "web2"], "active": True}}
    # pylint: disable-next=protected-access
    new, late = batch._poll_iterators([iterator], tracker, False, {})
    assert (list(new), late) == (["web1"], ["web2"])


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
        # pylint: disable-next=protected-access
        Batch._renew_waiting(state, {object(): tracked}, now)
        action = progress_batch(state, {}, now=now)
        assert (action.publish, action.timed_out_minions) == ([], [])
    tracked["active"] = False
    # pylint: disable-next=protected-access
    Batch._renew_waiting(state, {object(): tracked}, 43)
    action = progress_batch(state, {}, now=43)
    assert (action.publish, action.timed_out_minions) == (["web2"], ["web1"])


def test_a_batch_of_the_master_waits_for_its_part(manager):
    """
    While a part waits in the queue its minions are not late, and the next part is not
    handed over
    """
    tell(manager, "queued", publication=1, waiting=1)
    for now in (20, 40, 60):
        # pylint: disable-next=protected-access
        manager._tick(now=now)
    assert sent(manager) == []
    tell(manager, "dispatched", publication=1, waiting=0, targets=["web1"])
    # pylint: disable-next=protected-access
    manager._tick(now=72)
    assert sent(manager) == []
    # pylint: disable-next=protected-access
    manager._tick(now=73)
    assert sent(manager) == [["web2"]]
    assert read_batch_state(JID, manager.opts)["failed"] == {"web1": "timeout"}


def test_a_batch_of_the_master_goes_on_without_whom_it_cannot_reach(manager):
    tell(manager, "excluded", excluded={"web1": "the minion is at 10 of 10 points"})
    # pylint: disable-next=protected-access
    manager._tick(now=1)
    assert sent(manager) == [["web2"]]
    assert read_batch_state(JID, manager.opts)["failed"] == {"web1": "failed"}


def test_a_batch_of_the_master_knows_what_was_said_before_it_was_adopted(manager):
    """
    The first part is published by the command that starts the batch
    """
    state = read_batch_state(JID, manager.opts)
    state["job_handler"] = {
        "state": "dispatched",
        "ticket": "t",
        "publication": 1,
        "waiting": 0,
        "excluded": {"web1": "the minion is at 10 of 10 points"},
    }
    write_batch_state(JID, state, manager.opts)
    # pylint: disable-next=protected-access
    manager._tick(now=1)
    assert sent(manager) == [["web2"]]
    assert read_batch_state(JID, manager.opts)["failed"] == {"web1": "failed"}


def test_a_first_part_that_waits_is_not_late(manager):
    state = read_batch_state(JID, manager.opts)
    state["job_handler"] = {
        "state": "queued",
        "ticket": "t",
        "publication": 1,
        "waiting": 1,
    }
    write_batch_state(JID, state, manager.opts)
    for now in (20, 40):
        # pylint: disable-next=protected-access
        manager._tick(now=now)
    assert sent(manager) == []
    tell(manager, "dispatched", publication=1, waiting=0, targets=["web1"])
    # pylint: disable-next=protected-access
    manager._tick(now=53)
    assert sent(manager) == [["web2"]]


def test_a_batch_of_the_master_hears_of_its_part_in_the_queue(manager):
    jid = next(iter(manager.active_batches))
    # pylint: disable=protected-access
    for kind in ("queued", "dispatched", "excluded", "discarded"):
        assert manager._wanted(f"salt/job/{jid}/{kind}")
        assert not manager._wanted(f"salt/job/{jid}0/{kind}")


def test_a_batch_of_the_master_forgets_its_queue_when_it_ends(manager):
    tell(manager, "queued", publication=1, waiting=1)
    assert list(manager.queued_jobs) == [JID]
    # pylint: disable-next=protected-access
    manager._retire(JID)
    assert manager.queued_jobs == {}
    tell(manager, "queued", publication=1, waiting=1)
    assert manager.queued_jobs == {}


def _refusing(times):
    """
    Return what asks for a part of a batch, is refused so often, and yields then.
    """
    asked = []

    def ask():
        asked.append(None)
        if len(asked) <= times:
            raise JobQueueFullError("The queue is full.", 0)
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
            raise JobQueueFullError("The queue is full.", 0)
        yield {minions[0]: {"ret": True, "retcode": 0}}

    with patch("salt.client.get_local_client"):
        batch = Batch(opts, quiet=True)
    batch.local = Mock(cmd_iter_no_block=cmd_iter_no_block)
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


def test_part_of_an_asynchronous_batch_that_was_cancelled(manager):
    """
    What the master answers ends the batch, without waiting for a timeout.
    """
    manager.opts["rate_limiting"] = {"criteria": "capacity"}
    excluded = {"excluded": {"web2": "It was taken out of the master's queue"}}
    manager.local.run_job.return_value = {"jid": JID, "job_handler": excluded}
    # pylint: disable=protected-access
    manager._progress_one(JID, returned("web1"), now=10)
    manager._progress_one(JID, {}, now=11)
    assert JID not in manager.active_batches
    assert read_batch_state(JID, manager.opts)["failed"] == {"web2": "failed"}


@pytest.mark.parametrize("ticket", [{}, {"ticket": "t"}, {"ticket": ""}])
def test_a_batch_without_a_job_handler(manager, ticket):
    """
    Where it is off, no event is one of the job handler: nobody is left out, nobody
    waits, and who has not answered in time is late, as on stock Salt
    """
    state = read_batch_state(JID, manager.opts)
    del state["job_handler"]
    write_batch_state(JID, state, manager.opts)
    more = {"excluded": {"web1": "x", "web2": "x"}, "targets": ["web1"], **ticket}
    # pylint: disable=protected-access
    for now in (1, 6, 12):
        for kind in ("queued", "dispatched", "excluded", "discarded"):
            data = {"publication": 1, "waiting": 2, "lease": 1000, "sentence": "x"}
            event = {"tag": f"salt/job/{JID}/{kind}", "data": {**data, **more}}
            manager._handle_event(event)
        manager._tick(now=now)
        found = read_batch_state(JID, manager.opts)
        assert (found["active"], found["failed"]) == (state["active"], {})
    assert sent(manager) == []
    manager._tick(now=13)
    assert read_batch_state(JID, manager.opts)["failed"] == {"web1": "timeout"}
    assert sent(manager) == [["web2"]]
    # a return is one whatever it carries
    data = {"return": True, "retcode": 0, "success": True, **more}
    manager._handle_event({"tag": f"salt/job/{JID}/ret/web2", "data": data})
    state = read_batch_state(JID, manager.opts)
    assert (list(state["done"]), state["failed"]) == (["web2"], {"web1": "timeout"})
