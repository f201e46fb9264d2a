"""
The side of ``LocalClient`` and of others that ask for jobs: what they say of themselves in
a publish request, and how they wait for a job that waits itself.
"""

import asyncio
import collections
import functools
import hmac
import logging
import multiprocessing.util
import os
import re
import sys
import threading
import time
import uuid

import salt.defaults.exitcodes
import salt.job_handler
import salt.utils.batch_state
import salt.utils.files
from salt.exceptions import JobQueueFullError, SaltClientError

log = logging.getLogger(__name__)

#: How often a refused job is asked for.
_TRIES = 1000

#: How many refused jobs of one process are asked for again.
_MAX_LATER = 10000

#: A caller that has heard nothing for so many seconds goes on as if there was no queue.
CALLER_SECONDS = 60

#: A batch of the master asks so often how far its parts are, in seconds.
_ASK_SECONDS = 5

QUEUE_TAG = re.compile(r"^salt/job/([^/]+)/(queued|dispatched|excluded|discarded)$")


def me():
    """Return the id of this process and when it was started, or None if not known."""
    started = _started(os.getpid())
    return None if started is None else [os.getpid(), started]


def runs(caller):
    """Return whether a process runs on this machine, given what it has called itself."""
    return _started(caller[0]) == caller[1]


def _started(pid):
    try:
        with salt.utils.files.fopen(f"/proc/{pid:d}/stat", "rb") as handle:
            # the name may hold blanks and parentheses
            fields = handle.read().rpartition(b")")[2].split()
        # the state, and the start in ticks of the kernel, see proc(5)
        return None if fields[0] in (b"Z", b"X", b"x") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


class Caller:
    """What a ``LocalClient`` has to do with the job handler."""

    def __init__(self, opts):
        self.opts = opts
        #: the priority of its jobs: only those of root may be above 0
        self.priority = 0
        #: whether the publications are the parts of a batch, which waits for them
        self.batching = False
        #: whether people read on the terminal what happens
        self.talks = False
        #: for how many seconds somebody waits for the next answers, if not its timeout
        self.patience = None
        #: the minions that do not get the last job, each with the sentence that says why
        self.left_out = {}
        #: the jobs that are waited for while they wait themselves
        self.jobs = {}

    def announce(self, payload, sync, patience, timeout):
        """
        Add to a publish request an id, so that a second try is not a second job, and how many
        seconds the caller waits. Return how long it should wait for the answer.
        """
        if not salt.job_handler.enabled(self.opts):
            return timeout
        if self.patience is not None:
            sync, patience, self.patience = True, self.patience, None
        payload["job_handler"] = {
            "id": uuid.uuid4().hex,
            "sync": bool(sync),
            "timeout": patience,
            "extend": self.batching,
            "priority": self.priority,
        }
        if sync:
            payload["job_handler"]["caller"] = me()
        return max(timeout, self.opts.get("publish_timeout", 30))

    def answer(self, load, sync):
        """Return what the caller of a publication reads of the master's answer."""
        ret = {"jid": load["jid"], "minions": load["minions"]}
        state = load.get("job_handler")
        self.left_out = {}
        if not state:
            return ret
        # the job waits in the master's queue, or some minions won't get it
        ret["job_handler"] = state
        self.left_out = sentences(state.get("excluded"))
        if "state" in state and (sync or ret["jid"] in self.jobs):
            self.jobs.setdefault(ret["jid"], QueuedJob(ret["jid"])).add(state)
        return ret

    def wait(self, jid, minions):
        """Return a :class:`Wait` for the answers to a job."""
        queued = self.jobs.get(jid) if self.batching else self.jobs.pop(jid, None)
        if queued is not None and queued.waits and self.talks and sys.stderr.isatty():
            # where it does not disturb the output
            sys.stderr.write(f"{queued.notice()}\n")
        return Wait(queued, minions)


def sentences(reasons):
    """Return what people read of each minion that did not get a job, by its reason."""
    return {
        minion: f"Minion did not get the job. [{reason}]"
        for minion, reason in sorted(
            reasons.items() if isinstance(reasons, dict) else ()
        )
    }


def _rows(sentences, asked):
    return {
        minion: {
            "failed": True,
            "left_out": True,
            "out": "no_return",
            "ret": sentence,
            "retcode": salt.defaults.exitcodes.EX_GENERIC,
        }
        for minion, sentence in sentences.items()
        if minion in asked
    }


