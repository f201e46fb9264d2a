"""The bed's salt-master.

Real, with everything of its own: configuration, keys, caches, sockets, ports. Every option that the bed does not need
keeps Salt's default, so that what is measured is what a user would see.
"""

from __future__ import annotations

import getpass
import resource
import secrets
import signal
import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

import msgpack
import yaml
from zmq.constants import SocketType
from zmq.sugar.context import Context

from harness.choices import TRANSPORT
from harness.errors import DiskError, MasterError, ProcessError, StartError
from harness.paths import write_private
from harness.processes.command import Command, Layer
from harness.processes.deadline import until
from harness.processes.ports import HOST, is_ours, listens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.bed.settings import Tree
    from harness.processes.processes import Process, Processes

_Held = TypeVar("_Held")


def at_work(cache_dir: Path, job_cache: Path) -> list[str]:
    """Return the ids of the batches that have a part left or on its way, of a master with these folders.

    Batches that a client drives are left out: if the client was killed they stay in the index, but never go on.
    Source: salt.utils.batch_state (write_active_index, write_batch_state), which replaces each file whole.
    """
    listed: list[str] = _read(cache_dir / "batch_active.p", [])
    # by their content, as the name of a job's folder depends on the option hash_type
    paths = job_cache.glob("*/*/.batch.p") if listed else ()
    states: list[dict[str, Any]] = [_read(path, {}) for path in paths]
    return sorted(state["jid"] for state in states if state and state["jid"] in listed and _goes_on(state))


def _goes_on(state: dict[str, Any]) -> bool:
    return state["driver"] == "master" and not state["halted"] and bool(state["pending"] or state["active"])


def _read(path: Path, nothing: _Held) -> _Held:
    """Return what a file of Salt's holds, `nothing` if there is none (any more) or Salt can't read it either."""
    try:
        # arguments may be anything that YAML has, and returns any bytes
        held = msgpack.unpackb(path.read_bytes(), strict_map_key=False, unicode_errors="surrogateescape")
        return cast("_Held", held)
    except (FileNotFoundError, ValueError):
        return nothing


# {"enc": "clear", "load": {"cmd": "ping"}, "version": 3} as Salt's messages are encoded (msgpack)
ANSWER: Final = b"\x81\xa3cmd\xa4ping"
PING: Final = b"\x83\xa3enc\xa5clear\xa4load" + ANSWER + b"\xa7version\x03"
# what is in the answer of a router that could not reach the workers, who send the load back
ERROR: Final = b"error"
CONNECT_S: Final = 1.0
READ_BYTES: Final = 4096


class ZeromqPing(AbstractContextManager["ZeromqPing"]):
    """A REQ socket, which waits for its server by itself."""

    def __init__(self, port: int, host: str = HOST) -> None:
        """Ask the server on this port, as soon as there is one."""
        self._context = Context()
        self._socket = self._context.socket(SocketType.REQ)
        self._socket.connect(f"tcp://{host}:{port}")
        self._socket.send(PING)

    def __exit__(self, *_error: object) -> None:
        """Close the socket, whether it was answered or not."""
        self._context.destroy(linger=0)

    def answered(self) -> bool:
        """Say whether the answer has come."""
        return bool(self._socket.poll(0))


class StreamPing(AbstractContextManager["StreamPing"]):
    """A connection that holds one question, for as long as its answer takes.

    A second question while the first one waits is not harmless, see `harness.bed.master.Master.lets_ask`.
    """

    question: ClassVar[bytes]
    end: ClassVar[bytes]

    def __init__(self, port: int, host: str = HOST) -> None:
        """Ask the server on this port, as soon as there is one."""
        self._address = host, port
        self._connection: socket.socket | None = None
        self._data = b""

    def __exit__(self, *_error: object) -> None:
        """Close the connection, whether the question was answered or not."""
        self._close()

    def answered(self) -> bool:
        """Say whether the answer has come; who refuses, hangs up or answers with an error is asked again."""
        try:
            if self._connection is None:
                self._connection = socket.create_connection(self._address, CONNECT_S)
                self._connection.sendall(self.question)
                self._connection.setblocking(False)
            more = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            self._close()
            return False
        self._data += more
        answer = self._data.partition(self.end)[2]
        if ANSWER in answer:
            return True
        if ERROR in answer or not more:
            self._close()
        return False

    def _close(self) -> None:
        """End the connection and forget what came over it."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._data = b""


class TcpPing(StreamPing):
    """A frame of a head and a body in msgpack, which is answered by another one."""

    question = b"\x82\xa4head\x81\xa3mid\xa1p\xa4body" + PING
    end = b"body"


class WsPing(StreamPing):
    """The handshake of a WebSocket and a frame (masked with zeros), answered by a header and a frame."""

    question = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        + bytes((0x82, 0x80 | len(PING), 0, 0, 0, 0))
        + PING
    )
    end = b"\r\n\r\n"


PINGS: Final[Mapping[str, type[ZeromqPing | StreamPing]]] = {"zeromq": ZeromqPing, "tcp": TcpPing, "ws": WsPing}
"""A question for each transport, by the name that Salt's option `transport` has for it."""


