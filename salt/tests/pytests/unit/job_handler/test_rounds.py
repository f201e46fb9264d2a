import pytest

import salt.job_criteria
import salt.job_criteria.capacity
import salt.job_handler.manager
import salt.job_handler.rounds

RUNNING = "saltutil.running"
FIND_JOB = "saltutil.find_job"


class Setup:
    """
    The maintenance with charges to check, and minions to ask.
    """

    def __init__(self):
        self.criteria = salt.job_criteria.Criteria({})
        self.ledger = self.criteria.ledger
        self.rounds = salt.job_handler.rounds.Rounds(self.criteria, 60, 15)
        self.now = 0
        self.number = 0

    def tick(self, now):
        """
        Return the questions as ``(jid of the question, fun, arg, minions)``.
        """
        self.now = now
        ret = []
        for ask in self.rounds.tick(now):
            self.number += 1
            jid = f"q{self.number}"
            self.rounds.asked(jid, ask, now)
            ret.append((jid, ask.fun, ask.arg, ask.minions))
        return ret

    def answer(self, jid, minion, answer):
        self.rounds.answered(jid, minion, answer, self.now)


@pytest.fixture
def setup():
    return Setup()


def test_young_charges_are_not_checked(setup):
    setup.ledger.charge("j", ["a"], 1, 0)
    assert setup.tick(59) == []
    assert setup.tick(61) == [("q1", RUNNING, [], ["a"])]


def test_lost_return(setup):
    """
    A minion that neither runs the job nor has it in its queue gets its points back.
    """
    setup.ledger.charge("j", ["a"], 1, 0)
    setup.tick(61)
    setup.answer("q1", "a", [])
    assert setup.ledger.used == 1
    assert setup.tick(62) == [("q2", FIND_JOB, ["j"], ["a"])]
    setup.answer("q2", "a", {})
    assert setup.ledger.used == 0
    assert (setup.tick(63), len(setup.rounds)) == ([], 0)


def test_job_that_runs_keeps_its_charge(setup):
    setup.ledger.charge("j", ["a"], 1, 0)
    setup.tick(61)
    setup.answer("q1", "a", [{"jid": "j", "fun": "test.sleep"}])
    assert setup.ledger.used == 1
    assert setup.tick(120) == []
    assert setup.tick(122) == [("q2", RUNNING, [], ["a"])]


def test_job_in_the_minions_own_queue_keeps_its_charge(setup):
    """
    ``saltutil.running`` does not show it, ``saltutil.find_job`` does.
    """
    setup.ledger.charge("runs", ["a"], 1, 0)
    setup.ledger.charge("waits", ["a"], 1, 0)
    setup.tick(61)
    setup.answer("q1", "a", [{"jid": "runs"}])
    assert setup.tick(62) == [("q2", FIND_JOB, ["waits"], ["a"])]
    setup.answer("q2", "a", {"jid": "waits", "fun": "state.apply"})
    assert setup.ledger.used == 2
    assert len(setup.rounds) == 0


def test_dead_minion_is_released_after_two_rounds(setup):
    setup.ledger.charge("j", ["a", "b"], 1, 0)
    setup.tick(61)
    setup.answer("q1", "b", [{"jid": "j"}])
    assert setup.tick(75) == []
    assert setup.tick(76) == [("q2", RUNNING, [], ["a"])]
    assert setup.ledger.used == 2
    setup.tick(91)
    assert setup.ledger.minions() == {"b": 1}
    assert setup.criteria.silent == {"a": 91}


@pytest.mark.parametrize("syndics", (False, True))
def test_the_key_of_a_syndic_is_charged_for_nothing(setup, syndics):
    """
    A syndic answers nothing, and would hold a point of each job to everybody.
    """
    setup.rounds.criteria = salt.job_criteria.capacity.criteria({"max_master_jobs": 1})
    ledger = setup.rounds.criteria.ledger
    setup.rounds.syndics = syndics
    ledger.charge("j", ["syndic"], 1, 0)
    for now in range(61, 120):
        setup.tick(now)
    assert setup.rounds.criteria.silent
    assert ledger.used == (0 if syndics else 1)


def test_silent_minions_are_asked_again(setup):
    """
    A minion that comes back without having been started anew would never be heard of
    otherwise, as it gets no jobs.
    """
    setup.criteria.on_silent("a", 100)
    setup.criteria.on_silent("b", 130)
    assert setup.tick(159) == []
    assert setup.tick(160) == [("q1", RUNNING, [], ["a"])]
    assert setup.tick(161) == []
    setup.answer("q1", "a", [])
    assert setup.criteria.silent == {"b": 130}
    assert setup.tick(190) == [("q2", RUNNING, [], ["b"])]
    assert setup.tick(249) == []
    assert setup.tick(250) == [("q3", RUNNING, [], ["b"])]


def test_minion_that_dies_between_the_questions(setup):
    setup.ledger.charge("j", ["a"], 1, 0)
    setup.tick(61)
    setup.answer("q1", "a", [])
    setup.tick(62)
    assert setup.tick(77)[0][1] == FIND_JOB
    setup.tick(92)
    assert setup.ledger.used == 0


def test_few_silent_minions_are_asked_at_a_time(setup):
    """
    A fleet that is back answers all at once.
    """
    for number in range(1200):
        setup.criteria.on_silent(f"m{number:04}", 0)
    assert len(setup.tick(60)[0][3]) == 500
    assert setup.tick(61) == []
    assert len(setup.tick(65)[0][3]) == 500
    assert len(setup.tick(70)[0][3]) == 200
    assert setup.tick(75) == []
    assert len(setup.tick(120)[0][3]) == 500


