"""
Unit tests for what :class:`salt.utils.batch_manager.BatchManager` makes of the
returns of a batch that it did not know yet when they came.
"""

# pylint: disable=protected-access

import pytest

import salt.utils.batch_state
from salt.utils.batch_manager import BatchManager
from tests.support.mock import MagicMock

JID = "20261122000000000000"


@pytest.fixture
def opts(tmp_path):
    return {
        "cachedir": str(tmp_path),
        "hash_type": "sha256",
        "sock_dir": str(tmp_path),
        "conf_file": str(tmp_path / "master"),
        "master_job_cache": "local_cache",
    }


@pytest.fixture
def cached():
    """
    The job cache: two minions have answered
    """
    return {
        "m1": {"return": True, "retcode": 0},
        "m2": {"return": True, "retcode": 0},
    }


@pytest.fixture
def manager(opts, cached):
    mgr = BatchManager(opts)
    mgr.event = MagicMock()
    mgr.local = MagicMock()
    mgr.local.returners = {"local_cache.get_jid": MagicMock(return_value=cached)}
    mgr.output = MagicMock()
    return mgr


def _write_state(opts, **overrides):
    """
    A batch as the CLI leaves it: its first part is published
    """
    state = salt.utils.batch_state.create_batch_state(
        {"batch": 2, "fun": "test.ping", "tgt": "*"},
        ["m1", "m2", "m3", "m4"],
        JID,
        driver="master",
    )
    state["active"] = dict.fromkeys(["m1", "m2"], state["created"])
    state["pending"] = ["m3", "m4"]
    state.update(overrides)
    salt.utils.batch_state.write_batch_state(JID, state, opts)


def _published(manager):
    return [call.kwargs["tgt"] for call in manager.local.run_job.call_args_list]


def _adopt_by_event(manager, opts, now=None):
    manager._handle_event({"tag": f"salt/batch/{JID}/new", "data": {}})
    manager._tick(now)


def _adopt_by_index(manager, opts, now=None):
    salt.utils.batch_state.add_to_active_index(JID, opts)
    manager._tick(now)


def _adopt_to_recover(manager, opts, now=None):
    manager._handle_event({"tag": f"salt/batch/{JID}/recover", "data": {}})
    manager._tick(now)


ADOPTIONS = (_adopt_by_event, _adopt_by_index, _adopt_to_recover)


@pytest.mark.parametrize("adopt", ADOPTIONS)
def test_minions_that_answered_before_are_done(manager, opts, adopt):
    """
    Their slots are free, so the next part goes out at once
    """
    _write_state(opts)
    adopt(manager, opts)
    assert _published(manager) == [["m3", "m4"]]
    state = salt.utils.batch_state.read_batch_state(JID, opts)
    assert sorted(state["done"]) == ["m1", "m2"]
    assert sorted(state["active"]) == ["m3", "m4"]
    manager.local.returners["local_cache.get_jid"].assert_called_once_with(JID)


@pytest.mark.parametrize("adopt", ADOPTIONS)
def test_minions_that_did_not_answer_are_waited_for(manager, opts, cached, adopt):
    """
    Each slot by itself
    """
    del cached["m2"]
    _write_state(opts)
    adopt(manager, opts)
    assert _published(manager) == [["m3"]]
    state = salt.utils.batch_state.read_batch_state(JID, opts)
    assert sorted(state["active"]) == ["m2", "m3"]
    # its return comes as an event, and that of m1, once more, changes nothing
    for minion_id in ("m1", "m2"):
        manager._handle_event(
            {
                "tag": f"salt/job/{JID}/ret/{minion_id}",
                "data": {"return": True, "retcode": 0},
            }
        )
    assert _published(manager) == [["m3"], ["m4"]]


@pytest.mark.parametrize("adopt", ADOPTIONS)
def test_nobody_times_out_whose_return_is_cached(manager, opts, cached, adopt):
    """
    A batch that is found long after, as after a restart of the master, knows
    who has answered before it looks who is late
    """
    del cached["m2"]
    _write_state(opts, active={"m1": 1000.0, "m2": 1000.0})
    adopt(manager, opts, 5000.0)
    state = salt.utils.batch_state.read_batch_state(JID, opts)
    assert list(state["done"]) == ["m1"]
    assert state["failed"] == {"m2": "timeout"}
    assert sum(_published(manager), []) == ["m3", "m4"]


