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
        self.pruned = 0

    def notified(self, seconds):
        rings = [ring for ring in self.rings if ring <= self.clock.now + seconds]
        if rings:
            self.clock.now = max(self.clock.now, min(rings))
            self.rings.remove(min(rings))
            return True
        self.clock.now += seconds
        return False

    def execute(self, query, values=None):
        if query == pillar_changes.PRUNE:
            self.pruned += 1
            return
        assert query == pillar_changes.CHANGES
        self.asked.append((self.clock.now, values[0]))

    def fetchall(self):
        number = len(self.asked)
        minions = self.answers.pop(0) if self.answers else []
        return [(f"{number}:{number}:", minions)]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(autouse=True)
def cache(opts, monkeypatch):
    """
    Give all masters a cache
    """
    monkeypatch.setattr(Master, "opts", {**opts, "id": "master"})


@pytest.fixture
def waiting():
    return pillar_changes.Waiting(debounce=1, batch=2, check=60)


class Master(pillar_changes.Master):
    """
    Sends refreshes, and returns what minions answer to them

    silent
        Minions that do not answer.

    broken
        Minions whose pillars have errors of the database.
    """

    opts = None

    def __init__(self, clock, refused=0):  # pylint: disable=super-init-not-called
        self.clock = clock
        self.refused = refused
        self.refreshed = []
        self.silent, self.broken, self.unknown = set(), set(), set()
        self.queue = []
        self.is_listening = False

    def known(self):
        return {*"abcdefgh", *(f"web{number}" for number in range(9))} - self.unknown

    def refresh(self, minions):
        self.is_listening = True
        if self.refused:
            self.refused -= 1
            raise salt.exceptions.SaltClientError("no master")
        self.refreshed.append((self.clock.now, minions))
        job = str(len(self.refreshed))
        self.queue += [
            (f"salt/job/{job}/ret/{name}", {"id": name, "jid": job, "return": True})
            for name in minions
            if name not in self.silent
        ]
        return job

    def has_errors(self, minion):
        return minion in self.broken

    def events(self):
        found, self.queue = self.queue, []
        return found

    def close(self):
        self.is_listening = False


def steps(connection, waiting, clock, count, refused=0, master=None):
    """
    Take steps for so many seconds, and return when which minions were refreshed
    """
    master = master or Master(clock, refused)
    end = clock.now + count
    while clock.now < end:
        pillar_changes.step(connection, waiting, master, clock)
    return master.refreshed


def test_changes_before_it_listened_are_asked_for_at_once(clock, waiting):
    connection = Connection(clock, ["web1"])
    assert steps(connection, waiting, clock, 0.1) == [(100.0, ["web1"])]
    assert connection.asked == [(100.0, None)]


def test_changes_are_collected_before_they_are_asked_for(clock, waiting):
    connection = Connection(clock, [], ["web1"])
    connection.rings = [103.0, 103.2, 103.4]
    refreshed = steps(connection, waiting, clock, 4.1)
    # once for three notifications
    assert connection.asked == [(100.0, None), (104.0, "1:1:")]
    assert refreshed == [(104.0, ["web1"])]


def test_endless_notifications_do_not_delay_it(clock, waiting):
    connection = Connection(clock, [], ["web1"])
    connection.rings = [100 + number / 2 for number in range(2, 40)]
    steps(connection, waiting, clock, 5)
    assert connection.asked[1][0] == 102.0


def test_it_asks_now_and_then_without_a_notification(clock, waiting):
    connection = Connection(clock)
    steps(connection, waiting, clock, 120)
    assert [when for when, _ in connection.asked] == [100.0, 160.0, 220.0]


def test_minions_are_refreshed_a_few_at_a_time(clock, waiting):
    connection = Connection(clock, [f"web{number}" for number in range(5)])
    assert steps(connection, waiting, clock, 30) == [
        (100.0, ["web0", "web1"]),
        (100.2, ["web2", "web3"]),
        (100.4, ["web4"]),
    ]
    assert not waiting.due


