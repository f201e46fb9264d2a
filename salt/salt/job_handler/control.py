"""
The private socket between the master's processes and the job handler, and what is asked
through it.

Only root and the master's user are served. Requests and replies are msgpack, each with its
length before it. The event bus would not do: nothing on it is acknowledged, large values
are trimmed, and minions choose tags. It is a Unix socket with ``ipc_mode: tcp`` as well,
as any local user could connect to a port.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import time

import salt.job_handler
import salt.job_handler.policy
import salt.job_handler.store
import salt.payload
from salt.exceptions import SaltException, SaltInvocationError
from salt.job_handler.policy import MAX_PRIORITY

log = logging.getLogger(__name__)

_LENGTH = struct.Struct("!I")

#: The process, the user and the group of a peer
_PEER = struct.Struct("3i")

#: The ids of 100,000 minions, with 64 characters each, have 7 MB.
MAX_BYTES = 16 * 1024 * 1024

#: How long a peer may take to send a request, and to take its reply, in seconds.
PEER_SECONDS = 10

#: How many peers are served at once.
MAX_PEERS = 1024

#: The job handler runs if it has said so at most so many seconds ago. It does so several
#: times a second.
ALIVE_SECONDS = 2

#: What administrators may say: the least and the most, and which kind of number. A pause
#: that has an end lasts at most a year.
_NUMBERS = {
    "limit": (1, 10**12, int),
    "priority": (-MAX_PRIORITY, MAX_PRIORITY, int),
    "seconds": (0, 366 * 86400, (int, float)),
}


class JobHandlerUnavailable(SaltException):
    """
    The job handler does not answer.

    :ivar bool gone: whether it is certain that it does not run
    """

    def __init__(self, message="", gone=False):
        super().__init__(message)
        self.gone = gone


def path(opts):
    """
    Return the path of the socket.
    """
    return os.path.join(opts["sock_dir"], "job_handler.ipc")


# ----------------------------------------------------------------------
# Whether the job handler runs, on a clock that does not jump
# ----------------------------------------------------------------------


def _sign(opts):
    return os.path.join(opts["sock_dir"], "job_handler.alive")


def beat(opts):
    """
    Say that the job handler runs.
    """
    flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW
    try:
        handle = os.open(_sign(opts), flags, 0o600)
    except OSError:
        # a link, for instance
        os.unlink(_sign(opts))
        handle = os.open(_sign(opts), flags, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.pwrite(handle, f"{time.monotonic():020.6f}".encode(), 0)
    finally:
        os.close(handle)


def alive(opts, seconds=ALIVE_SECONDS):
    """
    Return whether the job handler has said within so many seconds that it runs.
    """
    try:
        handle = os.open(_sign(opts), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            age = time.monotonic() - float(os.pread(handle, 20, 0))
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return False
    # one of before a reboot may lie ahead
    return -0.001 <= age < seconds


# ----------------------------------------------------------------------
# Asking
# ----------------------------------------------------------------------


def _pack(message):
    body = salt.payload.dumps(message, use_bin_type=True)
    if len(body) > MAX_BYTES:
        raise JobHandlerUnavailable(
            f"A request of {len(body)} bytes is too large for the job handler"
        )
    return _LENGTH.pack(len(body)) + body


async def _read(reader):
    length = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
    if length > MAX_BYTES:
        raise ValueError(f"a message of {length} bytes")
    return salt.payload.loads(await reader.readexactly(length))


async def ask(opts, request, timeout, patient=False):
    """
    Send a request to the job handler and return its reply.

    :param bool patient: whether to wait for one that hangs
    :raises JobHandlerUnavailable: if there is none within ``timeout`` seconds
    """
    if not (patient or alive(opts)):
        raise JobHandlerUnavailable("The job handler does not run, or hangs", True)
    writer = None
    packed = _pack(request)

    async def exchange():
        nonlocal writer
        reader, writer = await asyncio.open_unix_connection(path(opts))
        writer.write(packed)
        await writer.drain()
        return await _read(reader)

    try:
        reply = await asyncio.wait_for(exchange(), timeout)
    except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as exc:
        # in Python 3.11 a timeout is an OSError as well
        late = isinstance(exc, asyncio.TimeoutError)
        raise JobHandlerUnavailable(
            f"The job handler does not answer: {exc!r}", not late
        ) from exc
    finally:
        if writer is not None:
            writer.close()
    if "error" in reply:
        raise JobHandlerUnavailable(reply["error"])
    return reply


def ask_sync(opts, request, timeout=10):
    """
    Do the same as :func:`ask`, for callers without an event loop, who can wait.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(ask(opts, request, timeout, patient=True))
    finally:
        loop.close()