def check(error):
    """Raise JobQueueFullError if the master's error says that it refused the job."""
    if isinstance(error, dict) and error.get("name") == salt.job_handler.REFUSED:
        raise JobQueueFullError(error.get("message", ""), error.get("retry_after", 10))


# Asking again


def patiently(ask, tries=_TRIES):
    """
    Yield what ``ask()`` yields, and None while its job is refused and asked for again.

    :raises JobQueueFullError: if it was refused each time
    """
    for left in reversed(range(tries)):
        try:
            yield from ask()
            return
        except JobQueueFullError as exc:
            if not left or not exc.retry_after:
                raise
            log.warning("The job waits: %s", exc)
            until = time.monotonic() + exc.retry_after
        while time.monotonic() < until:
            yield None


def insist(ask, tries=_TRIES):
    """Do the same as :func:`patiently` without the Nones, and sleep meanwhile."""
    for part in patiently(ask, tries):
        if part is None:
            time.sleep(0.01)
        else:
            yield part


def persist(ask, *args, **kwargs):
    """Return what ``ask`` returns; while its job is refused, ask again."""
    (ret,) = insist(lambda: [ask(*args, **kwargs)])
    return ret


async def forward(refused, ask, *args, **kwargs):
    """
    Ask for a job, and if it is refused, in the background again: a syndic passes others
    on meanwhile. If it is refused for good, call ``refused`` with what it returns.
    """

    async def again(exc):
        for _ in range(_TRIES):
            if not getattr(exc, "retry_after", 0):
                break
            log.warning("The job waits: %s", exc)
            await asyncio.sleep(exc.retry_after)
            try:
                return await ask(*args, **kwargs)
            except Exception as error:  # pylint: disable=broad-except
                exc = error
        log.error("A job is not passed on: %s", exc)
        await refused({"return": str(exc), "retcode": 1, "success": False})

    try:
        await ask(*args, **kwargs)
    except JobQueueFullError as exc:
        task = asyncio.ensure_future(again(exc))
        # the event loop does not keep it
        _forwarded.add(task)
        task.add_done_callback(_forwarded.discard)


_forwarded = set()


class Later:
    """Jobs that nobody waits for: one thread asks again for those that are refused."""

    def __init__(self, size=_MAX_LATER):
        self.size = size
        self.jobs = collections.deque()
        self._lock = threading.Lock()
        self._pid = None

    def ask(self, client, *args, **kwargs):
        """Ask for a job as ``LocalClient.cmd_async`` does.

        :raises JobQueueFullError: if it is refused for good, or too many wait
        """
        # one that has come later is not asked for before the others
        if not self.jobs:
            try:
                client.cmd_async(*args, **kwargs)
                return
            except JobQueueFullError as exc:
                if not exc.retry_after:
                    raise
                log.warning("The job waits: %s", exc)
        with self._lock:
            if len(self.jobs) >= self.size:
                raise JobQueueFullError(
                    f"{self.size} jobs wait for a place in the master's queue already."
                )
            self.jobs.append((client, args, kwargs))
            if len(self.jobs) > 1:
                return
        if self._pid != os.getpid():
            # it may be told to end meanwhile
            self._pid = os.getpid()
            multiprocessing.util.Finalize(self, self.lose, exitpriority=1)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            client, args, kwargs = self.jobs[0]
            try:
                # the client belongs to another thread
                with type(client)(mopts=client.opts) as own:
                    persist(own.cmd_async, *args, **kwargs)
            except Exception as exc:  # pylint: disable=broad-except
                log.error("The job %s is given up: %s", args, exc)
            with self._lock:
                self.jobs.popleft()
                if not self.jobs:
                    return

    def lose(self):
        """Say which jobs the end of the process loses."""
        for _, args, kwargs in self.jobs:
            log.error("The job %s %s ends with the process", args, kwargs)


#: Those of the reactor
later = Later()


# Waiting


def returns(client, jid, minions, timeout):
    """Return ``{minion: row}`` of a job that waits, for other ways to read events."""
    ret = {}
    for part in client.get_iter_returns(
        jid, set(minions), timeout, expect_minions=False
    ):
        ret.update(part or {})
    return ret


