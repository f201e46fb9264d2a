"""
Tests for a batch whose parts wait in the queue of the job handler
"""

from salt.cli.batch import Batch
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
