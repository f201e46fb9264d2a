"""
Fields that ask minions: every value is right, and what was not asked says so.
"""

import itertools
from unittest.mock import Mock  # pylint: disable=blacklisted-module

import pytest
import saltext.query
from fleet import answering
from saltext.query.errors import QueryError, QueryStoreError

from salt.exceptions import SaltClientError

INFO = {"status.meminfo": {"MemAvailable": {"value": "2097152"}}}


def rows(master, fields, **more):
    """
    Return the cells of each node, and what is said of the asking.
    """
    ret = saltext.query.items(master.opts, "node", ["name", *fields], **more)
    return {row[0][1]: row[1:] for row in ret["data"]}, ret.get("live")


def names(count):
    return [f"web{number}" for number in range(count)]


def test_one_busy_minion(master):
    """
    It is left out of what is not exempt; whether it lives is known all the same.
    """
    for name in names(3):
        master.minion(name)
    with answering(
        dict.fromkeys(names(3), INFO), left_out={"web1": "the minion is at 10 of 10"}
    ) as fleet:
        found, live = rows(master, ["alive", "mfree"])
    assert found == {
        "web0": [(0, True), (0, 2048)],
        "web1": [(0, True), (2, None)],
        "web2": [(0, True), (0, 2048)],
    }
    assert live == {
        "fields": ["alive", "mfree"],
        "answered": 2,
        "offline": 0,
        "not_asked": 1,
        "cached": 0,
        "age": 0,
        "reasons": {"it was left out: the minion is at 10 of 10": 1},
    }
    assert fleet.asked[1:] == [(["web1"], ["test.ping"])]


def test_the_handler_is_paused(master):
    """
    21 living of 2,021 keys: those that live are alive, the others are not, and nobody
    has a value of memory that was not asked.
    """
    everybody = names(2021)
    for name in everybody:
        master.key(name)
    living = everybody[:21]
    with answering(dict.fromkeys(living, INFO), waiting=everybody) as fleet:
        found, live = rows(master, ["alive", "mfree"])
        assert fleet.cancelled == ["1"]
    for name in everybody:
        if name in living:
            assert found[name] == [(0, True), (2, None)]
        else:
            assert found[name] == [(0, False), (4, None)]
    assert (live["answered"], live["offline"], live["not_asked"]) == (0, 2000, 21)
    assert live["reasons"] == {
        "the job waits in the master's queue: the queue is paused": 21
    }


@pytest.mark.parametrize("state", ("cancelled", "discarded"))
def test_a_job_that_somebody_takes_out_of_the_queue(master, state):
    """
    Who has not got it was not asked, and the note says why.
    """
    for name in names(2):
        master.key(name)
    with answering(dict.fromkeys(names(2), INFO), waiting=["web1"]) as fleet:
        fleet.show = lambda _jid: {"waiting": [], "left_out": {}, "state": state}
        found, live = rows(master, ["mfree"])
    assert found == {"web0": [(0, 2048)], "web1": [(2, None)]}
    assert live["reasons"] == {f"the job was {state}": 1}
    assert fleet.cancelled == []


def test_nothing_is_exempt(master):
    """
    Then a minion that was not asked is neither alive nor dead.
    """
    for name in names(2):
        master.key(name)
    with answering({"web0": {}, "web1": {}}, waiting=["web1"], exempt=()):
        found, live = rows(master, ["alive"])
    assert found == {"web0": [(0, True)], "web1": [(2, None)]}
    assert live["not_asked"] == 1


def test_many_reasons(master):
    """
    They may have numbers in them: an answer has to fit into an event.
    """
    for name in names(40):
        master.key(name)
    silent = {f"web{number}": f"silent for {number} s" for number in range(40)}
    with answering({}, left_out=silent, exempt=()):
        _, live = rows(master, ["mfree"])
    assert (len(live["reasons"]), live["not_asked"]) == (10, 40)


def test_a_slow_minion_is_not_offline(master):
    for name in names(3):
        master.key(name)
    with answering({"web0": INFO, "web1": INFO}, slow=["web1"]):
        found, live = rows(master, ["alive", "mfree"])
    assert found == {
        "web0": [(0, True), (0, 2048)],
        "web1": [(0, True), (2, None)],
        "web2": [(0, False), (4, None)],
    }
    assert live["reasons"] == {"it lives, and has not answered in time": 1}


