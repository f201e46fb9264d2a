"""
Minions that answer at once, and a master with or without a job handler between.
"""

import contextlib
import re
from unittest.mock import patch  # pylint: disable=blacklisted-module

import saltext.query.live
from saltext.query.sources.job_cache import LIVE


class Clock:
    """
    Time that passes only while somebody waits.
    """

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Fleet:
    """
    :param dict answers: for each minion that lives, what its functions return; a function
        that is not there returns a sentence
    :param dict left_out: minions that the job handler leaves out of jobs that are not
        exempt, with its reason
    :param waiting: minions that jobs which are not exempt don't get in time
    :param exempt: the functions that the job handler lets pass
    :param slow: minions that answer nothing but ``test.ping`` in time
    :param dict turns: after how many seconds jobs which are not exempt go to some minions
    :param dict seconds: how long some minions take to answer anything but ``test.ping``
    :param early: how often the event bus has nothing at once, as one that is closed

    :ivar list asked: what was published: minions and functions
    :ivar list executed: each execution: a minion and its functions
    :ivar list users: the names that publications carry
    """

    def __init__(
        self,
        answers,
        left_out=(),
        waiting=(),
        exempt=("test.ping", "saltutil.running"),
        slow=(),
        handler=False,
        jid="1",
        seconds=(),
        turns=(),
        early=0,
    ):
        self.answers = answers
        self.left_out = dict(left_out)
        self.waiting = set(waiting)
        self.exempt = exempt
        self.slow = slow
        self.handler = handler or bool(left_out or waiting or turns)
        self.jid = jid
        self.seconds = dict(seconds)
        self.turns = dict(turns)
        self.early = early
        self.clock = Clock()
        self.asked = []
        self.executed = []
        self.users = []
        self.cancelled = []
        self.salt_user = "root"
        self.error = None
        self.event = self
        self.events = []

    def run_job(self, minions, fun, arg, tgt_type, timeout, listen, metadata):
        """
        Publish a job as ``LocalClient`` does.
        """
        assert (tgt_type, listen) == ("list", True) and timeout >= 1
        assert metadata == LIVE
        if self.error is not None:
            raise self.error
        functions = [fun] if isinstance(fun, str) else fun
        self.asked.append((list(minions), functions))
        self.users.append(self.salt_user)
        jid = str(int(self.jid) + len(self.asked) - 1)
        ret = {"jid": jid, "minions": list(minions)}
        gets = list(minions)
        if self.handler and not all(one in self.exempt for one in functions):
            excluded = {
                one: self.left_out[one] for one in minions if one in self.left_out
            }
            gets = [
                one
                for one in minions
                if one not in excluded and one not in {*self.waiting, *self.turns}
            ]
            held = [one for one in minions if one in {*self.waiting, *self.turns}]
            if excluded or held:
                ret["job_handler"] = {
                    "state": "queued" if held else "dispatched",
                    "ticket": "t",
                    "waiting": len(held),
                    "excluded": excluded,
                    "reason": "the queue is paused" if held else "",
                }
            for after in sorted({self.turns[one] for one in held if one in self.turns}):
                wave = [one for one in held if self.turns.get(one) == after]
                for minion in wave:
                    self._execute(jid, minion, functions, isinstance(fun, str), after)
        for minion in gets:
            self._execute(jid, minion, functions, isinstance(fun, str))
        return ret

    def show(self, jid):
        """
        Return what the job handler knows of the last job.
        """
        asked, functions = self.asked[int(jid) - int(self.jid)]
        waits = [one for one in asked if one in self.waiting]
        waits += [
            one for one in asked if self.turns.get(one, 0) > self.clock.now - 1000
        ]
        if all(one in self.exempt for one in functions):
            waits = []
        lines = [{"waiting": len(waits), "reason": "the queue is paused"}]
        return {"waiting": lines if waits else [], "left_out": self.left_out}

    def _execute(self, jid, minion, functions, single, turn=0):
        if minion not in self.answers:
            return
        self.executed.append((minion, tuple(functions)))
        if minion in self.slow and functions != ["test.ping"]:
            return
        known = {"test.ping": True, **self.answers[minion]}
        found = {one: known.get(one, f"'{one}' is not available.") for one in functions}
        data = {"id": minion, "return": found[functions[0]] if single else found}
        after = 0 if functions == ["test.ping"] else self.seconds.get(minion, 0)
        self.fire(jid, f"ret/{minion}", data, turn + after)

    def fire(self, jid, kind, data, after=0):
        """
        Put an event on the bus.
        """
        event = {"tag": f"salt/job/{jid}/{kind}", "data": data}
        self.events.append((self.clock.now + after, event))

    def get_event(self, wait, tag, match_type, full):
        """
        Return the next event, or None after a while.
        """
        # with 0 Salt waits for ever
        assert match_type == "regex" and full and wait > 0
        if self.early > 0:
            self.early -= 1
            return None
        matching = [one for one in self.events if re.match(tag, one[1]["tag"])]
        found = min(matching, key=lambda one: one[0], default=None)
        if found is None or found[0] > self.clock.now + wait:
            self.clock.now += wait
            return None
        self.clock.now = max(self.clock.now, found[0])
        self.events.remove(found)
        return found[1]

    def pass_time(self, seconds):
        """
        Let time pass.
        """
        self.clock.now += seconds

    def cancel(self, jid):
        """
        Take a job out of the queue.
        """
        self.cancelled.append(jid)

    def destroy(self):
        """
        Nothing to do.
        """


@contextlib.contextmanager
def answering(answers, **more):
    """
    Let minions answer, and give the fleet.
    """
    fleet = Fleet(answers, **more)

    class Queue:
        enabled = fleet.handler
        waiting = None

        @staticmethod
        def ask(function, jid):
            return getattr(fleet, function)(jid)

    class Client(saltext.query.live.Client):
        clock = staticmethod(fleet.clock)

        def __init__(self, context, seconds):
            super().__init__(context, seconds)
            self.queue = Queue

    with (
        patch("salt.client.get_local_client", return_value=fleet),
        patch("saltext.query.live.Client", Client),
        patch("saltext.query.live.time.sleep", fleet.pass_time),
    ):
        yield fleet