def test_minions_that_do_not_return_hold_up_nobody(clock, waiting):
    connection = Connection(clock, [f"web{number}" for number in range(9)])
    master = Master(clock)
    master.silent = {"web0", "web1", "web2"}
    steps(connection, waiting, clock, 30, master=master)
    first = [name for _, batch in master.refreshed for name in batch][:9]
    assert first == [f"web{number}" for number in range(9)]
    # five seconds for the first two, then there is room for one beside web2
    assert max(now for now, _ in master.refreshed if now < 120) < 107
    assert set(waiting.due) == master.silent


def test_next_minions_follow_when_half_of_a_batch_has_returned(clock):
    waiting = pillar_changes.Waiting(debounce=1, batch=4, check=60)
    connection = Connection(clock, [f"web{number}" for number in range(9)])
    master = Master(clock)
    master.silent = {"web0", "web1", "web2"}
    steps(connection, waiting, clock, 4, master=master)
    assert [len(batch) for _, batch in master.refreshed] == [4]
    master.queue.append(
        ("salt/job/1/ret/web0", {"id": "web0", "jid": "1", "return": True})
    )
    steps(connection, waiting, clock, 0.1, master=master)
    assert [len(batch) for _, batch in master.refreshed] == [4, 2]


def test_minion_that_waits_is_refreshed_once(clock, waiting):
    connection = Connection(clock, ["a", "b", "c"], ["c", "d"])
    connection.rings = [101.0]
    master = Master(clock)
    master.silent = {"a", "b"}
    steps(connection, waiting, clock, 19, master=master)
    assert [batch for _, batch in master.refreshed] == [["a", "b"], ["c", "d"]]


def test_batch_that_cannot_be_sent_is_tried_again(clock, waiting, caplog):
    connection = Connection(clock, ["a", "b"])
    with caplog.at_level(logging.ERROR):
        refreshed = steps(connection, waiting, clock, 10, refused=1)
    assert refreshed == [(101.0, ["a", "b"])]
    assert "2 minions cannot be refreshed yet: no master" in caplog.text


def test_minion_that_does_not_return_is_refreshed_until_it_does(clock, waiting):
    connection = Connection(clock, ["a", "b"])
    master = Master(clock)
    master.silent = {"b"}
    steps(connection, waiting, clock, 50, master=master)
    assert [batch for _, batch in master.refreshed] == [["a", "b"], ["b"], ["b"]]
    steps(connection, waiting, clock, 3600, master=master)
    count = len(master.refreshed)
    assert count < 60
    # at once when it is there
    master.silent = set()
    now = clock.now
    master.queue.append(("salt/auth", {"id": "b"}))
    steps(connection, waiting, clock, 5, master=master)
    assert len(master.refreshed) == count + 1
    assert master.refreshed[-1][0] <= now + 4
    assert (waiting.due, master.is_listening) == ({}, False)


def test_return_of_an_earlier_refresh_is_none_of_a_later_change(clock, waiting):
    connection = Connection(clock, ["a"], ["a"])
    connection.rings = [101.0]
    master = Master(clock)
    master.silent = {"a"}
    steps(connection, waiting, clock, 4, master=master)
    job = ("salt/job/1/ret/a", {"id": "a", "jid": "1", "return": True})
    master.queue.append(job)
    steps(connection, waiting, clock, 10, master=master)
    assert list(waiting.due) == ["a"]


@pytest.mark.parametrize("answer", [False, "no such function", None])
def test_refresh_that_fails_is_none(clock, waiting, answer):
    connection = Connection(clock, ["a"])
    master = Master(clock)
    master.silent = {"a"}
    steps(connection, waiting, clock, 1, master=master)
    job = ("salt/job/1/ret/a", {"id": "a", "jid": "1", "return": answer})
    master.queue.append(job)
    steps(connection, waiting, clock, 5, master=master)
    assert list(waiting.due) == ["a"]


