"""
The side of the master's workers: ``ClearFuncs.publish`` asks here for a place in the queue
before it gives out a job id, and then hands the job over instead of publishing it. It
writes both into the store itself, and the job handler says how far the job is.
"""

import asyncio
import fnmatch
import logging
import os
import time
import uuid

import salt.job_handler
import salt.job_handler.client
import salt.job_handler.config
import salt.job_handler.control
import salt.job_handler.policy
import salt.job_handler.postgres
import salt.job_handler.store
import salt.payload
import salt.utils.resource_registry
from salt.job_handler.control import JobHandlerUnavailable
from salt.job_handler.leases import UNKNOWN
from salt.job_handler.store import ERRORS, UNAVAILABLE, DamageError, StoreError

log = logging.getLogger(__name__)

#: How long the job handler may take to say how far a job is, in seconds.
ANSWER_SECONDS = 1

#: How long a second try of a publish request waits for the first one's job id.
TWIN_SECONDS = 10

#: A caller that was refused comes back after so many seconds, or up to twice as many.
RETRY_SECONDS = 10

#: The target and the arguments of a job may take so many bytes.
JOB_BYTES = 8 * 1024 * 1024

#: The functions that end a job on minions: what waits of it for these minions ends too.
KILLS = ("saltutil.kill_job", "saltutil.term_job")

#: What a database that can't be used raises.
_UNUSABLE = (
    StoreError,
    DamageError,
    OSError,
    # a text that can't be stored
    ValueError,
    *ERRORS,
)

# {process: store}, as a connection must not be used after a fork
_stores = {}

#: A database that can't be reached is left alone for so many times as long as that took.
RECONNECT_TIMES = 4

# {process: (until when it is left alone, what happened)}
_failures = {}

# the settings that were read again, as this process knew them last
_sections = {}


def _store(opts):
    key = os.getpid(), salt.job_handler.store.folder(opts)
    store = _stores.get(key)
    # a damaged database is put aside, and what is written there is lost
    if store is None or store.replaced():
        _stores.clear()
        store = _stores[key] = _connect(opts, key)
    return store


def _connect(opts, key):
    begin = time.monotonic()
    until, failure = _failures.get(key, (begin, None))
    if begin < until:
        raise failure.with_traceback(None)
    try:
        return salt.job_handler.postgres.connect(opts)
    except UNAVAILABLE as exc:
        end = time.monotonic()
        _failures[key] = end + RECONNECT_TIMES * (end - begin), exc
        raise


def exempt(section, fun):
    """Return whether a function, or a list of them, is published at once."""
    functions = [fun] if isinstance(fun, str) else fun
    return bool(functions) and all(
        any(fnmatch.fnmatchcase(name, glob) for glob in section["exempt"])
        for name in functions
    )


def is_fixed(opts, minions):
    """
    Return whether the target of a job must not change: a master of masters does not know
    all minions, and a target says on which resources of a minion the job runs.
    """
    if opts.get("order_masters"):
        return True
    try:
        registry = salt.utils.resource_registry.get_registry(opts)
        if not registry.stats()["primary"]["occupied"]:
            return False
        return any(
            registry.get_resources_for_minion(minion)
            or registry.resolve_bare_resource_id(minion)
            for minion in minions
        )
    except Exception:  # pylint: disable=broad-except
        log.exception("It is not known whether minions have resources")
        return False


def _killed(clear_load):
    fun, args = clear_load["fun"], clear_load.get("arg") or ()
    calls = [(fun, args)] if isinstance(fun, str) else zip(fun, args)
    ret = []
    for function, arguments in calls:
        if function not in KILLS or not isinstance(arguments, (list, tuple)):
            continue
        for argument in arguments[:1]:
            if isinstance(argument, dict):
                argument = argument.get("jid") if argument.get("__kwarg__") else None
            if argument is not None:
                ret.append(str(argument))
    return ret


def _section(opts):
    name = salt.job_handler.store.folder(opts)
    try:
        _sections[name] = _store(opts).get_meta("section")
    except _UNUSABLE as exc:
        log.debug("The settings of the job handler can't be read: %s", exc)
    return _sections.get(name) or salt.job_handler.config.settings(opts)


async def enter(
    opts, event, clear_load, request, minions=(), forced=False, auth_type="user"
):
    """Take a publish request that is authorised and has no job id yet.

    :param request: what the client says of itself, which may be anything
    :param bool forced: publish it at once, whatever the limits are
    :return: a :class:`Handover`, or None if the job handler has no part in this job
    """
    if not salt.job_handler.enabled(opts):
        return None
    section = _section(opts)
    user = clear_load["user"]
    privileged = auth_type == "user" and (
        user in ("root", opts.get("user")) or user.startswith("sudo_")
    )
    ret = Handover(opts, event, section, clear_load, minions, privileged)
    for jid in _killed(clear_load):
        await ret.cancel(jid)
    if exempt(section, clear_load["fun"]):
        return None
    ret.read(request if isinstance(request, dict) else {}, forced)
    await ret.reserve()
    return ret


