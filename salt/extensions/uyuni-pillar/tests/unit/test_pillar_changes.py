"""
Tests of the engine that refreshes minions when their pillars change, with a clock and
a database of their own
"""

import logging
import os

import pytest
import saltext.uyuni_pillar.connection as pillar_connection
import saltext.uyuni_pillar.engines.pillar_changes as pillar_changes

import salt.exceptions
import salt.utils.files


class Clock:
    """
    A clock that goes on when somebody waits
    """

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Connection:
    """
    Answers with what has changed, and lets the clock go on
    """

    def __init__(self, clock, *answers):
        self.clock = clock
        self.answers = list(answers)
        self.rings = []
        self.asked = []
        self.pruned = []
        self.rows = []
        self.query = None

    def heard(self, seconds):
        rings = [ring for ring in self.rings if ring <= self.clock.now + seconds]
        if rings:
            self.clock.now = max(self.clock.now, min(rings))
            self.rings.remove(min(rings))
            return True
        self.clock.now += seconds
        return False

    def execute(self, query, values):
        self.query = query
        if query == pillar_changes.PRUNE:
            self.pruned.append(self.clock.now)
            return
        assert query == pillar_changes.CHANGES
        self.asked.append((self.clock.now, values[0]))

    def fetchall(self):
        if self.query == pillar_changes.PRUNE:
            return [(self.rows.pop(0) if self.rows else 0,)]
        number = len(self.asked)
        minions = self.answers.pop(0) if self.answers else []
        return [(f"{number}:{number}:", minions)]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def state(tmp_path):
    return pillar_changes.State(str(tmp_path))


@pytest.fixture
def waiting():
    return pillar_changes.Waiting(debounce=1, batch=2, pause=5, check=60)


def steps(connection, waiting, state, clock, count, refused=0):
    """
    Take steps, and return when which minions were refreshed
    """
    refreshed = []

    def refresh(batch):
        nonlocal refused
        if refused:
            refused -= 1
            raise salt.exceptions.SaltClientError("no master")
        refreshed.append((clock.now, batch))

    for _ in range(count):
        pillar_changes.step(connection, waiting, state, refresh, clock)
    return refreshed


def test_changes_of_the_time_when_nobody_listened_are_asked_for_at_once(
    clock, waiting, state
):
    connection = Connection(clock, ["web1"])
    assert steps(connection, waiting, state, clock, 1) == [(100.0, ["web1"])]
    assert connection.asked == [(100.0, None)]


def test_changes_are_collected_before_they_are_asked_for(clock, waiting, state):
    connection = Connection(clock, [], ["web1"])
    connection.rings = [103.0, 103.2, 103.4]
    refreshed = steps(connection, waiting, state, clock, 5)
    # once for three bells
    assert connection.asked == [(100.0, None), (104.0, "1:1:")]
    assert refreshed == [(104.0, ["web1"])]


def test_bells_without_an_end_do_not_put_it_off(clock, waiting, state):
    connection = Connection(clock, [], ["web1"])
    connection.rings = [100 + number / 2 for number in range(2, 40)]
    steps(connection, waiting, state, clock, 5)
    assert connection.asked[1][0] == 102.0


def test_it_asks_now_and_then_without_a_bell(clock, waiting, state):
    connection = Connection(clock)
    steps(connection, waiting, state, clock, 3)
    assert [when for when, _ in connection.asked] == [100.0, 160.0, 220.0]


def test_minions_are_refreshed_a_few_at_a_time(clock, waiting, state):
    connection = Connection(clock, [f"web{number}" for number in range(5)])
    assert steps(connection, waiting, state, clock, 3) == [
        (100.0, ["web0", "web1"]),
        (105.0, ["web2", "web3"]),
        (110.0, ["web4"]),
    ]


def test_minion_that_waits_is_refreshed_once(clock, waiting, state):
    connection = Connection(clock, ["a", "b", "c"], ["c", "d"])
    connection.rings = [101.0]
    refreshed = steps(connection, waiting, state, clock, 6)
    assert [batch for _, batch in refreshed] == [["a", "b"], ["c", "d"]]