def test_most_are_slow(master):
    """
    Then not all of them are asked again.
    """
    for name in names(100):
        master.key(name)
    with answering(
        dict.fromkeys(names(100), INFO), seconds=dict.fromkeys(names(90), 4)
    ) as fleet:
        found, _ = rows(master, ["alive", "mfree"])
    assert set(map(tuple, found.values())) == {((0, True), (0, 2048))}
    assert len(fleet.asked) == 1


def test_turns_that_come_in_what_is_left(master):
    """
    At that pace all have theirs before time is up: nobody is given up.
    """
    for name in names(100):
        master.key(name)
    turns = {name: int(name[3:]) / 3.6 for name in names(100)[2:]}
    with answering(dict.fromkeys(names(100), INFO), turns=turns) as fleet:
        _, live = rows(master, ["alive", "mfree"])
    assert live["answered"] == 100
    assert fleet.cancelled == []
    assert len(fleet.asked) == 1


def test_many_that_are_served_slowly_are_not_asked_again(master):
    """
    That they are late may be the master's fault, and more jobs would make it worse.
    """
    for name in names(1000):
        master.key(name)
    slow = {name: int(name[3:]) / 50 for name in names(1000)}
    with answering(dict.fromkeys(names(1000), INFO), seconds=slow) as fleet:
        _, live = rows(master, ["alive", "mfree"])
    assert live["answered"] == 1000
    assert len(fleet.executed) - 1000 <= 50


def test_taking_a_job_back_takes_long(master):
    """
    That nothing is heard meanwhile makes no minion silent.
    """
    for name in names(10):
        master.key(name)
    turns = {f"web{number}": 29 for number in range(1, 9)}
    with answering(
        dict.fromkeys(names(9), INFO),
        turns={**turns, "web9": 99},
        seconds=dict.fromkeys(turns, 3),
        exempt=(),
    ) as fleet:

        def slow(jid):
            fleet.cancelled.append(jid)
            fleet.clock.now += 10

        fleet.cancel = slow
        found, _ = rows(master, ["alive", "mfree"])
    # the ping does not wait in the queue
    assert fleet.cancelled == ["1", "2"]
    assert found["web0"] == [(0, True), (0, 2048)]
    assert all(found[name] == [(2, None), (2, None)] for name in names(10)[1:])


def test_late_minions_cannot_be_asked_again(master):
    """
    The answers of the others count, and what waits is taken out of the queue.
    """
    for name in names(10):
        master.key(name)
    with answering(dict.fromkeys(names(8), INFO), waiting=["web9"]) as fleet:
        run_job = fleet.run_job

        def once(*args, **kwargs):
            if fleet.asked:
                raise SaltClientError("too slow")
            return run_job(*args, **kwargs)

        fleet.run_job = once
        found, live = rows(master, ["alive", "mfree"])
    assert fleet.cancelled == ["1"]
    assert live["answered"] == 8
    assert found["web9"] == [(2, None), (2, None)]