class Handover:
    """One publish request, ``privileged`` if it is of root or the master's user.

    :ivar dict answer: what to answer without publishing anything, or None
    :ivar bool direct: whether the worker publishes the job itself
    """

    def __init__(self, opts, event, section, clear_load, minions, privileged):
        self.opts = opts
        self.event = event
        self.section = section
        self.user = clear_load["user"]
        self.fun = clear_load["fun"]
        self.target = clear_load.get("tgt")
        self.minions = minions
        self.privileged = privileged
        self.size = sum(
            len(salt.payload.dumps(clear_load.get(name), use_bin_type=True))
            for name in ("tgt", "arg", "kwargs")
        )
        self.answer = self.key = self.seq = None
        self.direct = False
        # whether something was written, and only the answer of the database was lost
        self.doubt = False
        self.info = {}

    def refuse(self, message, retry_after=0):
        """
        Refuse the job, which may be tried again after so many seconds, or never (0).
        """
        error = {
            "name": salt.job_handler.REFUSED,
            "message": message,
            "retry_after": retry_after,
        }
        self.answer = {"error": error}

    async def _ask(self, **request):
        return await salt.job_handler.control.ask(self.opts, request, ANSWER_SECONDS)

    async def cancel(self, jid):
        """Take what waits of a job for these minions out of the queue."""
        try:
            minions = list(self.minions)
            if self.opts.get("order_masters"):
                # it does not know all minions, but it does know what "*" means
                minions = [UNKNOWN] if self.target == "*" else []
            minions = salt.job_handler.store.pack(minions)
            await self._ask(cmd="cancel", jid=jid, minions=minions)
        except JobHandlerUnavailable as exc:
            log.error("What waits of job %s was not taken back: %s", jid, exc)

    def read(self, request, forced):
        """Take over what the client says of itself. It may say anything."""
        name, timeout = request.get("id"), request.get("timeout")
        if isinstance(name, str) and 0 < len(name) <= 64 and name.isprintable():
            # one user must not learn of another one's jobs
            self.key = f"{self.user}\n{name}"
        sync = request.get("sync") is True and isinstance(timeout, (int, float))
        # a timeout that is not a number is not between two
        sync = sync and 0 <= timeout <= 10**9
        extend = request.get("extend") is True or self.section["sync_wait"] == "extend"
        caller = request.get("caller")
        pair = isinstance(caller, (list, tuple)) and [*map(type, caller)] == [int, int]
        # the job handler that decides may run on another machine
        pair = pair and self.section["store"] == "sqlite"
        # one in another container looks as if it had ended
        pair = pair and salt.job_handler.client.runs(caller)
        priority = request.get("priority")
        if not salt.job_handler.policy.is_priority(priority):
            priority = 0
        self.info = {
            "fun": self.fun,
            "sync": sync,
            "timeout": timeout if sync and not extend else None,
            "caller": list(caller) if sync and pair else None,
            "forced": forced,
            "ticket": uuid.uuid4().hex,
            # only root comes before others
            "priority": priority if self.privileged else min(0, priority),
        }

    async def reserve(self):
        """Get a place in the queue, before anything is written or announced."""
        if self.size > JOB_BYTES:
            self.refuse(
                f"The job takes {self.size} bytes, and the job handler takes at most"
                f" {JOB_BYTES}. Nothing was sent; give minions the data as a file or a"
                " pillar."
            )
            return
        until = asyncio.get_running_loop().time() + TWIN_SECONDS
        state, jid = self._reserve()
        while state == "new" and asyncio.get_running_loop().time() < until:
            # the first try of this request has no job id yet
            await asyncio.sleep(0.1)
            state, jid = self._reserve()
        if state == "new":
            # a further one would be a second job, in the job cache and for salt-ssh
            self.refuse(
                "The same request is being served already: see with salt-run"
                " jobs.list_jobs whether its job runs before you send it again."
            )
        elif state is not None:
            await self._repeat(state, jid)
        elif self.answer is None and not self.direct:
            rejects = any(rule["action"] == "reject" for rule in self.section["rules"])
            if rejects or self.section["fail_mode"] == "closed":
                # refused later, the job would be in the job cache
                await self._check()
            if self.answer is not None:
                self.abandon()

    async def _check(self):
        try:
            reply = await self._ask(
                cmd="check",
                fun=self.fun,
                user=self.user,
                minions=salt.job_handler.store.pack(list(self.minions)),
            )
        except JobHandlerUnavailable as exc:
            if self.section["fail_mode"] == "closed":
                self._unavailable(exc)
            # otherwise what hands the job over decides, and the job has a row
            return
        if reply["rejected"]:
            self.refuse(f"{reply['rejected']}. Nothing was sent.")

    def _write(self, name, *args):
        """Call a method of the store, once more if its connection was cut."""
        store = _store(self.opts)
        try:
            return getattr(store, name)(*args)
        except UNAVAILABLE:
            if not store.replaced():
                raise
            self.doubt = True
        ret = getattr(_store(self.opts), name)(*args)
        self.doubt = False
        return ret

    def _reserve(self):
        """
        Return the state and the job id of the first try of this request, or Nones.
        """
        section = self.section
        most, most_bytes = section["max_queue_size"], section["max_queue_bytes"]
        if self.info["forced"]:
            most = most_bytes = 10**12
        asked = self.key, self.user, self.privileged, self.size, most, most_bytes
        try:
            self.seq, state, jid = self._write("reserve", *asked)
        except _UNUSABLE as exc:
            self._unwritten(exc)
            return None, None
        if self.seq is not None:
            return state, jid
        # there is no place, and the second value is the sentence. Not all callers come
        # back at the same moment
        wait = RETRY_SECONDS + os.urandom(1)[0] % RETRY_SECONDS
        self.refuse(f"{state}. Nothing was sent; try again in {wait} seconds.", wait)
        return None, None

    async def _repeat(self, state, jid):
        load = {"jid": jid, "minions": list(self.minions), "missing": []}
        self.answer = {"enc": "clear", "load": load}
        if state != "direct":
            try:
                load.update(await self._ask(cmd="submitted", seq=self.seq, jid=jid))
            except JobHandlerUnavailable as exc:
                log.info("It is not known how far a job is: %s", exc)

    def abandon(self):
        """The request gets no job id."""
        if self.seq is not None:
            try:
                _store(self.opts).abandon(self.seq)
            except _UNUSABLE as exc:
                log.error("A place in the queue stays for ten minutes: %s", exc)

    async def submit(self, payload, minions, missing):
        """
        Hand the job over; return the answer, or None if the worker has to publish it.
        """
        if self.direct:
            return None
        # a list of targets may name a minion twice
        ids = sorted(set(minions))
        fixed = is_fixed(self.opts, minions)
        if self.opts.get("order_masters"):
            # who is behind syndics is not known, so the job itself counts
            ids = [UNKNOWN]
        answer = {"jid": payload["jid"], "minions": minions, "missing": missing}
        try:
            info = {**self.info, "fixed": fixed}
            if self.section["store"] == "sqlite":
                info["worker"] = salt.job_handler.client.me()
            self._write("complete", self.seq, payload["jid"], payload, ids, info)
        except _UNUSABLE as exc:
            self._unwritten(exc)
            return self.answer
        try:
            reply = await self._ask(cmd="submitted", seq=self.seq, jid=payload["jid"])
        except JobHandlerUnavailable as exc:
            if not self._take_back(exc):
                # it has the job, and is only too slow to say so
                answer["job_handler"] = {
                    "publication": self.seq,
                    "state": "queued",
                    "waiting": len(ids),
                    "ticket": self.info["ticket"],
                }
                return {"enc": "clear", "load": answer}
            return self.answer
        if reply.get("job_handler"):
            answer["job_handler"] = reply["job_handler"]
        return {"enc": "clear", "load": answer}

    def _take_back(self, exc):
        """Return whether the job was taken from a job handler that has stopped."""
        if not exc.gone and salt.job_handler.control.alive(self.opts, ANSWER_SECONDS):
            return False
        closed = self.section["fail_mode"] == "closed"
        state = "discarded" if closed else "direct"
        try:
            if not self._write("take_back", self.seq, state, "fail_mode is closed"):
                return False
        except _UNUSABLE as error:
            if self.doubt:
                self._unwritten(error)
                return True
            log.error("Job %s stays in the queue: %s", self.seq, error)
            return False
        self._unavailable(exc)
        return True

    def _unwritten(self, exc):
        """Refuse what can't be written; ``fail_mode`` decides if somebody holds the database."""
        if self.doubt and self.seq is not None:
            # the job handler of another master may publish it
            log.critical("It is not known whether a job was written down: %s", exc)
            self.refuse(
                "The database was lost while the master wrote the job down: see with"
                " salt-run jobs.list_jobs whether it runs before you send it again."
            )
            return
        if salt.job_handler.store.is_busy(exc):
            self._unavailable(exc)
            return
        log.critical("The job handler's queue can't be written: %s", exc)
        self.refuse(
            f"The master can't write the job down ({exc}). Nothing was sent; make room in"
            " its cachedir, or see its log, and try again.",
            RETRY_SECONDS,
        )

    def _unavailable(self, exc):
        self.direct = True
        mode = self.section["fail_mode"]
        log.critical("%s; fail_mode is %s", exc, mode)
        self.event.fire_event(
            {"reason": str(exc), "fail_mode": mode}, "salt/job_handler/unavailable"
        )
        if mode == "closed":
            self.refuse(
                "The master's job handler does not answer, and fail_mode is closed."
                f" Nothing was sent; try again in {RETRY_SECONDS} seconds.",
                RETRY_SECONDS,
            )
