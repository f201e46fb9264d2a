"""
Tests for the iterators of a batch, which all read the returns of one job.
"""

import pytest

from salt.cli.batch import Batch
from tests.support.mock import Mock

# pylint: disable=protected-access


@pytest.fixture
def batch():
    ret = Batch.__new__(Batch)
    ret.quiet = False
    return ret


def part(minion, raw):
    if raw:
        return {"data": {"id": minion, "return": True, "retcode": 0}}
    return {minion: {"ret": True, "retcode": 0}}


@pytest.mark.parametrize("raw", [False, True])
def test_a_return_that_comes_to_another_iterator(batch, raw, capsys):
    """
    The iterator that waits for it is done, its minion is not late, and it is no
    duplicate.
    """
    asked = Mock(side_effect=AssertionError("asked again"))

    def never():
        asked()
        yield None

    first = iter([part("web1", raw), part("web2", raw)])
    second = never()
    tracker = {
        first: {"minions": ["web1"], "active": True},
        second: {"minions": ["web2"], "active": True},
    }
    found = {}
    new, late = batch._poll_iterators([first, second], tracker, raw, found)
    assert (sorted(new), late) == (["web1", "web2"], [])
    assert not tracker[first]["active"]
    assert not tracker[second]["active"]
    assert sorted(found) == ["web1", "web2"]
    assert "already deleted" not in capsys.readouterr().out


@pytest.mark.parametrize("raw", [False, True])
def test_an_iterator_that_waits_for_others_as_well_goes_on(batch, raw):
    first = iter([part("web2", raw)])
    second = iter([part("web3", raw)])
    tracker = {
        first: {"minions": ["web1"], "active": True},
        second: {"minions": ["web2", "web3"], "active": True},
    }
    new, late = batch._poll_iterators([first, second], tracker, raw, {})
    assert (sorted(new), late) == (["web2", "web3"], ["web1"])


@pytest.mark.parametrize("raw", [False, True])
def test_a_minion_that_returns_twice_is_still_told(batch, raw, capsys):
    iterator = iter([part("web1", raw), part("web1", raw)])
    tracker = {iterator: {"minions": ["web1", "web2"], "active": True}}
    new, late = batch._poll_iterators([iterator], tracker, raw, {})
    assert (list(new), late) == (["web1"], ["web2"])
    assert "minion web1 was already deleted from tracker" in capsys.readouterr().out
