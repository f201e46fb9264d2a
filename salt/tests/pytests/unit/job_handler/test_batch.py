"""
Tests for a batch whose parts wait in the queue of the job handler
"""

from salt.cli.batch import Batch
from salt.utils.batch_state import create_batch_state, progress_batch
from tests.support.mock import Mock


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
    state = create_batch_state(opts, ["web1", "web2"], "20261121000000000000", now=0)
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