STATES = Path(__file__).resolve().parent / "states"
READY_S = 60.0
STOP_S = 20.0
# the grain by which the master knows the minions of its bed
GRAIN = "saltbed"
# Salt puts every path below root_dir, so logs get there through a link
LOGS = "log"
CLIENTS = ("local", "local_async", "local_batch", "local_subset", "runner", "runner_async", "wheel", "wheel_async")
PILLAR_QUERY = "SELECT suse_minion_pillars(%s)"
# with `ipc_mode: tcp` its processes talk over these instead of Unix sockets
EVENT_PORT = "tcp_master_pub_port"
IPC_PORTS = (EVENT_PORT, "tcp_master_pull_port", "tcp_master_publish_pull", "tcp_master_workers")


@dataclass(frozen=True)
class Master:
    """Where the master is; every path but the log lies in the temporary folder.

    `event_port` is that of its event bus with `ipc_mode: tcp`; otherwise the bus is a Unix socket. `zmq_filtering` is
    its option, which its minions must have as well. `host` is the address at which it listens. `word` lets minions in:
    others on the machine reach the ports, and with an accepted key they would get every job.
    """

    home: Path
    log: Path
    request_port: int
    publish_port: int
    transport: str = TRANSPORT
    event_port: int | None = None
    zmq_filtering: bool = False
    host: str = HOST
    word: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    @property
    def word_file(self) -> Path:
        """Return the file of `word`, which is there unless the settings say something else about keys."""
        return self.home / "accepted" / GRAIN

    def minion_options(self) -> dict[str, Any]:
        """Return the options by which a real minion knows the word."""
        return {"autosign_grains": [GRAIN], "grains": {GRAIN: self.word}}

    @property
    def config_dir(self) -> Path:
        """Return the folder of its configuration, as the option -c of Salt's commands takes it."""
        return self.home / "etc"

    @property
    def cache_dir(self) -> Path:
        """Return its cache folder."""
        return self.home / "cache"

    @property
    def job_cache(self) -> Path:
        """Return its cache of jobs and their returns."""
        return self.cache_dir / "jobs"

    @property
    def pki_dir(self) -> Path:
        """Return the folder of its keys."""
        return self.home / "pki"

    @property
    def sock_dir(self) -> Path:
        """Return the folder of its Unix sockets."""
        return self.home / "run"

    def lets_listen(self) -> bool:
        """Say whether its event bus takes connections."""
        if self.event_port is not None:
            return listens(socket.AF_INET, (HOST, self.event_port))
        return listens(socket.AF_UNIX, str(self.sock_dir / "master_event_pub.ipc"))

    def lets_ask(self) -> bool:
        """Say whether a question reaches the workers.

        Over tcp and ws it goes through a router, which connects to the workers' sockets with the first question. When
        they do not listen yet it fails, and connects again twice at once: what goes over one of the two connections
        waits a minute for its answer. So nobody asks before they listen.
        """
        if self.transport == "zeromq":
            return True
        return listens(socket.AF_INET, (self.host, self.request_port)) and all(
            listens(socket.AF_UNIX, str(path)) for path in self.sock_dir.glob("workers-*.ipc")
        )

    def running(self) -> list[str]:
        """Return the ids of its own jobs that are at work: runners, and batches that it drives itself.

        Each runner has a file while it runs; one whose process was killed leaves its file behind. Source:
        salt.client.mixins.SyncClientMixin.low.
        """
        folder = self.cache_dir / "proc"
        runners = [path.name for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
        return sorted([*runners, *at_work(self.cache_dir, self.job_cache)])

    def options(self) -> dict[str, Any]:
        """Return what the configuration needs for this to be a master apart from any other on the machine."""
        return {
            "root_dir": str(self.home),
            "user": getpass.getuser(),
            "interface": self.host,
            "publish_port": self.publish_port,
            "ret_port": self.request_port,
            "transport": self.transport,
            "pki_dir": str(self.pki_dir),
            "cachedir": str(self.cache_dir),
            # Salt puts this one below the machine's cache, whatever cachedir says
            "extension_modules": str(self.cache_dir / "extmods"),
            "sock_dir": str(self.sock_dir),
            "pidfile": str(self.home / "master.pid"),
            "log_file": str(self.home / LOGS / self.log.name),
            "key_logfile": str(self.home / LOGS / "key.log"),
            "log_level": "error",
            "log_level_logfile": "warning",
            "autosign_grains_dir": str(self.word_file.parent),
            # the highest that this process may have; Salt complains of its own default
            "max_open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            "presence_events": False,
            "netapi_enable_clients": list(CLIENTS),
            "file_roots": {"base": [str(STATES)]},
        }


def pillar_options(database: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that fetch pillars by the SQL function of the RFC, called as the RFC calls it."""
    return {"postgres": dict(database), "ext_pillar": [{"postgres": [{"query": PILLAR_QUERY, "as_json": True}]}]}


def acl_options(acl: Mapping[str, list[object]]) -> dict[str, Any]:
    """Return the options by which `acl` says what users who became root may type, none if there are no such users."""
    return {"publisher_acl": dict(acl), "sudo_acl": True} if acl else {}


def key_options(master: Master, folder: Path) -> dict[str, Any]:
    """Return the options by which the master rejects keys as the files of the fleet in `folder` say."""
    link = master.home / "fleet"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return {"autoreject_file": str(link / "autoreject.txt")}


def write(master: Master, options: Mapping[str, Any]) -> None:
    """Write the master's configuration, in which `options` take precedence."""
    master.config_dir.mkdir(parents=True)
    (master.home / LOGS).symlink_to(master.log.parent)
    text = yaml.safe_dump({**master.options(), **options}, sort_keys=False)
    write_private(master.config_dir / "master", text)
    if "auto_accept" not in options:
        master.word_file.parent.mkdir()
        write_private(master.word_file, f"{master.word}\n")


def start(master: Master, tree: Tree, environment: Mapping[str, str], processes: Processes) -> Process:
    """Start the master whose configuration is written."""
    command = Command(
        role="master",
        argv=tree.command("salt-master", master.config_dir),
        environment=environment,
        output=master.log.with_suffix(".out"),
        layer=Layer.MASTER,
    )
    return processes.start("salt-master", command)


def stop(process: Process) -> None:
    """Ask a master to stop, and end it if it has not after its time."""
    process.stopped = True
    process.signal(signal.SIGTERM)
    # the warden is free meanwhile for requests about other processes
    try:
        process.wait(STOP_S)
    except ProcessError:
        # it had its time
        process.stop(0)
    else:
        process.stop(STOP_S)


def wait_ready(master: Master, process: Process, seconds: float = READY_S) -> None:
    """Wait until the master answers requests, publishes, and lets Salt's commands listen to its events.

    `seconds` are those of a quiet machine. Raises MasterError, with what it was doing and the end of its log, if it
    does not, and DiskError for a full disk.
    """
    try:
        _wait_ready(master, process, seconds)
    except DiskError:
        raise
    except StartError as error:
        raise MasterError(str(error)) from error


def _wait_ready(master: Master, process: Process, seconds: float) -> None:
    deadline = process.patience(seconds)
    with PINGS[master.transport](master.request_port, master.host) as ping:

        def ready() -> bool:
            process.check(master.log)
            return (
                is_ours(master.request_port, host=master.host)
                and is_ours(master.publish_port, host=master.host)
                and master.lets_listen()
                and master.lets_ask()
                and ping.answered()
            )

        until(
            ready,
            deadline,
            lambda: process.late(f"The master does not answer on port {master.request_port}", deadline, master.log),
        )
