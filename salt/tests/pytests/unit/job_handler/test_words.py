import pytest

from salt.job_handler import words

CALM = {
    "criteria": "capacity",
    "settings": {"max_queue_bytes": 1000},
    "running_since": 0,
    "queued": 0,
    "queued_bytes": 0,
    "max_queue_size": 10000,
    "oldest": 0,
    "paused": False,
    "paused_until": None,
    "held": False,
    "failing": False,
    "dispatched": 1,
    "waves": 2,
    "excluded": 3,
    "discarded": 4,
    "cancelled": 5,
    "rejected": 6,
    "capacity": {"used": 0, "limit": 2000, "full_minions": 0},
    "silent_minions": 0,
    "checking_minions": 0,
}


def test_nothing_to_do():
    assert words.status(CALM, 100) == {
        "to do": ["Nothing: the queue is at work."],
        "queue": "empty, with room for 10,000",
        "capacity": "0 of 2000 points used",
        "minions": "0 silent, 0 asked what they run",
        "so far": (
            "1 job published in 2 waves, 3 minions left out; 4 jobs given up, 5"
            " cancelled, 6 refused"
        ),
        "criteria": "capacity",
        "running since": "1970-01-01 00:00:00 UTC",
    }


@pytest.mark.parametrize(
    "change,word",
    [
        ({"paused": True, "paused_until": 60}, "until 1970-01-01 00:01:00 UTC"),
        ({"paused": True}, "job_handler.resume"),
        ({"failing": True}, "master's log"),
        ({"held": True}, "Wait a moment"),
        ({"queued": 9500}, "raise max_queue_size"),
        ({"queued_bytes": 950}, "raise max_queue_bytes"),
        ({"silent_minions": 2}, "see whether they run"),
    ],
)
def test_something_to_do(change, word):
    (advice,) = words.status({**CALM, **change}, 100)["to do"]
    assert word in advice


def test_no_limit():
    found = words.status({**CALM, "capacity": {"used": 7, "limit": None}}, 100)
    assert found["capacity"] == "7 points used"
    full = {"used": 7, "limit": 9, "full_minions": 1}
    found = words.status({**CALM, "capacity": full}, 100)
    assert found["capacity"] == "7 of 9 points used, 1 minion full"