def test_return_during_the_check(setup):
    setup.ledger.charge("j", ["a"], 1, 0)
    setup.tick(61)
    setup.criteria.on_return("j", "a", 62)
    assert setup.tick(90) == []
    assert len(setup.rounds) == 0


def test_start_ends_the_check(setup):
    setup.ledger.charge("j", ["a"], 1, 0)
    setup.tick(61)
    setup.criteria.on_minion_start("a", 62)
    setup.rounds.forget("a")
    assert len(setup.rounds) == 0


def test_doubt_checks_everything(setup):
    setup.ledger.charge("old", ["a"], 1, 0)
    setup.rounds.doubt(10)
    setup.ledger.charge("new", ["b"], 1, 11)
    assert setup.tick(11) == [("q1", RUNNING, [], ["a"])]


def test_answers_that_make_no_sense(setup):
    """
    Whatever a minion says, only what it was charged can change.
    """
    setup.ledger.charge("j", ["a"], 1, 0)
    setup.tick(61)
    for answer in ("not a list", None, {"jid": "j"}):
        setup.answer("q1", "a", answer)
    setup.answer("q1", "never asked", [])
    setup.answer("q1", "a", ["nonsense", {"no": "jid"}])
    assert setup.ledger.used == 1
    assert setup.tick(62) == [("q2", FIND_JOB, ["j"], ["a"])]


def test_questions_are_forgotten(setup):
    setup.ledger.charge("j", ["a"], 1, 0)
    setup.tick(61)
    assert setup.rounds.is_question("q1")
    setup.tick(200)
    assert not setup.rounds.is_question("q1")
    assert not setup.rounds.is_question("j")


def test_few_at_a_time(setup):
    """
    The answers are a load themselves, so more are asked when some have answered or
    seem to be gone.
    """
    minions = [f"m{number:04}" for number in range(1200)]
    setup.ledger.charge("j", minions, 1, 0)
    ((jid, _, _, first),) = setup.tick(61)
    assert len(first) == 500
    assert setup.tick(62) == []
    for minion in first[:100]:
        setup.answer(jid, minion, [{"jid": "j"}])
    assert len(setup.tick(63)[0][3]) == 100
    assert len(setup.tick(66)[0][3]) == 400
    assert len(setup.tick(71)[0][3]) == 200
    assert setup.tick(72) == []


def test_both_questions_share_the_room(setup):
    minions = [f"m{number:04}" for number in range(1200)]
    setup.ledger.charge("j", minions, 1, 0)
    ((jid, _, _, first),) = setup.tick(61)
    for minion in first:
        setup.answer(jid, minion, [])
    ((_, fun, _, asked),) = setup.tick(62)
    assert (fun, asked) == (FIND_JOB, first)
    assert setup.tick(63) == []


def test_many_jobs_are_asked_for_in_turn(setup):
    for number in range(50):
        setup.ledger.charge(f"j{number:02}", [f"m{number:02}"], 1, 0)
    ((jid, _, _, minions),) = setup.tick(61)
    for minion in minions:
        setup.answer(jid, minion, [])
    asked = []
    for second in range(62, 66):
        questions = setup.tick(second)
        assert len(questions) <= 20
        asked += [arg[0] for _, _, arg, _ in questions]
    assert sorted(asked) == [f"j{number:02}" for number in range(50)]


@pytest.mark.parametrize("jobs", [20, 21, 60])
def test_many_jobs_of_many_minions_take_few_questions(setup, jobs):
    """
    Each job has lost a return of each minion. With 20 jobs that was 42 publications
    in 2 s, and with 21 jobs 19,519 in 465 s.
    """
    minions = [f"m{number:04}" for number in range(1000)]
    for number in range(jobs):
        setup.ledger.charge(f"j{number:02}", minions, 1, 0)
    publications, now = 0, 61
    while setup.ledger.used:
        questions = setup.tick(now)
        publications += len(questions)
        for jid, fun, _, asked in questions:
            for minion in asked:
                setup.answer(jid, minion, [] if fun == RUNNING else {})
        now += 1
        assert now < 200
    assert publications == 2 + 2 * jobs
    assert now - 61 <= 2 * (5 + jobs / 4)


def test_a_minion_is_asked_for_the_rest_when_it_has_answered(setup):
    for number in range(25):
        setup.ledger.charge(f"j{number:02}", ["a"], 1, 0)
    ((jid, _, _, _),) = setup.tick(61)
    setup.answer(jid, "a", [])
    first = setup.tick(62)
    assert len(first) == 20
    for jid, _, _, _ in first[1:]:
        setup.answer(jid, "a", {})
    # one answer is missing
    assert setup.tick(63) == []
    setup.answer(first[0][0], "a", {})
    assert sorted(arg[0] for _, _, arg, _ in setup.tick(64)) == sorted(
        {f"j{number:02}" for number in range(25)} - {arg[0] for _, _, arg, _ in first}
    )


def test_an_answer_that_is_lost_is_asked_for_again(setup):
    for number in range(2):
        setup.ledger.charge(f"j{number}", ["a"], 1, 0)
    ((jid, _, _, _),) = setup.tick(61)
    setup.answer(jid, "a", [])
    (first, second) = setup.tick(62)
    setup.answer(first[0], "a", {})
    assert setup.tick(76) == []
    ((_, fun, arg, _),) = setup.tick(77)
    assert (fun, arg) == (FIND_JOB, second[2])
    assert setup.ledger.used == 1


def test_charge_of_unknown_minions_ends_by_itself(setup):
    """
    Behind a syndic there is nobody to ask.
    """
    setup.ledger.charge("j", [salt.job_handler.manager.UNKNOWN], 1, 0)
    assert setup.tick(61) == []
    assert setup.ledger.used == 0
