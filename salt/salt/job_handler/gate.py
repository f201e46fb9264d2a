"""
The master's side of the job handler: what ``ClearFuncs.publish`` asks before it gives
out a job id, and whom it hands the job to instead of publishing it.
"""

import asyncio
import logging
import uuid

import salt.job_handler
import salt.job_handler.claims
import salt.job_handler.config
import salt.job_handler.ipc
import salt.job_handler.target
import salt.job_handler.vocabulary as vocabulary
import salt.payload
import salt.utils.event
import salt.utils.metrics

log = logging.getLogger(__name__)

#: How long the job handler may take to answer, in seconds.
ANSWER_SECONDS = 1.0

#: A job may take so many bytes, without the ids of its minions. Together they have to fit
#: into a request to the job handler.
JOB_BYTES = salt.job_handler.ipc.MAX_BYTES // 2

#: How long a second try of a publish request waits for the first one's job id.
TWIN_SECONDS = 10.0


def exempt(section, fun):
    """
    Return whether a function is published without asking the job handler.

    :param dict section: the settings
    :param fun: a function, or the list of functions of a compound command
    """
    funs = [fun] if isinstance(fun, str) else fun
    return bool(funs) and all(fun in section["exempt"] for fun in funs)


def _killed(clear_load):
    """
    Return the id of the job that is about to be killed, or None.
    """
    if clear_load["fun"] not in vocabulary.KILLS:
        return None
    for arg in clear_load.get("arg") or ():
        if isinstance(arg, dict):
            arg = arg.get("jid") if arg.get("__kwarg__") else None
        return None if arg is None else str(arg)
    return None


async def enter(opts, event, clear_load, request, minions=(), forced=False):
    """
    Take a publish request that is authorised and has no job id yet.

    :param dict opts: the master's options
    :param event: the master's event bus
    :param dict clear_load: the publish request
    :param request: what the client says of itself, see :mod:`salt.job_handler.client`
    :param minions: the ids of those it is for
    :param bool forced: publish at once whatever the limits are, and charge it
    :return: a :class:`Gate`, or None if the job handler has no part in this job
    """
    if not salt.job_handler.enabled(opts):
        return None
    section = salt.job_handler.config.settings(opts)
    gate = Gate(opts, event, section, clear_load["user"], forced)
    killed = _killed(clear_load)
    if killed is not None:
        await gate.cancel(killed, minions)
    if exempt(section, clear_load["fun"]):
        gate.direct = True
        return gate if gate.cancelled else None
    gate.read(request)
    if not forced:
        await gate.reserve(_size(clear_load))
    return gate


def _size(clear_load):
    """
    Return about how many bytes a job takes.
    """
    return sum(
        len(salt.payload.dumps(clear_load.get(name), use_bin_type=True))
        for name in ("tgt", "arg", "kwargs")
    )


