"""
What a job handler says of a job of ours: how far it is, and who does not get it.
"""

#: What is told of those whose turn does not come in time.
WAITS = "The job waits in the master's queue"


class Progress:
    """
    How far a job is. On a master without a job handler it goes to all at once.

    :ivar dict left_out: the minions that do not get it, with a sentence that says why
    :ivar bool waits: whether it waits for some
    :ivar str reason: why
    :ivar bool whole: whether it has gone to all
    """

    def __init__(self):
        self.left_out = {}
        self.waits = False
        self.reason = WAITS
        self._ticket = None
        # the minions that it has gone to, and when
        self._waves = []
        self.whole = True

    def published(self, answer):
        """
        Take over the master's answer to the publish request.
        """
        state = answer.get("job_handler")
        if not isinstance(state, dict) or "state" not in state:
            return
        self._ticket = state.get("ticket")
        self._exclude(state.get("excluded"))
        self._step(state)

    def _step(self, data):
        self.waits = bool(data.get("waiting"))
        self.whole = not self.waits
        if data.get("reason"):
            self.reason = f"{WAITS}: {data['reason']}"

    def _exclude(self, excluded):
        if isinstance(excluded, dict):
            for minion, reason in excluded.items():
                self.left_out[minion] = f"It was left out: {reason}"

    def hear(self, kind, data, now):
        """
        Take over an event, and return whether the job has got on.

        :param str kind: the end of its tag
        """
        if self._ticket is None or data.get("ticket") != self._ticket:
            return False
        targets = data.get("targets")
        targets = targets if isinstance(targets, list) else None
        if kind == "excluded":
            self._exclude(data.get("excluded"))
        elif kind == "discarded":
            self.waits = False
            self.reason = data.get("sentence") or self.reason
            for minion in targets or ():
                self.left_out[minion] = self.reason
        elif kind in ("queued", "dispatched"):
            self._step(data)
            if targets:
                self._waves.append((now, set(targets)))
            return kind == "dispatched"
        else:
            return False
        return True

    def sent(self, minions):
        """
        Return those of the minions that the job has gone to.
        """
        if self.whole:
            return set(minions)
        return self.sent_before(float("inf")).intersection(minions)

    @property
    def in_waves(self):
        """
        Whether it goes to some after others.
        """
        return bool(self._waves)

    def sent_before(self, before):
        """
        Return the minions that the job has gone to up to a time.
        """
        return set().union(*(wave for then, wave in self._waves if then <= before))