class QueuedJob:
    """A job that waited when the master answered; all parts of a batch share one.

    :ivar dict left_out: the minions that won't get it, with the sentence that says why
    """

    def __init__(self, jid, clock=time.monotonic):
        self.jid = jid
        self.clock = clock
        self.left_out = {}
        self.reason = ""
        self._tickets = set()
        # events that came before the master's answer, None after it
        self._early = []
        # number of the publication: until when it is known to wait
        self._waiting = {}

    def add(self, state):
        """Take over what the master said in its answer to a publish request."""
        # without one, nothing has been queued and no event is about it
        if state.get("ticket"):
            self._tickets.add(state["ticket"])
        self.left_out.update(sentences(state.get("excluded")))
        self._progress(state)
        early, self._early = self._early, None
        for raw in early or ():
            self.handle(raw)

    @property
    def waits(self):
        """Whether minions are known to wait in the queue for their turn."""
        return max(self._waiting.values(), default=0) > self.clock()

    def _progress(self, data):
        number = data.get("publication")
        if data.get("waiting"):
            self._waiting[number] = self.clock() + CALLER_SECONDS
        else:
            self._waiting.pop(number, None)
        self.reason = data.get("reason", "")

    def handle(self, raw):
        """Take over an event of the job handler, and return whether it was one."""
        found = QUEUE_TAG.match(raw["tag"])
        if found is None or found.group(1) != self.jid:
            return False
        data, kind = raw["data"], found.group(2)
        ticket = data.get("ticket")
        if self._early is not None:
            # nobody sends so many before the answer
            self._early = [*self._early[-999:], raw]
        elif not isinstance(ticket, str) or not self._is_own(ticket):
            log.debug("An event that the job handler did not fire: %s", raw["tag"])
        elif kind == "excluded":
            self.left_out.update(sentences(data.get("excluded")))
        elif kind == "discarded":
            self._progress({**data, "waiting": 0})
            targets = data.get("targets")
            if isinstance(targets, list):
                reasons = dict.fromkeys(targets, data.get("sentence"))
                self.left_out.update(sentences(reasons))
        else:
            self._progress(data)
        return True

    def _is_own(self, ticket):
        # in a time that tells nothing of them
        ticket = ticket.encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(own.encode(), ticket) for own in self._tickets)

    def notice(self):
        """Return a sentence for people."""
        why = f": {self.reason}" if self.reason else ""
        return f"Job {self.jid} waits in the master's queue{why}."

    async def timed_out(self, minions, seconds):
        """
        Return when the job has gone out to ``{minion: whether it is done}`` and they had so
        many seconds.
        """
        while True:
            minions.update(dict.fromkeys(minions.keys() & self.left_out.keys(), True))
            if not self.waits:
                break
            await asyncio.sleep(0.1)
        if not all(minions.values()):
            await asyncio.sleep(seconds)


class Wait:
    """
    The wait for answers to a job. If ``queued`` is None, nothing here does anything.
    """

    def __init__(self, queued, minions):
        self.queued = queued
        self.asked = set(minions)
        self._found = 0

    def handle(self, raw):
        """Do what :meth:`QueuedJob.handle` does."""
        return self.queued is not None and self.queued.handle(raw)

    def moves(self, found):
        """
        Return whether minions still wait, or more than the last time have answered.
        """
        if self.queued is None:
            return False
        more = found > self._found
        self._found = found
        return more or self.queued.waits

    def drop(self, minions):
        """Take the minions that do not get the job out of those that are waited for."""
        if self.queued is not None:
            minions.difference_update(self.queued.left_out)

    def rest(self, client, found, minions):
        """
        Yield what has not come as an event: a long wait may have cost the connection.
        """
        if self.queued is None:
            return
        kept = {}
        if minions - found:
            try:
                kept = client.get_cache_returns(self.queued.jid)
            except SaltClientError as exc:
                log.warning("%s", exc)
        for id_ in (minions - found).intersection(kept):
            found.add(id_)
            yield {id_: kept[id_]}
        for id_, row in _rows(self.queued.left_out, self.asked).items():
            yield {id_: row}


# Batches


def ask_part(client, others, *args, **kwargs):
    """
    Do what ``LocalClient.cmd_iter_no_block`` does for a part of a batch, and ask again if it
    is refused after ``others``.
    """
    ask = functools.partial(client.cmd_iter_no_block, *args, **kwargs)
    if others and salt.job_handler.enabled(client.opts):
        return patiently(ask)
    return ask()


