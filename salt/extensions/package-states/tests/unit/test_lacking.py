"""
Who is asked for what repositories have
"""

from unittest.mock import Mock, patch  # pylint: disable=blacklisted-module

import saltext.package_states.engines.pkgset as engine
import saltext.package_states.master.lists as lists
import saltext.package_states.store.offers as offers
from saltext.package_states.errors import InvalidInput
from saltext.package_states.store.offers import FUNCTION, TRIES, Lacking


def test_one_of_ten_thousand_is_asked():
    lacking = Lacking()
    for number in range(10000):
        lacking.add(f"m{number}", ["x", "y"])
    assert lacking.take(0) == ("m0", ["x", "y"])
    assert lacking.take(1) is None
    lacking.answered(["x", "y"])
    assert lacking.take(2) is None


def test_what_one_minion_did_not_tell_another_one_does():
    lacking = Lacking()
    lacking.add("a", ["x", "y"])
    lacking.add("b", ["y", "z"])
    assert lacking.take(0) == ("a", ["x", "y"])
    lacking.answered(["x"])
    assert lacking.take(0) == ("b", ["y", "z"])


def test_who_does_not_answer_holds_nobody_up():
    lacking = Lacking(timeout=60)
    lacking.add("a", ["x"])
    lacking.add("b", ["x"])
    assert lacking.take(0) == ("a", ["x"])
    assert lacking.take(59) is None
    assert lacking.take(60) == ("b", ["x"])


def test_what_nobody_has_any_more_is_given_up_and_asked_for_when_told_anew():
    lacking = Lacking()
    for number in range(100):
        lacking.add(f"m{number}", ["old"])
    asked = 0
    while lacking.take(0):
        asked += 1
        lacking.answered([])
    assert asked == TRIES
    lacking.add("a", ["old"])
    assert lacking.take(0) == ("a", ["old"])


def test_a_minion_that_tells_again_lacks_what_it_told_last():
    lacking = Lacking()
    lacking.add("a", ["x"])
    lacking.add("a", [])
    assert lacking.take(0) is None


def test_the_engine_asks_one_minion_after_the_packages(master_opts, tmp_path):
    """
    What it answers is stored; what is no answer is asked of another one
    """
    opts = {**master_opts, "cachedir": str(tmp_path), "package_states": {}}
    client, stored = Mock(), []
    client.run_job.side_effect = lambda minions, *_, **__: {
        "jid": str(client.run_job.call_count),
        "minions": minions,
    }
    cache = {}
    client.opts = {"master_job_cache": "local_cache"}
    client.returners = {"local_cache.get_jid": lambda jid: cache.get(jid, {})}
    client.gather_minions.return_value = ["a", "b", "c"]
    waiting = engine.Waiting(5, 200, 60, 3)
    now = [0.0]
    refresher = engine.Refresher(opts, waiting, client, clock=lambda: now[0])

    def store_offers(_, minion, answer):
        if answer is None:
            raise InvalidInput("no")
        stored.append((minion, answer))
        return ["x"]

    with patch.object(lists, "store", lambda *_: ["x"]), patch.object(
        offers, "store", store_offers
    ):
        for minion in ("a", "b", "c"):
            refresher.event(f"salt/beacon/{minion}/pkgset/changed")
        for now[0] in (0.0, 5.0):
            refresher.tick()
        cache["1"] = {
            one: {"return": {"packages": {}}, "retcode": 0} for one in ("a", "b", "c")
        }
        now[0] += 1
        refresher.tick()
        assert client.run_job.call_args.args == (["a"], FUNCTION)
        assert client.run_job.call_args.kwargs["arg"] == ["x"]
        # somebody else's answer is none
        cache["2"] = {"c": {"return": ["liar"]}}
        now[0] += 1
        refresher.tick()
        assert client.run_job.call_count == 2
        cache["2"]["a"] = {"return": None}
        now[0] += 10
        refresher.tick()
        assert client.run_job.call_args.args == (["b"], FUNCTION)
        cache["3"] = {"b": {"return": ["told"]}}
        now[0] += 10
        refresher.tick()
    assert stored == [("b", ["told"])]
    assert client.run_job.call_count == 3
