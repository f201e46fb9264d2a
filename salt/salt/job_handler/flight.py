"""
The waves that are on their way.

A wave counts as sent some seconds after it was published, or when all of its minions
have returned: the process that publishes may be killed with what it has not sent yet.

After a restart of the master its minions have to find it again, and what is published
before is lost for them. So in the first seconds of a master, an asynchronous job goes
out to those that are there, and at the end of that time once more to those that have
not returned. Minions drop what they have got already.
"""

import salt.job_handler.target

#: How long a wave is on its way.
FLIGHT_SECONDS = 3


class Flight:
    """
    A wave that is on its way.

    :ivar str jid: the job
    :ivar float until: when it counts as sent
    :ivar bool owed: whether any of its minions is charged
    :ivar load: what is sent once more, or None
    :ivar set missing: the minions to which it is sent once more
    """

    __slots__ = ("jid", "load", "missing", "owed", "until")

    def __init__(self, jid, until, owed, load=None, missing=()):
        self.jid = jid
        self.until = until
        self.owed = owed
        self.load = load
        self.missing = set(missing)


class Flights:
    """
    All waves that are on their way.

    :ivar connected_at: when the minions of a new master have found it, or None if they
        have
    """

    def __init__(self):
        self.connected_at = None
        self._flights = {}

    def launch(self, wave, jid, now, owed, load=None, minions=()):
        """
        A wave was published just now.

        :param int wave: its number
        :param str jid: the job
        :param float now: the time
        :param bool owed: whether any of its minions is charged
        :param load: what to send once more to those that can't have heard it, or None
            if that helps nobody
        :param minions: the ids of its minions, none of them if they are not known
        """
        if load is None or self.connected_at is None or now >= self.connected_at:
            flight = Flight(jid, now + FLIGHT_SECONDS, owed)
        else:
            until = self.connected_at + FLIGHT_SECONDS
            flight = Flight(jid, until, owed, load, minions)
        self._flights[wave] = flight

    def returned(self, jid, minion):
        """
        A minion has returned a job.
        """
        if self.connected_at is None:
            return
        for flight in self._flights.values():
            if flight.jid == jid and minion in flight.missing:
                flight.missing.discard(minion)
                if not flight.missing:
                    flight.load = None

    def cancel(self, jid):
        """
        Send nothing of a job once more.
        """
        for flight in self._flights.values():
            if flight.jid == jid:
                flight.load = None

    def again(self, now):
        """
        Give out what has to be sent once more, as a generator of loads. What it has
        given out counts as sent when it is asked for the next one.
        """
        if self.connected_at is None or now < self.connected_at:
            return
        for flight in list(self._flights.values()):
            if flight.load is None:
                continue
            load = flight.load
            if flight.missing:
                load = salt.job_handler.target.narrow(
                    load, sorted(flight.missing), (), True
                )
            yield load
            flight.load = None
        self.connected_at = None

    def landed(self, now, charged):
        """
        Forget the waves that are sent for certain, and return their numbers.

        :param float now: the time
        :param charged: the ids of all jobs that any minion is charged for
        """
        found = [
            wave
            for wave, flight in self._flights.items()
            if flight.load is None
            and (flight.until <= now or (flight.owed and flight.jid not in charged))
        ]
        for wave in found:
            del self._flights[wave]
        return found

    def jids(self):
        """
        Return the ids of the jobs that are on their way.
        """
        return {flight.jid for flight in self._flights.values()}
