"""
The private socket between the master's processes and the job handler.

A Unix socket that only root and the master's user are served at. It carries requests and
their replies as msgpack, each with its length before it. The event bus would not do for
commands: nothing on it is acknowledged, large values are trimmed, and minions choose
tags. It is a Unix socket with ``ipc_mode: tcp`` as well, as any local user could
connect to a port.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import time

import salt.payload
from salt.exceptions import SaltException

log = logging.getLogger(__name__)

_LENGTH = struct.Struct("!I")

#: The process, the user and the group of a peer
_PEER = struct.Struct("3i")

#: A job for a list of 10,000 minions, which names each twice, has 0.7 MB with ids of 32
#: characters and 5 MB with ids of 255; one for 100,000 minions with ids of 64 has 13 MB.
MAX_BYTES = 16 * 1024 * 1024

#: For how long a peer may take to send a request, and to take its reply, in seconds.
PEER_SECONDS = 10

#: How many peers are served at once. Each worker of the master is one for each publish
#: request that it serves.
MAX_PEERS = 1024


class JobHandlerUnavailable(SaltException):
    """
    The job handler does not answer.

    :ivar bool sent: whether it may have got the request
    """

    def __init__(self, message="", sent=False):
        super().__init__(message)
        self.sent = sent


def path(opts):
    """
    Return the path of the socket.
    """
    return os.path.join(opts["sock_dir"], "job_handler.ipc")


def _sign(opts, kind):
    return os.path.join(opts["sock_dir"], f"job_handler.{kind}")


def alive(opts):
    """
    Say that the job handler is alive. It does so several times a second.
    """
    _touch(_sign(opts, "alive"))


def _touch(sign):
    """
    Set the time of a file, which is for the user of this process alone. What is there and
    can't be opened, such as a link, gives way.
    """
    flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW
    try:
        handle = os.open(sign, flags, 0o600)
    except OSError:
        os.unlink(sign)
        handle = os.open(sign, flags, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.utime(handle)
    finally:
        os.close(handle)


def _hangs(opts):
    """
    Return whether somebody has waited in vain since the job handler was last alive. Then
    nobody else needs to wait.
    """
    try:
        return os.lstat(_sign(opts, "hangs")).st_mtime > _last_alive(opts)
    except OSError:
        return False


def _last_alive(opts):
    return os.lstat(_sign(opts, "alive")).st_mtime


def _waited(opts, timeout):
    """
    Note that somebody has waited in vain, unless the job handler was alive meanwhile and
    has only too much to do.
    """
    try:
        if time.time() - _last_alive(opts) >= timeout:
            _touch(_sign(opts, "hangs"))
    except OSError:
        log.debug("It can't be noted that the job handler hangs", exc_info=True)


def _pack(message):
    body = salt.payload.dumps(message, use_bin_type=True)
    return _LENGTH.pack(len(body)) + body


async def _read(reader):
    length = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
    if length > MAX_BYTES:
        raise ValueError(f"a message of {length} bytes")
    return salt.payload.loads(await reader.readexactly(length))


def _is_trusted(sock):
    """
    Return whether a peer belongs to root or to the user of this process, as far as the
    system tells: the modes of the socket and of its folder say so already.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return _PEER.unpack(found)[1] in (0, os.geteuid())


@contextlib.contextmanager
def _in_time(writer):
    """
    Drop the peer if this takes too long.
    """
    loop = asyncio.get_running_loop()
    timer = loop.call_later(PEER_SECONDS, writer.transport.abort)
    try:
        yield
    finally:
        timer.cancel()


async def _serve_peer(handle, reader, writer):
    try:
        while True:
            with _in_time(writer):
                request = await _read(reader)
            try:
                reply = await handle(request)
            except Exception as exc:  # pylint: disable=broad-except
                log.exception("The job handler failed on a request")
                reply = {"error": f"{exc.__class__.__name__}: {exc}"}
            with _in_time(writer):
                writer.write(_pack(reply))
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        # the other side is done, or too slow
        pass
    except Exception:  # pylint: disable=broad-except
        log.exception("The job handler got something that is no request")


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
    try:
        os.unlink(address)
    except FileNotFoundError:
        pass
    # the socket must not be open to others for a moment, so it is made with its mode
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # pylint: disable=blacklisted-function
    try:
        sock.bind(address)
    finally:
        os.umask(mask)  # pylint: disable=blacklisted-function
    return await asyncio.start_unix_server(connected, sock=sock, backlog=1024)


async def ask(opts, request, timeout):
    """
    Send a request to the job handler and return its reply.

    :raises JobHandlerUnavailable: if there is none within ``timeout`` seconds
    """
    if _hangs(opts):
        raise JobHandlerUnavailable(
            "The job handler has not gone on since others asked"
        )
    writer = None
    sent = False
    packed = _pack(request)
    if len(packed) > _LENGTH.size + MAX_BYTES:
        raise JobHandlerUnavailable(
            f"A request of {len(packed)} bytes is too large for the job handler"
        )

    async def exchange():
        nonlocal writer, sent
        reader, writer = await asyncio.open_unix_connection(path(opts))
        sent = True
        writer.write(packed)
        await writer.drain()
        return await _read(reader)

    try:
        reply = await asyncio.wait_for(exchange(), timeout)
    except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as exc:
        if isinstance(exc, asyncio.TimeoutError):
            _waited(opts, timeout)
        raise JobHandlerUnavailable(
            f"The job handler does not answer: {exc!r}", sent
        ) from exc
    finally:
        if writer is not None:
            writer.close()
    return _checked(reply)


def ask_sync(opts, request, timeout=10):
    """
    Do the same as :func:`ask`, for callers without an event loop.
    """
    sent = False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout)
            sock.connect(path(opts))
            sent = True
            sock.sendall(_pack(request))
            length = _LENGTH.unpack(_receive(sock, _LENGTH.size))[0]
            reply = salt.payload.loads(_receive(sock, length))
    except OSError as exc:
        raise JobHandlerUnavailable(
            f"The job handler does not answer: {exc!r}", sent
        ) from exc
    return _checked(reply)


def _receive(sock, count):
    parts = []
    while count:
        part = sock.recv(min(count, 65536))
        if not part:
            raise ConnectionError("connection closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _checked(reply):
    if "error" in reply:
        raise JobHandlerUnavailable(reply["error"], True)
    return reply