class Gate:
    """
    One publish request on its way through the job handler.

    :ivar answer: what to answer without publishing anything, or None
    """

    def __init__(self, opts, event, section, user, forced=False):
        self.opts = opts
        self.event = event
        self.section = section
        self.user = user
        self.answer = None
        self.forced = forced
        self.direct = False
        self.submission = uuid.uuid4().hex
        self.key = None
        self.sync = False
        self.timeout = None
        self.extend = False
        self.caller = None
        self.cancelled = 0

    async def cancel(self, jid, minions):
        """
        Take what waits of a job out of the queue.

        :param minions: for these minions
        """
        packed = salt.payload.dumps(list(minions), use_bin_type=True)
        ask = {"cmd": "cancel", "jid": jid, "minions": packed}
        try:
            reply = await salt.job_handler.ipc.ask(self.opts, ask, ANSWER_SECONDS)
        except salt.job_handler.ipc.JobHandlerUnavailable as exc:
            log.error("What waits of job %s was not taken back: %s", jid, exc)
            return
        self.cancelled = reply["cancelled"]

    def complete(self, load):
        """
        Add to the answer of the master how many minions do not get the job that was
        to be ended.
        """
        if self.cancelled:
            load["job_handler"] = {"cancelled": self.cancelled}
        return load

    def read(self, request):
        """
        Take over what the client says of itself. It may say anything.
        """
        if not isinstance(request, dict):
            return
        if isinstance(request.get("id"), str) and 0 < len(request["id"]) <= 64:
            # one user can't learn of another one's jobs
            self.key = f"{self.user}\n{request['id']}"
        timeout = request.get("timeout")
        if request.get("sync") is True and isinstance(timeout, (int, float)):
            self.sync = True
            self.timeout = max(0, timeout)
            self.extend = (
                request.get("extend") is True or self.section["sync_wait"] == "extend"
            )
            caller = request.get("caller")
            if isinstance(caller, (list, tuple)) and [*map(type, caller)] == [int, int]:
                self.caller = list(caller)

    async def reserve(self, size):
        """
        Ask for a place in the queue, before anything is written or announced.

        :param int size: how many bytes the job takes
        """
        if size > JOB_BYTES:
            self.answer = _refusal(
                f"The job takes {size} bytes, and the job handler takes at most"
                f" {JOB_BYTES}. Nothing was sent; give minions the data as a file or a"
                " pillar.",
                10,
            )
            return
        ask = {
            "cmd": "reserve",
            "submission": self.submission,
            "idempotency_key": self.key,
            "size": size,
        }
        loop = asyncio.get_running_loop()
        until = loop.time() + TWIN_SECONDS
        try:
            while True:
                reply = await salt.job_handler.ipc.ask(self.opts, ask, ANSWER_SECONDS)
                if reply["state"] != vocabulary.TWIN or loop.time() >= until:
                    break
                # the first try of this request has no job id yet
                await asyncio.sleep(0.1)
        except salt.job_handler.ipc.JobHandlerUnavailable as exc:
            self._unavailable(exc)
            return
        if reply["state"] == vocabulary.ANSWERED:
            self.answer = {"enc": "clear", "load": reply["answer"]}
        elif reply["state"] == vocabulary.FULL:
            self.answer = _refusal(
                "{}. Nothing was sent; try again in {} seconds.".format(
                    reply["sentence"], reply["retry_after"]
                ),
                reply["retry_after"],
            )
        elif reply["state"] == vocabulary.TWIN:
            self.answer = _refusal(
                "The same request is being served already. Nothing was sent.", 10
            )

    async def submit(self, payload, minions, missing):
        """
        Hand the job over.

        :param dict payload: what minions are to get
        :return: the answer to the client, or None if the caller has to publish by
            itself
        """
        if self.direct:
            return None
        answer = {"jid": payload["jid"], "minions": minions, "missing": missing}
        # a list of targets may name a minion twice
        ids = sorted(set(minions))
        ask = {
            "cmd": "submit",
            "submission": self.submission,
            "idempotency_key": self.key,
            "load": payload,
            "count": len(ids),
            "ids": salt.payload.dumps(ids, use_bin_type=True),
            "sync": self.sync,
            "caller": self.caller,
            "timeout": self.timeout if self.sync and not self.extend else None,
            "forced": self.forced,
            "fixed": salt.job_handler.target.is_fixed(self.opts, minions),
        }
        try:
            reply = await salt.job_handler.ipc.ask(self.opts, ask, ANSWER_SECONDS)
        except salt.job_handler.ipc.JobHandlerUnavailable as exc:
            if exc.sent and not salt.job_handler.claims.claim(
                self.opts, self.submission, salt.job_handler.claims.WORKER
            ):
                # it has the job, and was only too slow to say so
                answer["job_handler"] = {
                    "state": vocabulary.QUEUED,
                    "waiting": len(ids),
                    "ticket": self.submission,
                }
                return {"enc": "clear", "load": answer}
            self._unavailable(exc)
            return self.answer
        if reply["state"] == vocabulary.UNKEPT:
            self._unkept(reply)
            return self.answer
        self.complete(answer)
        if reply.get("job_handler"):
            answer.setdefault("job_handler", {}).update(reply["job_handler"])
        return {"enc": "clear", "load": answer}

    def _unkept(self, reply):
        """
        What can't be written down is refused, whatever ``fail_mode`` says: published
        without it, each job would get past the limits.
        """
        log.critical("The job handler can't write: %s", reply["reason"])
        self.answer = _refusal(
            "The master can't write the job down ({}). Nothing was sent; make room in"
            " its cachedir and try again.".format(reply["reason"]),
            10,
        )

    def _unavailable(self, exc):
        """
        Do as ``fail_mode`` says.
        """
        self.direct = True
        mode = self.section["fail_mode"]
        log.critical("%s; fail_mode is %s", exc, mode)
        salt.utils.metrics.counter(
            "salt.job_handler.unavailable",
            description="Publish requests that the job handler did not answer.",
        ).add(1, attributes={"result": mode})
        self.event.fire_event(
            {"reason": str(exc), "fail_mode": mode}, "salt/job_handler/unavailable"
        )
        if mode == "closed":
            self.answer = _refusal(
                "The master's job handler does not answer, and fail_mode is closed."
                " Nothing was sent; try again in 10 seconds.",
                10,
            )


def _refusal(message, retry_after):
    """
    Return the answer to a request that is refused.
    """
    return {
        "error": {
            "name": vocabulary.REFUSED,
            "message": message,
            "retry_after": retry_after,
        }
    }