def test_batch_that_cannot_be_told_waits_at_the_front(clock, waiting, state, caplog):
    connection = Connection(clock, ["a", "b", "c"])
    with caplog.at_level(logging.ERROR):
        refreshed = steps(connection, waiting, state, clock, 3, refused=1)
    assert [batch for _, batch in refreshed] == [["a", "b"], ["c"]]
    assert "2 minions cannot be refreshed yet: no master" in caplog.text


def test_old_changes_are_deleted_once_an_hour(clock, waiting, state):
    connection = Connection(clock)
    # the first time there are more than go at once
    connection.rows = [pillar_changes.PRUNE_MOST, 5]
    steps(connection, waiting, state, clock, 65)
    assert connection.pruned == [100.0, 160.0, 160.0 + 3600]


def test_deleting_that_fails_is_not_tried_at_once(clock, waiting, state):
    connection = Connection(clock)
    connection.rows = [None]
    with pytest.raises(TypeError):
        steps(connection, waiting, state, clock, 1)
    steps(connection, waiting, state, clock, 5)
    assert (len(connection.pruned), len(connection.asked)) == (1, 6)


def test_next_process_goes_on_where_this_one_was(clock, waiting, state):
    connection = Connection(clock, ["a", "b", "c"])
    steps(connection, waiting, state, clock, 1)
    other = pillar_changes.Waiting(debounce=1, batch=2, pause=5, check=60)
    state.load(other)
    assert (other.snapshot, list(other.minions)) == ("1:1:", ["c"])
    connection = Connection(clock)
    assert steps(connection, other, state, clock, 1)[0][1] == ["c"]
    assert connection.asked[0][1] == "1:1:"


def test_batch_that_a_crash_cuts_off_is_told_again(clock, waiting, state):
    def crash(batch):
        raise KeyboardInterrupt

    connection = Connection(clock, ["a", "b", "c"])
    with pytest.raises(KeyboardInterrupt):
        pillar_changes.step(connection, waiting, state, crash, clock)
    state.load(waiting)
    assert list(waiting.minions) == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"snapshot": 1, "minions": 1}'])
def test_state_that_cannot_be_read_is_told(waiting, state, caplog, text):
    os.makedirs(os.path.dirname(state.path))
    with salt.utils.files.fopen(state.path, "w") as file:
        file.write(text)
    with caplog.at_level(logging.ERROR):
        state.load(waiting)
    assert "cannot be read" in caplog.text
    assert (waiting.snapshot, waiting.minions) == ("", {})


def test_no_state_is_no_error(waiting, state, caplog):
    state.load(waiting)
    assert (waiting.snapshot, waiting.minions, caplog.text) == (None, {}, "")


def test_connection_is_replaced_after_a_while(tmp_path, monkeypatch):
    """
    As its server may not be the one of that name any more; without an error and a pause
    """
    made = []

    class Server(Connection):
        """
        The third one ends the test
        """

        def __init__(self, limit, **params):
            super().__init__(Clock())
            assert (limit, params["dbname"]) == (pillar_changes.ANSWER, "susemanager")
            self.closed = False
            made.append(self)
            if len(made) == 3:
                raise KeyboardInterrupt

        def execute(self, query, values=None):
            if query != pillar_changes.LISTEN:
                super().execute(query, values)

        def close(self):
            self.closed = True

    opts = {"cachedir": str(tmp_path), "postgres": {"db": "susemanager"}}
    monkeypatch.setattr(pillar_changes, "__opts__", opts, raising=False)
    monkeypatch.setattr(pillar_connection, "Connection", Server)
    ticks = iter(range(100, 10**6, pillar_changes.LIFETIME // 4))
    monkeypatch.setattr(pillar_changes.time, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(pillar_changes.time, "sleep", lambda seconds: pytest.fail())
    with pytest.raises(KeyboardInterrupt):
        pillar_changes.start()
    assert [one.closed for one in made] == [True, True, False]
    # each of them has asked what came meanwhile
    assert all(one.asked for one in made[:2])


@pytest.mark.parametrize("given,taken", [(0.5, 1), (3, 3), (0, 0), ("7", "7")])
def test_fraction_of_a_second_is_rounded_up_for_libpq(given, taken):
    found = pillar_connection.get_params({"postgres": {"connect_timeout": given}})
    assert found["connect_timeout"] == taken
