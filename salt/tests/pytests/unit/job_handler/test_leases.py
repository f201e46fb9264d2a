"""
Leases begin, are renewed, and expire.
"""

import pytest

from salt.job_handler.leases import FIND_JOBS, Leases


def ask(leases, now, answers=None):
    """
    Let time come to this, and answer the questions as ``{minion: [job id, ...]}`` says
    what runs. Return what was asked, as ``(function, argument, minions)``.
    """
    asked = leases.tick(now)
    for number, question in enumerate(asked):
        jid = f"q{now}-{number}"
        leases.asked(jid, question, now)
        for minion in question.minions:
            if answers is None or minion not in answers:
                continue
            runs = answers[minion]
            answer = [{"jid": name} for name in runs]
            if question.fun == "saltutil.find_job":
                answer = {"pid": 1} if question.arg[0] in runs else {}
            leases.answered(jid, minion, answer, now)
    return [(each.fun, (each.arg or [None])[0], each.minions) for each in asked]


def test_a_lease_lasts_until_the_minion_returns():
    leases = Leases()
    leases.take("1", ["a", "b"], 2, 0)
    assert (leases.occupied, leases.slots) == (4, {"a": 2, "b": 2})
    assert leases.returned("1", "a", 1)
    assert not leases.returned("1", "a", 1)
    assert not leases.returned("1", "c", 1)
    assert (leases.occupied, leases.slots) == (2, {"b": 2})
    assert leases.ended == [("1", "a")]


def test_a_lease_that_is_taken_twice():
    leases = Leases()
    leases.take("1", ["a"], 1, 0)
    leases.take("1", ["a", "b"], 1, 5)
    assert leases.occupied == 2


def test_costs_that_are_fractions():
    leases = Leases()
    for number in range(10):
        leases.take(str(number), ["a"], 0.1, 0)
    for number in range(10):
        leases.end(str(number), "a")
    assert (leases.occupied, leases.slots) == (0, {})


def test_a_question_renews():
    leases = Leases(60, 15)
    leases.take("1", ["a"], 1, 0)
    assert ask(leases, 59) == []
    assert ask(leases, 60, {"a": ["1"]}) == [("saltutil.running", None, ["a"])]
    assert leases.renewed == 1
    assert ask(leases, 119) == []
    assert len(ask(leases, 120)) == 1


@pytest.mark.parametrize("heard", [True, False])
def test_a_lease_expires(heard):
    """
    After two questions. A minion from which something has come is not silent.
    """
    leases = Leases(60, 15)
    leases.take("1", ["a"], 1, 0)
    asked = []
    for now in range(60, 95):
        asked += ask(leases, now)
        if heard and now == 70:
            leases.heard("a")
    assert len(asked) == (1 if heard else 2)
    assert leases.occupied == 0
    assert list(leases.silent) == ([] if heard else ["a"])


def test_a_job_in_the_queue_of_the_minion():
    """
    ``saltutil.running`` does not name it, ``saltutil.find_job`` finds it.
    """
    leases = Leases(60, 15)
    leases.take("1", ["a"], 1, 0)
    question = leases.tick(60)[0]
    leases.asked("q", question, 60)
    leases.answered("q", "a", [], 60)
    assert ask(leases, 61, {"a": ["1"]}) == [("saltutil.find_job", "1", ["a"])]
    ask(leases, 100)
    assert leases.has("1", "a")


def test_no_lease_expires_before_its_job_was_asked_for():
    """
    However many jobs there are to ask for by name.
    """
    leases = Leases(60, 15)
    count = 70 * FIND_JOBS
    for number in range(count):
        leases.take(str(number), ["a"], 1, 0)
    asked = set()
    for now in range(60, 200):
        held = set(leases.jobs)
        for question in leases.tick(now):
            jid = f"q{now}-{question.arg}"
            leases.asked(jid, question, now)
            asked.update(question.arg)
            answer = [] if question.fun == "saltutil.running" else {}
            leases.answered(jid, "a", answer, now)
        assert held - set(leases.jobs) <= asked
    assert leases.occupied == 0


def test_the_rate_of_questions():
    leases = Leases(60, 15, rate=10)
    leases.take("1", [f"m{number}" for number in range(1000)], 1, 0)
    leases.tick(59)
    counts = [
        sum(len(each.minions) for each in leases.tick(60 + at)) for at in range(5)
    ]
    assert counts[0] <= 60
    assert all(count <= 10 for count in counts[1:])


def test_many_minions_that_renew():
    """
    Each is found without a look at the others.
    """
    leases = Leases(60, 15, rate=10**6)
    minions = [f"m{number}" for number in range(3000)]
    leases.take("1", minions, 1, 0)
    ask(leases, 60, dict.fromkeys(minions, ["1"]))

    class Counted(dict):
        walked = 0

        def items(self):
            Counted.walked += 1
            return super().items()

    leases.jobs["1"] = Counted(leases.jobs["1"])
    assert len(ask(leases, 121)[0][2]) == 3000
    assert Counted.walked < 10


def test_process_that_stands_still_again_and_again():
    """
    The time in between counts.
    """
    leases = Leases(long_running=60, interval=15)
    leases.take("1", ["a"], 1, 0)
    now = 60
    for _ in range(40):
        ask(leases, now)
        leases.stood_still(10)
        now += 11
    assert list(leases.silent) == ["a"]
    assert not leases.jobs


def test_time_in_which_the_process_stood_still_does_not_count():
    leases = Leases(60, 15)
    leases.take("1", ["a", "b"], 1, 0)
    assert ask(leases, 60, {"b": []}) == [("saltutil.running", None, ["a", "b"])]
    leases.stood_still(100)
    # b's job is asked for by name, and neither was asked again
    assert ask(leases, 161) == [("saltutil.find_job", "1", ["b"])]
    assert leases.has("1", "a") and leases.has("1", "b") and not leases.silent
    assert ask(leases, 175) == [("saltutil.running", None, ["a"])]
    ask(leases, 191)
    assert list(leases.silent) == ["a"]
    assert not leases.jobs


def test_a_question_about_a_job_that_could_not_be_published():
    """
    The minion was not asked, so its lease does not expire.
    """
    leases = Leases(60, 15)
    leases.take("1", ["a"], 1, 0)
    leases.asked("q1", leases.tick(60)[0], 60)
    leases.answered("q1", "a", [], 61)
    by_name = leases.tick(62)[0]
    assert (by_name.fun, by_name.arg) == ("saltutil.find_job", ["1"])
    leases.asked("q2", by_name, 62)
    leases.not_asked("q2", by_name)
    assert [each.fun for each in leases.tick(63)] == ["saltutil.find_job"]
    assert leases.has("1", "a")