def test_publishing_takes_long(master):
    """
    Those that have answered meanwhile are not asked again.
    """
    for name in names(100):
        master.key(name)
    turns = {name: 1 + int(name[3:]) // 10 for name in names(100)[10:]}
    living = names(100)[1:]
    with answering(dict.fromkeys(living, INFO), turns=turns) as fleet:
        run_job = fleet.run_job

        def slow(minions, fun, *args, **kwargs):
            if fleet.asked:
                fleet.clock.now += 6
            return run_job(minions, fun, *args, **kwargs)

        fleet.run_job = slow
        _, live = rows(master, ["alive", "mfree"])
    assert fleet.asked[1:] == [(["web0"], ["test.ping"])]
    assert (live["answered"], live["offline"]) == (99, 1)


def test_ctrl_c(master):
    master.key("web0")
    with answering({"web0": INFO}) as fleet:
        fleet.event = Mock()
        fleet.event.get_event.return_value = {"tag": "salt/event/exit", "data": {}}
        with pytest.raises(KeyboardInterrupt):
            rows(master, ["mfree"])


@pytest.mark.parametrize(
    "fields,function,answer,cells",
    (
        (["load"], "status.loadavg", {"1-min": 6.6708984375, "5-min": 1}, [(0, 6.67)]),
        (["load"], "status.loadavg", {"1-min": float("nan")}, [(3, None)]),
        (["dfree"], "disk.usage", {"/": {"available": "2048"}}, [(0, 2)]),
        (["dfree"], "disk.usage", {"/boot": {"available": "2048"}}, [(3, None)]),
        (["uptime"], "status.uptime", {"seconds": 12}, [(0, 12)]),
        (["uptime"], "status.uptime", "up 12 days", [(3, None)]),
        (["mfree"], "status.meminfo", {"MemFree": {"value": "2048"}}, [(0, 2)]),
        (["mfree"], "status.meminfo", {"MemAvailable": {"value": 9e999}}, [(3, None)]),
        (["job_cnt"], "saltutil.running", [{"jid": "1"}, {"jid": "9"}, 5], [(0, 1)]),
    ),
)
def test_values(master, fields, function, answer, cells):
    master.key("web0")
    with answering({"web0": {function: answer}}):
        assert rows(master, fields)[0] == {"web0": cells}


def test_executions(master):
    """
    However many fields, a minion that answers executes one job.
    """
    for name in names(50):
        master.key(name)
    with answering(dict.fromkeys(names(40), INFO)) as fleet:
        rows(master, ["alive", "mfree", "load", "dfree", "uptime", "job_cnt"])
    assert len(fleet.executed) == 40


def test_pages_ask_once(master):
    """
    What was asked for one page, or by another call, is not asked again for some seconds.
    """
    for name in names(4):
        master.key(name)
    with answering({"web0": INFO, "web1": INFO}) as fleet:
        first, _ = rows(master, ["alive", "mfree"])
        assert len(fleet.asked) == 2
        for offset in range(0, 4, 2):
            found, live = rows(master, ["mfree", "alive"], limit=2, offset=offset)
            assert found == {name: first[name][::-1] for name in found}
            assert (live["cached"], live["not_asked"]) == (2, 0)
            assert 0 <= live["age"] <= 10
        assert len(fleet.asked) == 2
        # what nobody has asked yet is asked
        rows(master, ["load"])
        assert len(fleet.asked) == 4


def test_answers_that_are_not_used_again(master):
    master.key("web0")
    master.opts["query"] = {"live_cache": 0}
    with answering({"web0": {}}) as fleet:
        for _ in range(2):
            assert rows(master, ["alive"])[0] == {"web0": [(0, True)]}
        assert len(fleet.asked) == 2


def test_what_was_not_asked_is_not_kept(master):
    master.key("web0")
    with answering({"web0": INFO}, left_out={"web0": "busy"}):
        assert rows(master, ["mfree"])[0] == {"web0": [(2, None)]}
    with answering({"web0": INFO}):
        assert rows(master, ["mfree"])[0] == {"web0": [(0, 2048)]}


@pytest.mark.parametrize("seconds", (0, 10))
def test_a_filter_and_a_column_that_ask_minions(master, seconds):
    """
    They are one question, and the note counts all whom it reached.
    """
    for name in names(5):
        master.key(name)
    with answering(dict.fromkeys(names(3), INFO)) as fleet:
        found, live = rows(
            master,
            ["alive", "mfree"],
            filter_="alive == false",
            live={"live_cache": seconds},
        )
    missing = [(0, False), (4, None)]
    assert found == {"web3": missing, "web4": missing}
    assert (live["answered"], live["offline"], live["cached"]) == (3, 2, 0)
    assert len(fleet.asked) == 2


@pytest.mark.parametrize("name", ("live_timeout", "live_cache"))
@pytest.mark.parametrize("value", (-1, True, "9", float("inf"), float("nan")))
def test_wrong_settings(master, name, value):
    master.key("web0")
    with pytest.raises(QueryError, match=name):
        rows(master, ["alive"], live={name: value})


def test_a_master_that_is_down(master):
    master.key("web0")
    with answering({}) as fleet:
        fleet.error = SaltClientError("nobody is there")
        with pytest.raises(QueryStoreError, match="whether salt-master runs"):
            rows(master, ["alive"])


def test_a_bus_that_is_closed_makes_nobody_silent(master):
    """
    The master is stopped while minions are asked: whether they live is not known.
    """
    for name in names(2):
        master.key(name)
    with answering({}, waiting=["web0"], early=float("inf")) as fleet:
        with pytest.raises(QueryStoreError, match="event bus was closed"):
            rows(master, ["mfree"])
    assert fleet.cancelled == ["1"]


def test_a_bus_that_is_closed_keeps_what_has_come(master):
    for name in names(50):
        master.key(name)
    with answering(dict.fromkeys(names(49), INFO)) as fleet:
        get_event = fleet.get_event
        fleet.get_event = lambda **kwargs: get_event(**kwargs) if fleet.events else None
        found, live = rows(master, ["alive"])
    assert found == {
        **dict.fromkeys(names(49), [(0, True)]),
        "web49": [(2, None)],
    }
    assert (live["answered"], live["offline"], live["not_asked"]) == (49, 0, 1)


def test_a_bus_that_has_nothing_again_and_again_is_not_closed(master):
    """
    Three times in a row it would be.
    """
    for name in names(10):
        master.key(name)
    with answering(dict.fromkeys(names(9), INFO)) as fleet:
        get_event, turns = fleet.get_event, itertools.count()
        fleet.get_event = lambda **kwargs: (
            None if next(turns) % 3 else get_event(**kwargs)
        )
        found, _ = rows(master, ["mfree"])
    assert found == {**dict.fromkeys(names(9), [(0, 2048)]), "web9": [(4, None)]}


def test_a_master_that_is_gone_makes_nobody_silent(master):
    """
    Some got the job a moment before it went: those had no time.
    """
    for name in names(10):
        master.key(name)
    turns = dict.fromkeys(names(10)[2:], 4.9)
    with answering(
        dict.fromkeys(names(10)[1:], INFO),
        turns=turns,
        seconds=dict.fromkeys(names(10), 2),
    ) as fleet:
        run_job = fleet.run_job

        def lose(*args, **kwargs):
            if not fleet.asked:
                return run_job(*args, **kwargs)
            fleet.clock.now += 70
            fleet.events.clear()
            raise OSError("gone")

        fleet.run_job = lose
        found, _ = rows(master, ["alive", "mfree"])
    assert found["web0"] == [(2, None), (2, None)]
    assert found["web1"] == [(0, True), (0, 2048)]
    assert all(cells[0] != (0, False) for cells in found.values())


def test_a_master_that_is_gone_where_nobody_has_answered(master):
    for name in names(2):
        master.key(name)
    with answering({}) as fleet:
        run_job = fleet.run_job

        def lose(*args, **kwargs):
            if not fleet.asked:
                return run_job(*args, **kwargs)
            raise OSError("gone")

        fleet.run_job = lose
        with pytest.raises(QueryStoreError, match="gone"):
            rows(master, ["alive"])


def test_who_is_slow_has_as_long_as_without_being_asked_again(master):
    for name in names(50):
        master.key(name)
    with answering(dict.fromkeys(names(50), INFO)) as fleet:
        get_event = fleet.get_event

        def late(**kwargs):
            # the answers of one come after four seconds, to whatever it was asked
            for event in [one for one in fleet.events if "ret/web0" in one[1]["tag"]]:
                if event[0] < 1004:
                    fleet.events.remove(event)
                    fleet.events.append((1004, event[1]))
            return get_event(**kwargs)

        fleet.get_event = late
        found, _ = rows(master, ["alive"])
    assert found == dict.fromkeys(names(50), [(0, True)])


def test_a_bus_that_has_nothing_for_a_moment(master):
    for name in names(2):
        master.key(name)
    with answering(dict.fromkeys(names(2), INFO), early=2):
        found, _ = rows(master, ["mfree"])
    assert found == dict.fromkeys(names(2), [(0, 2048)])


def test_sort_and_filter_ask_once(master):
    for name in names(3):
        master.key(name)
    answers = {
        name: {"status.meminfo": {"MemFree": {"value": 1024 * (number + 1)}}}
        for number, name in enumerate(names(3))
    }
    with answering(answers) as fleet:
        ret = saltext.query.items(
            master.opts, "node", ["name", "mfree"], ["&", ["?", "alive"]], sort="-mfree"
        )
    assert [row[0][1] for row in ret["data"]] == ["web2", "web1", "web0"]
    assert len(fleet.asked) == 1