def test_an_event_before_the_first_tick(manager, opts):
    """
    The first thing that a restarted manager hears of may be a late return
    """
    _write_state(opts, active={"m1": 1000.0, "m2": 1000.0})
    manager.active_batches.add(JID)
    manager._handle_event(
        {
            "tag": f"salt/job/{JID}/ret/m2",
            "data": {"return": True, "retcode": 0},
        }
    )
    state = salt.utils.batch_state.read_batch_state(JID, opts)
    assert (sorted(state["done"]), state["failed"]) == (["m1", "m2"], {})


def test_a_minion_is_looked_up_once_more_before_it_times_out(manager, opts, cached):
    """
    An event that was missed for whatever reason costs the wait, not the minion
    """
    late = dict(cached)
    cached.clear()
    _write_state(opts, active={"m1": 1000.0, "m2": 1000.0}, timeout=5)
    for now in (1000.0, 1002.0, 1014.0):
        manager.active_batches.add(JID)
        manager._tick(now)
    cached.update(late)
    manager._tick(1015.0)
    state = salt.utils.batch_state.read_batch_state(JID, opts)
    assert (sorted(state["done"]), state["failed"]) == (["m1", "m2"], {})
    assert manager.local.returners["local_cache.get_jid"].call_count == 3


def test_an_external_job_cache_is_asked(manager, opts, cached):
    """
    With one, the master's own cache has no returns
    """
    opts["ext_job_cache"] = "redis"
    manager.local.returners = {"redis.get_jid": MagicMock(return_value=cached)}
    _write_state(opts)
    _adopt_by_event(manager, opts)
    assert _published(manager) == [["m3", "m4"]]


def test_a_return_on_its_way_into_the_cache(manager, opts, cached):
    """
    An event is fired before the return is cached: one more look finds it, and
    then none is needed
    """
    late = dict(cached)
    cached.clear()
    _write_state(opts, created=1000.0, active={"m1": 1000.0, "m2": 1000.0})
    _adopt_by_event(manager, opts, 1000.0)
    cached.update(late)
    manager._tick(1001.0)
    assert _published(manager) == []
    manager._tick(1002.0)
    assert _published(manager) == [["m3", "m4"]]
    manager._tick(1010.0)
    assert manager.local.returners["local_cache.get_jid"].call_count == 2


def test_a_batch_that_is_over_is_forgotten(manager, opts):
    """
    Another one, or the same one to be recovered, is looked up anew
    """
    _write_state(opts, pending=[])
    _adopt_by_event(manager, opts)
    assert JID not in manager.active_batches
    manager._tick()
    assert not manager.looked_up


def test_an_early_failure_stops_the_batch(manager, opts, cached):
    """
    With failhard no further part goes out
    """
    cached["m1"]["retcode"] = 2
    _write_state(opts, failhard=True)
    _adopt_by_event(manager, opts)
    assert _published(manager) == []
    state = salt.utils.batch_state.read_batch_state(JID, opts)
    assert state["halted_reason"] == "failhard"
    assert JID not in manager.active_batches


@pytest.mark.parametrize("adopt", ADOPTIONS)
@pytest.mark.parametrize(
    "returners",
    [
        {},
        {"local_cache.get_jid": lambda jid: None},
        {"local_cache.get_jid": lambda jid: 7},
    ],
)
def test_without_a_job_cache_the_batch_goes_on(manager, opts, adopt, returners):
    """
    A returner that is not there, or answers nonsense, costs the wait for
    timeouts, and no other batch anything
    """
    manager.local.returners = returners
    _write_state(opts)
    adopt(manager, opts)
    assert JID in manager.active_batches
    assert _published(manager) == []


def test_batches_of_the_cli_are_left_to_it(manager, opts):
    """
    The manager does not drive them, also those that it finds when it starts
    """
    _write_state(opts, driver="cli")
    _adopt_by_index(manager, opts)
    manager.active_batches.add(JID)
    manager._tick()
    manager.local.returners["local_cache.get_jid"].assert_not_called()