# ----------------------------------------------------------------------
# What the rest of the master may ask about jobs. Without an answer there is nothing to add
# to what the job cache knows
# ----------------------------------------------------------------------


def _ask_about(opts, **request):
    """
    Return the reply of the job handler, or an empty one.
    """
    if not salt.job_handler.enabled(opts):
        return {}
    try:
        return ask_sync(opts, request)
    except JobHandlerUnavailable as exc:
        log.warning("What waits in the master's queue is missing here: %s", exc)
        return {}


def queued(opts):
    """
    Return what is known of the jobs that wait, by their ids: ``Minions`` says for how
    many minions, ``Seconds`` for how long, ``Reason`` why.

    :param dict opts: the master's options
    """
    return _by_jid(_ask_about(opts, cmd="list").get("jobs", []))


def job(opts, jid):
    """
    Return ``Queued``, as :func:`queued` has it, if a job waits, and ``LeftOut``, the
    minions that did not get it, each with the sentence that says why, if there are any.

    :param dict opts: the master's options
    :param str jid: the job id
    """
    ret = {}
    reply = _ask_about(opts, cmd="show", jid=str(jid))
    left_out = reply.get("left_out")
    if not salt.job_handler.enabled(opts):
        left_out = _left_out(opts, str(jid))
    if reply.get("waiting"):
        ret["Queued"] = _by_jid(reply["waiting"])[str(jid)]
    if left_out:
        ret["LeftOut"] = salt.job_handler.sentences(left_out)
    return ret


def _left_out(opts, jid):
    """
    Return the minions that did not get a job when the job handler was on.
    """
    name = salt.job_handler.store.NAME
    if not os.path.exists(os.path.join(salt.job_handler.store.folder(opts), name)):
        return {}
    try:
        store = salt.job_handler.store.Store(opts)
        try:
            return store.left_out(jid)
        finally:
            store.close()
    except (SaltException, OSError, *salt.job_handler.store.ERRORS) as exc:
        log.info("It can't be read who was left out of job %s: %s", jid, exc)
        return {}


def _by_jid(lines):
    ret = {}
    for line in lines:
        # a batch waits with several publications under one job id
        found = ret.setdefault(
            line["jid"],
            {"Minions": 0, "Seconds": line["waited"], "Reason": line["reason"]},
        )
        found["Minions"] += line["waiting"]
    return ret


# ----------------------------------------------------------------------
# Serving
# ----------------------------------------------------------------------