def test_pillar_with_errors_is_compiled_again(clock, waiting):
    connection = Connection(clock, ["a"])
    master = Master(clock)
    master.broken = {"a"}
    steps(connection, waiting, clock, 30, master=master)
    assert len(master.refreshed) == 2
    master.broken = set()
    steps(connection, waiting, clock, 20, master=master)
    assert (len(master.refreshed), waiting.due) == (3, {})


def test_pillars_that_an_outage_broke_are_compiled_again(clock, waiting):
    connection = Connection(clock)
    master = Master(clock)
    master.broken = {"b"}
    waiting.outage_at = [clock.now + seconds for seconds in pillar_changes.OUTAGE]
    steps(connection, waiting, clock, 5, master=master)
    assert [batch for _, batch in master.refreshed] == [["b"]]
    # one that compiles while workers do not ask the server again
    master.broken = {"c"}
    steps(connection, waiting, clock, 200, master=master)
    assert ["c"] in [batch for _, batch in master.refreshed]


def test_minion_that_the_master_does_not_know_is_left_out(clock, waiting):
    connection = Connection(clock, ["a", "b", "c", "d"])
    master = Master(clock)
    master.unknown = {"a", "b"}
    steps(connection, waiting, clock, 20, master=master)
    assert master.refreshed == [(100.0, ["c", "d"])]


def test_next_process_continues_where_this_one_was(clock, waiting):
    connection = Connection(clock, ["a", "b", "c"])
    master = Master(clock)
    master.silent = {"a", "c"}
    steps(connection, waiting, clock, 2, master=master)
    other = pillar_changes.Waiting(debounce=1, batch=2, check=60)
    master.load(other)
    assert (other.snapshot, list(other.due)) == ("1:1:", ["a", "c"])
    connection = Connection(clock)
    assert steps(connection, other, clock, 1)[0][1] == ["a", "c"]
    assert connection.asked[0][1] == "1:1:"


def test_batch_that_a_crash_cuts_off_is_sent_again(clock, waiting):
    def crash(batch):
        raise KeyboardInterrupt

    connection = Connection(clock, ["a", "b", "c"])
    master = Master(clock)
    master.refresh = crash
    with pytest.raises(KeyboardInterrupt):
        pillar_changes.step(connection, waiting, master, clock)
    master.load(waiting)
    assert list(waiting.due) == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["", "[]", "x"])
def test_state_that_cannot_be_read_is_told(clock, waiting, caplog, text):
    master = Master(clock)
    master.save(waiting)
    path = os.path.join(master.opts["cachedir"], pillar_changes.BANK, "master.p")
    with salt.utils.files.fopen(path, "w") as file:
        file.write(text)
    with caplog.at_level(logging.ERROR):
        master.load(waiting)
    assert "cannot be read" in caplog.text
    assert (waiting.snapshot, waiting.due) == ("", {})


def test_no_state_is_no_error(clock, waiting, caplog):
    with caplog.at_level(logging.ERROR):
        Master(clock).load(waiting)
    assert (waiting.snapshot, waiting.due) == (None, {})
    assert "ERROR" not in caplog.text


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
    monkeypatch.setattr(pillar_changes, "Master", lambda opts: Master(Clock()))
    monkeypatch.setattr(pillar_changes, "__opts__", opts, raising=False)
    monkeypatch.setattr(pillar_connection, "Connection", Server)
    ticks = iter(range(100, 10**6, pillar_changes.LIFETIME // 4))
    monkeypatch.setattr(pillar_changes.time, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(pillar_changes.time, "sleep", lambda seconds: pytest.fail())
    with pytest.raises(KeyboardInterrupt):
        pillar_changes.start()
    assert [one.closed for one in made] == [True, True, False]
    # each of them has asked what came meanwhile, and old notes are deleted
    assert all(one.asked for one in made[:2])
    assert [one.pruned for one in made] == [1, 1, 0]


@pytest.mark.parametrize("given,taken", [(0.5, 1), (3, 3), (0, 0), ("7", "7")])
def test_fraction_of_a_second_is_rounded_up_for_libpq(given, taken):
    found = pillar_connection.get_params({"postgres": {"connect_timeout": given}})
    assert found["connect_timeout"] == taken
