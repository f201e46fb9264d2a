"""
The side of ``LocalClient``: what it says of itself in a publish request, and how it
waits for a job that waits itself.
"""

import hmac
import logging
import time
import uuid

import salt.defaults.exitcodes
import salt.job_handler
import salt.job_handler.caller
import salt.job_handler.vocabulary as vocabulary
from salt.exceptions import JobQueueFullError, SaltDeserializationError

log = logging.getLogger(__name__)

#: How long a client waits for an event before it looks at its timeouts, and for how
#: long it reads events of others before it does, in seconds.
_WAIT_SECONDS = 0.01
_READ_SECONDS = 0.25

#: Who has heard nothing for himself for so many seconds looks only so often, also in
#: seconds: on a master under load many clients wait, and each wakes up for each event.
_ALERT_SECONDS = 1
_PAUSE_SECONDS = 0.1

#: How often a part of a batch is asked for. The master says how long to wait before the
#: next time, at least a second.
_TRIES = 1000


def announce(client, payload, sync, patience, timeout):
    """
    Add to a publish request what the job handler wants to know: a name of its own, so
    that a second try does not become a second job, and how long the caller waits.

    :param LocalClient client: the client, whose options are those of the master
    :param dict payload: the publish request
    :param bool sync: whether the caller waits for the answers
    :param patience: for how many seconds
    :param timeout: how long one try of the request waits for the master's answer
    :return: how long it should: a master under load that answers late is not asked
        again, as each try costs it as much as the first
    """
    if not salt.job_handler.enabled(client.opts):
        return timeout
    if client.patience is not None:
        sync, patience = True, client.patience
    payload["job_handler"] = {
        "id": uuid.uuid4().hex,
        "sync": bool(sync),
        "timeout": patience,
        "extend": client.batching,
    }
    if sync:
        payload["job_handler"]["caller"] = salt.job_handler.caller.me()
    return max(timeout, client.opts.get("publish_timeout", 30))


def cancelled(pub_data):
    """
    Return how many minions do not get a job any more that a command has ended.

    :param dict pub_data: the answer to the publish request
    """
    state = pub_data.get("job_handler") if isinstance(pub_data, dict) else None
    count = state.get("cancelled") if isinstance(state, dict) else None
    return count if isinstance(count, int) else 0


def left_out(pub_data):
    """
    Return the minions that won't get a job, each with the sentence that says why.

    :param dict pub_data: the answer to the publish request
    """
    state = pub_data.get("job_handler") if isinstance(pub_data, dict) else None
    return _sentences(state.get("excluded")) if isinstance(state, dict) else {}


def _sentences(excluded):
    if not isinstance(excluded, dict):
        return {}
    return {
        minion: f"Minion did not get the job. [{reason}]"
        for minion, reason in excluded.items()
    }


def check(error):
    """
    Raise JobQueueFullError if the master's error says that it refused the job.
    """
    if isinstance(error, dict) and error.get("name") == vocabulary.REFUSED:
        raise JobQueueFullError(error.get("message", ""), error.get("retry_after", 10))


def patiently(ask, tries=_TRIES):
    """
    Yield what ``LocalClient.cmd_iter_no_block`` yields, and None while its job is refused
    and asked for again: a batch of which a part has executed goes on when there is room.

    :param callable ask: returns the iterator, whose first step asks for the job
    :param int tries: how often
    :raises JobQueueFullError: if it was refused each time
    """
    for left in reversed(range(tries)):
        try:
            yield from ask()
            return
        except JobQueueFullError as exc:
            if not left:
                raise
            log.warning("The next part of the batch waits: %s", exc)
            until = time.monotonic() + exc.retry_after
        while time.monotonic() < until:
            yield None


def events(event, tag, match_type=None):
    """
    Yield the events with a tag as they come, and None when there are none.

    ``LocalClient`` takes one event of the bus at a time, unpacks it, and sleeps after
    each that is not for it. On a master under load nearly all are for others, and come
    faster than that: the client falls behind until the bus drops it. So what has come
    is read in one go here, and what is for others is not unpacked.

    :param SaltEvent event: the client's event bus
    :param match_type: how the tag is to be understood, see ``SaltEvent.get_event``
    """
    # pylint: disable=protected-access
    match = event._get_match_func(match_type)
    mine = time.monotonic()
    while True:
        ret = event._check_pending(tag, match)
        if ret is not None:
            yield ret
            mine = time.monotonic()
            continue
        # whom the bus sends but its own events takes those that there are
        own = getattr(event, "prefixes", None) is not None
        until = time.monotonic() + _READ_SECONDS
        if until - _READ_SECONDS - mine > _ALERT_SECONDS and not own:
            time.sleep(_PAUSE_SECONDS)
        heard = event.cpub or event.connect_pub(timeout=_WAIT_SECONDS)
        while heard and time.monotonic() < until:
            heard = False
            for raw in _received(event.subscriber):
                heard = True
                name = event.unpack_tag(raw)
                if match(name, tag):
                    yield from _unpacked(event, raw)
                    mine = time.monotonic()
                elif any(pending(name, it) for it, pending in event.pending_tags):
                    event.pending_events.extend(_unpacked(event, raw))
            if own:
                break
        yield None


