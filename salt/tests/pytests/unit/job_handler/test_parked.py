import salt.job_handler.parked
from salt.job_handler.job import Job
from salt.job_handler.parked import Parked


def _job(seq, count=1):
    return Job(seq, str(seq), "f", count)


def _taken(parked, now=0):
    return [job.seq for job in parked.take(now)]


def test_only_those_that_it_concerns():
    parked = Parked()
    parked.add(_job(1), ["a", "b"])
    parked.add(_job(2), ["c"])
    parked.add(_job(3))
    parked.hear({"x"})
    # who waits for anything is looked at whatever happens
    assert _taken(parked) == [3]
    parked.hear({"b", "y"})
    assert _taken(parked) == [1]
    assert len(parked) == 1
    parked.hear({None})
    assert _taken(parked) == [2]
    assert len(parked) == 0


def test_nothing_has_happened():
    parked = Parked()
    parked.add(_job(1), ["a"])
    parked.hear(set())
    assert _taken(parked) == []


def test_many_take_their_time():
    """
    The others are looked at later, in their order.
    """
    parked = Parked()
    wide = salt.job_handler.parked.LOOKS // 10
    for seq in range(50):
        parked.add(_job(seq, wide), [f"m{seq}", "a"])
    parked.hear({"a"})
    found = [_taken(parked, now / 2) for now in range(20)]
    assert all(len(seqs) <= 6 for seqs in found)
    assert sum(found, []) == list(range(50))


def test_who_has_left_is_forgotten():
    parked = Parked()
    parked.add(_job(1), ["a"])
    parked.add(_job(2), ["a"])
    parked.pop(1)
    parked.hear({"a"})
    parked.pop(2)
    assert _taken(parked) == []
    # pylint: disable=protected-access
    assert parked._numbers == {}


def test_thousands_of_minions_take_little():
    parked = Parked()
    minions = [f"m{number}" for number in range(10_000)]
    job = _job(1, len(minions))
    parked.add(job, minions)
    # pylint: disable=protected-access
    assert parked._jobs[1][1].bit_length() == 10_000
    parked.hear({"m9999"})
    assert parked.take(0) == [job]