def _is_trusted(sock):
    """
    Return whether a peer belongs to root or to the user of this process, as far as the
    system says; the modes of the socket and of its folder say so already.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return _PEER.unpack(peer)[1] in (0, os.geteuid())


async def _serve_peer(handle, reader, writer):
    try:
        while True:
            request = await asyncio.wait_for(_read(reader), PEER_SECONDS)
            try:
                reply = await handle(request)
            except SaltException as exc:
                reply = {"error": str(exc)}
            except Exception as exc:  # pylint: disable=broad-except
                log.exception("The job handler failed on a request")
                reply = {"error": f"{exc.__class__.__name__}: {exc}"}
            writer.write(_pack(reply))
            await asyncio.wait_for(writer.drain(), PEER_SECONDS)
    except (asyncio.IncompleteReadError, asyncio.TimeoutError, ConnectionError):
        # the peer is done, or too slow
        pass
    except Exception:  # pylint: disable=broad-except
        log.exception("The job handler got something that is not a request")


async def serve(opts, handle):
    """
    Serve requests until the server is closed.

    :param handle: coroutine function that takes a request and returns the reply
    :return: an :class:`asyncio.Server`
    """
    peers = 0

    async def connected(reader, writer):
        nonlocal peers
        peers += 1
        try:
            if not _is_trusted(writer.get_extra_info("socket")):
                log.error("The job handler does not serve a process of another user")
            elif peers > MAX_PEERS:
                log.error("The job handler serves %d processes already", MAX_PEERS)
            else:
                await _serve_peer(handle, reader, writer)
        finally:
            peers -= 1
            # not close(), which waits until the peer has taken everything
            writer.transport.abort()

    address = path(opts)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address)
    # the socket must not be open to others for a moment, so it is made with its mode
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # pylint: disable=blacklisted-function
    try:
        sock.bind(address)
    finally:
        os.umask(mask)  # pylint: disable=blacklisted-function
    return await asyncio.start_unix_server(connected, sock=sock, backlog=1024)


# ----------------------------------------------------------------------
# What administrators say
# ----------------------------------------------------------------------


def check_number(name, value):
    """
    Check what an administrator says.

    :param str name: ``limit``, ``priority`` or ``seconds``
    :raises SaltInvocationError: unless it is such a number
    """
    least, most, kind = _NUMBERS[name]
    number = isinstance(value, kind) and not isinstance(value, bool)
    if not (number and least <= value <= most):
        whole = "whole " if kind is int else ""
        raise SaltInvocationError(
            f"Give {name}: a {whole}number from {least} to {most}."
        )


class Commands:
    """
    Each command is a method ``cmd_<name>`` that takes the request and returns the reply.

    :param Dispatcher dispatcher: publishes, and knows the queue
    :param Report report: describes jobs
    :param callable reload: reads the settings again
    """

    def __init__(self, dispatcher, report, reload):
        self.dispatcher = dispatcher
        self.report = report
        self.reload = reload
        self.queue = dispatcher.queue
        self.store = dispatcher.store
        self.clock = dispatcher.clock

    async def handle(self, request):
        """
        Serve a request of the private socket.
        """
        jid = request.get("jid", "-")
        if request["cmd"] == "submitted":
            # a caller may choose any
            request["jid"] = str(jid)
        elif not isinstance(jid, str) or not 0 < len(jid) <= 100:
            raise SaltInvocationError(
                "Give a job id as salt-run jobs.list_jobs shows it."
            )
        return await getattr(self, f"cmd_{request['cmd']}")(request)

    async def cmd_submitted(self, request):
        return await self.dispatcher.submitted(request["seq"], request["jid"])

    async def cmd_check(self, request):
        fun = request["fun"]
        rule = self.queue.rules.find(
            [fun] if isinstance(fun, str) else fun,
            request["user"],
            salt.job_handler.store.unpack(request["minions"]),
        )
        rejected = rule is not None and rule.action == "reject"
        if rejected:
            self.queue.counters["rejected"] += 1
        return {"rejected": rule.reason if rejected else None}

    async def cmd_status(self, request):
        return self.report.status(self.clock())

    async def cmd_words(self, request):
        return self.report.words(self.clock())

    async def cmd_list(self, request):
        return {"jobs": self.report.jobs(self.clock(), request.get("limit"))}

    async def cmd_show(self, request):
        return self.report.show(request["jid"], self.clock())

    async def cmd_owners(self, request):
        return {"owners": self.store.owners(request["jid"])}

    async def cmd_history(self, request):
        return {"jobs": self.report.history(request["limit"])}

    async def cmd_leases(self, request):
        return {"leases": self.report.leases(self.clock(), request.get("minion"))}

    async def cmd_order(self, request):
        priority, held = request.get("priority"), request.get("held")
        if priority is not None:
            check_number("priority", priority)
        if held not in (None, True, False):
            raise SaltInvocationError("Say with True or False whether to hold the job.")
        count = self.queue.order(request["jid"], priority, held, None)
        self.dispatcher.keep_orders()
        return {"minions": count}

    async def cmd_pause(self, request):
        seconds, rules = request.get("seconds", 0), self.queue.rules
        check_number("seconds", seconds)
        rule = {**(request.get("rule") or {}), "action": "pause"}
        for error in salt.job_handler.policy.errors([rule]):
            raise SaltInvocationError(error)
        if not request["paused"]:
            rules.resume(rule)
        elif seconds:
            rules.pause({**rule, "until": self.clock() + seconds})
        else:
            rules.pause(rule)
        self.dispatcher.keep_orders()
        await self.dispatcher.resolve_rules()
        return {"paused": request["paused"]}

    async def cmd_cancel(self, request):
        minions = request.get("minions")
        if minions is not None:
            minions = set(salt.job_handler.store.unpack(minions))
        return {"cancelled": await self.dispatcher.cancel(request["jid"], minions)}

    async def cmd_reconcile(self, request):
        return {"leases": self.dispatcher.leases.doubt()}

    async def cmd_reload(self, request):
        return {"errors": await self.reload()}