def _received(subscriber):
    """
    Yield what the bus has sent, without a turn of the event loop for each event.
    """
    raw = subscriber.recv(timeout=_WAIT_SECONDS)
    while raw is not None:
        yield raw
        raw = subscriber.recv_buffered()


def _unpacked(event, raw):
    """
    Yield the event, unless it makes no sense.
    """
    try:
        tag, data = event.unpack(raw)
    except SaltDeserializationError:
        return
    yield {"tag": tag, "data": data}


class QueuedJob:
    """
    A job that had not gone out to all of its minions when the master answered.

    A batch publishes several times under one job id, and the events of all of these
    come to whichever part of it listens, so all parts share one of these objects.

    :ivar dict left_out: the minions that won't get it, with the sentence that says why
    """

    def __init__(self, jid, state, clock=time.monotonic):
        self.jid = jid
        self.clock = clock
        self.left_out = {}
        self.reason = ""
        self.position = None
        self._sent = set()
        self._found = 0
        self._tickets = set()
        # number of the publication: how many of its minions wait, until when that holds
        self._waiting = {}
        # the sentence that ends the wait of all that have not been sent to
        self._discarded = None
        self.add(state)

    def add(self, state):
        """
        Take over what the master said in its answer to a publish request.
        """
        # without one, nothing has been queued and no event is about it
        if state.get("ticket"):
            self._tickets.add(state["ticket"])
        self._exclude(state.get("excluded"))
        self._progress(state)

    @property
    def waits(self):
        """
        Whether minions are known to wait in the queue for their turn.
        """
        now = self.clock()
        return any(until > now for _, until in self._waiting.values())

    def moves(self, found):
        """
        Return whether the job makes progress: minions wait for their turn, or more
        have answered than the last time. So minions are not late as long as answers
        keep coming; whoever asked them what they run would only slow these down.

        :param int found: how many minions have answered
        """
        more = found > self._found
        self._found = found
        return more or self.waits

    def _progress(self, data):
        number, waiting = data.get("publication"), data.get("waiting", 0)
        if waiting:
            lease = data.get("lease", vocabulary.LEASE_SECONDS)
            self._waiting[number] = (waiting, self.clock() + lease)
        else:
            self._waiting.pop(number, None)
        self.reason = data.get("reason", "")
        self.position = data.get("position")

    def _exclude(self, excluded):
        self.left_out.update(_sentences(excluded))

    def handle(self, raw):
        """
        Take over an event, if it is one of the job handler.

        :param dict raw: an event
        :return: whether it was
        """
        prefix = f"salt/job/{self.jid}/"
        kind = raw["tag"][len(prefix) :] if raw["tag"].startswith(prefix) else ""
        if kind not in (
            vocabulary.QUEUED,
            vocabulary.DISPATCHED,
            vocabulary.EXCLUDED,
            vocabulary.DISCARDED,
        ):
            return False
        data = raw["data"]
        ticket = data.get("ticket")
        if not isinstance(ticket, str) or not self._is_own(ticket):
            log.debug("An event that the job handler did not fire: %s", raw["tag"])
            return True
        targets = data.get("targets")
        if kind == vocabulary.EXCLUDED:
            self._exclude(data.get("excluded"))
        elif kind == vocabulary.DISCARDED:
            self._progress({**data, "waiting": 0})
            if isinstance(targets, list):
                self._exclude(dict.fromkeys(targets, data.get("sentence")))
            else:
                self._discarded = data.get("sentence")
        else:
            self._progress(data)
            if isinstance(targets, list):
                self._sent.update(targets)
        return True

    def _is_own(self, ticket):
        """
        Return whether the job handler gave this ticket to a publication of the job.
        """
        ticket = ticket.encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(own.encode(), ticket) for own in self._tickets)

    def drop(self, minions, found=()):
        """
        Take those that won't get the job out of those that are waited for.

        :param set minions: those that are waited for
        :param set found: those that have answered
        """
        if self._discarded is not None:
            left = minions.difference(found, self._sent, self.left_out)
            self._exclude(dict.fromkeys(left, self._discarded))
        if self.left_out:
            minions.difference_update(self.left_out)

    def rows(self, asked):
        """
        Return what to show of each minion that did not get the job.

        :param asked: the minions that it was for
        """
        return {
            minion: {
                "failed": True,
                "out": "no_return",
                "ret": sentence,
                "retcode": salt.defaults.exitcodes.EX_GENERIC,
            }
            for minion, sentence in sorted(self.left_out.items())
            if minion in asked
        }

    def notice(self):
        """
        Return a sentence for people.
        """
        place = f" at place {self.position}" if self.position else ""
        why = f": {self.reason}" if self.reason else ""
        return f"Job {self.jid} waits in the master's queue{place}{why}."