def renew(opts, state, minion_tracker, now):
    """
    Keep a batch from giving up minions whose part waits in the queue: its iterators say who
    has timed out.
    """
    if not salt.job_handler.enabled(opts):
        return
    for tracked in minion_tracker.values():
        if tracked["active"]:
            _renew(state, tracked["minions"], now)


def _renew(state, minions, now):
    minions = [each for each in minions if each in state["active"]]
    state["active"].update(dict.fromkeys(minions, now))


class Parts:
    """
    The parts of the batches that the master drives: those that wait in the queue, and those
    that it refused, which outlast a restart in the state of the batch.

    :param callable publish: publishes a part, given the state of its batch and its minions
    """

    def __init__(self, opts, publish):
        self.opts = opts
        self.publish = publish
        self._now = 0
        # {job id: (when it was asked about, whether it waits, since when nobody answers)}
        self._known = {}

    def forget(self, jid):
        """A batch has ended, or a part of it was published: what is known is old."""
        self._known.pop(jid, None)

    def refused(self, state, minions, exc):
        """A part of a batch was refused."""
        log.warning("The next part of batch %s waits: %s", state["jid"], exc)
        if exc.retry_after:
            row = [list(minions), self._now + exc.retry_after]
            state.setdefault("refused", []).append(row)
        else:
            reason = str(exc).partition(". Nothing was sent")[0]
            left_out = sentences(dict.fromkeys(minions, reason))
            state.setdefault("left_out", {}).update(left_out)

    def step(self, jid, state, new_returns, now):
        """Publish again what was refused, and return returns and rows that are new."""
        self._now = now = time.time() if now is None else now
        for minions, until in state.pop("refused", ()):
            minions = [each for each in minions if each in state["active"]]
            _renew(state, minions, now)
            if now < until:
                state.setdefault("refused", []).append([minions, until])
            elif minions:
                self.publish(state, minions)
        left_out = dict(state.get("left_out") or {})
        if salt.job_handler.enabled(self.opts):
            if self._waits(jid, left_out, now):
                # nobody is late who has not been sent the job yet
                _renew(state, state["active"], now)
            if left_out:
                state["left_out"] = left_out
        return {**_rows(left_out, state["active"]), **new_returns}

    def _waits(self, jid, left_out, now):
        # the command line has no use for it
        import salt.job_handler.control  # pylint: disable=import-outside-toplevel

        asked, waits, since = self._known.get(jid, (float("-inf"), False, None))
        if not 0 <= now - asked < _ASK_SECONDS:
            try:
                reply = salt.job_handler.control.ask_sync(
                    self.opts, {"cmd": "show", "jid": jid}, timeout=2
                )
            except salt.job_handler.control.JobHandlerUnavailable as exc:
                log.info("It is not known whether batch %s waits: %s", jid, exc)
                since = now if since is None else since
                # it is started again, unless something is wrong
                waits = now - since < CALLER_SECONDS
            else:
                waits, since = bool(reply["waiting"]), None
                left_out.update(sentences(reply["left_out"]))
            self._known[jid] = (now, waits, since)
        return waits


def about(opts, jid):
    """Return ``Queued`` if a job waits, and ``LeftOut`` if minions did not get it."""
    # the command line has no use for them
    import salt.job_handler.control  # pylint: disable=import-outside-toplevel
    import salt.job_handler.store  # pylint: disable=import-outside-toplevel

    ret, jid = {}, str(jid)
    if not salt.job_handler.enabled(opts):
        reply = {"left_out": salt.job_handler.store.when_off(opts, "left_out", jid)}
    else:
        try:
            reply = salt.job_handler.control.ask_sync(opts, {"cmd": "show", "jid": jid})
        except salt.job_handler.control.JobHandlerUnavailable as exc:
            log.warning("What waits in the master's queue is missing here: %s", exc)
            reply = {}
    if reply.get("waiting"):
        # a batch waits with several publications under one job id
        ret["Queued"] = {
            "Minions": sum(line["waiting"] for line in reply["waiting"]),
            "Seconds": reply["waiting"][0]["waited"],
            "Reason": reply["waiting"][0]["reason"],
        }
    # of a batch, also those whose part was refused
    state = salt.utils.batch_state.read_batch_state(jid, opts) or {}
    gone = {**state.get("left_out", {}), **sentences(reply.get("left_out"))}
    if gone:
        ret["LeftOut"] = gone
    return ret
