"""
The private socket between the master's processes and the job handler, and what is asked
through it.

Requests and replies are msgpack, each with its length before it. It is a Unix socket with
``ipc_mode: tcp`` as well, as any local user could connect to a port.
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

#: The ids of 100,000 minions, with 64 characters each, have 7 MB.
MAX_BYTES = 16 * 1024 * 1024

#: How long a peer may take to send a request, and to take its reply, in seconds.
PEER_SECONDS = 10

#: The job handler runs if it has said so at most so many seconds ago.
ALIVE_SECONDS = 2

#: What administrators may say: the least and the most, and which kind of number.
_NUMBERS = {
    "limit": (1, 10**12, int),
    "priority": (-MAX_PRIORITY, MAX_PRIORITY, int),
    # a pause that has an end lasts at most a year
    "seconds": (0, 366 * 86400, (int, float)),
}


class JobHandlerUnavailable(SaltException):
    """The job handler does not answer.

    :ivar bool gone: whether it is certain that it does not run
    """

    def __init__(self, message="", gone=False):
        super().__init__(message)
        self.gone = gone


def path(opts):
    """Return the path of the socket."""
    return os.path.join(opts["sock_dir"], "job_handler.ipc")


def beat(opts):
    """Say that the job handler runs: the time of its socket is one that does not jump."""
    os.utime(path(opts), (time.monotonic(),) * 2)


def alive(opts, seconds=ALIVE_SECONDS):
    """Return whether the job handler has said within so many seconds that it runs."""
    try:
        age = time.monotonic() - os.lstat(path(opts)).st_mtime
    except OSError:
        return False
    # one of before a reboot may lie ahead
    return -0.001 <= age < seconds


# Asking


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


async def _exchange(opts, packed):
    reader, writer = await asyncio.open_unix_connection(path(opts))
    try:
        writer.write(packed)
        await writer.drain()
        return await _read(reader)
    finally:
        writer.close()


async def ask(opts, request, timeout, patient=False):
    """Send a request to the job handler and return its reply.

    :param bool patient: whether to wait for one that hangs
    :raises JobHandlerUnavailable: if there is none within ``timeout`` seconds
    """
    if not (patient or alive(opts)):
        raise JobHandlerUnavailable("The job handler does not run, or hangs", True)
    try:
        reply = await asyncio.wait_for(_exchange(opts, _pack(request)), timeout)
    except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as exc:
        # in Python 3.11 a timeout is an OSError as well
        late = isinstance(exc, asyncio.TimeoutError)
        raise JobHandlerUnavailable(
            f"The job handler does not answer: {exc!r}", not late
        ) from exc
    if "error" in reply:
        raise JobHandlerUnavailable(reply["error"])
    return reply


def ask_sync(opts, request, timeout=10):
    """Do the same as :func:`ask`, for callers without an event loop, who can wait."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(ask(opts, request, timeout, patient=True))
    finally:
        loop.close()


# Serving


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
    """Serve requests with a coroutine function, and return the server."""

    async def connected(reader, writer):
        try:
            await _serve_peer(handle, reader, writer)
        finally:
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


# What administrators say


def check_number(name, value):
    """
    :raises SaltInvocationError: unless this is a ``limit``, ``priority`` or ``seconds``
    """
    least, most, kind = _NUMBERS[name]
    number = isinstance(value, kind) and not isinstance(value, bool)
    if not (number and least <= value <= most):
        whole = "whole " if kind is int else ""
        raise SaltInvocationError(
            f"Give {name}: a {whole}number from {least} to {most}."
        )


class Commands:
    """Each method ``cmd_<name>`` takes a request and returns the reply."""

    def __init__(self, dispatcher, reload):
        self.dispatcher = dispatcher
        self.report = dispatcher.report
        self.reload = reload
        self.queue = dispatcher.queue
        self.store = dispatcher.store
        self.clock = dispatcher.clock

    async def handle(self, request):
        """Serve a request of the private socket."""
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
            self.report.counters["rejected"] += 1
        return {"rejected": rule.reason if rejected else None}

    async def cmd_status(self, request):
        return self.report.status(self.clock())

    async def cmd_list(self, request):
        return {"jobs": self.report.jobs(self.clock(), request.get("limit"))}

    async def cmd_show(self, request):
        return self.report.show(request["jid"], self.clock())

    async def cmd_owners(self, request):
        return {"owners": self.store.owners(request["jid"])}

    async def cmd_history(self, request):
        return {"jobs": self.report.history(request["limit"])}

    async def cmd_order(self, request):
        priority, held = request.get("priority"), request.get("held")
        if priority is not None:
            check_number("priority", priority)
        if held not in (None, True, False):
            raise SaltInvocationError("Say with True or False whether to hold the job.")
        return {"minions": self.dispatcher.order(request["jid"], priority, held)}

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
        self.dispatcher.wake()
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
