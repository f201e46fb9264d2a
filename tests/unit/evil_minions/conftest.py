"""What the fleet's unit tests share: keys, a clock, and a master made of Salt's own server code."""

from __future__ import annotations

# ruff: noqa: E402 - Salt's import hook has to go before anything else of Salt is imported
import asyncio
import contextlib
import ctypes
import heapq
import inspect
import itertools
import logging
import multiprocessing
import random
import sys
import warnings
from typing import TYPE_CHECKING, Any, cast

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ImportWarning)
    import salt

# Salt 3008.5 puts an import hook of the old kind (without find_spec) in front, which breaks pytest's own imports
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "NaclImporter"]

import pytest
import salt.channel.server
import salt.config
import salt.crypt
import salt.daemons.masterapi
import salt.master
import salt.payload

from evil_minions.functions import job
from evil_minions.inventory import GrainsFactory, load_template
from evil_minions.network.connection import Timeouts
from evil_minions.protocol.keys import MasterKey, MinionKey, load_pool
from evil_minions.samples import Counters

# what these tests provoke is no news
logging.getLogger("salt").setLevel(logging.CRITICAL + 1)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


class Handle:
    """A timer of the test's clock."""

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Begin with nothing noted."""
        self.callback = callback
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        """Never fire."""
        self.cancelled = True


class Clock:
    """The part of an event loop that links and channels use, on a time that only the test moves."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.now = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._count = itertools.count()

    def time(self) -> float:
        """Return the time in seconds."""
        return self.now

    def call_later(self, delay: float, callback: Callable[..., Any], *args: object) -> Handle:
        """Call back when the test has moved the time far enough."""
        handle = Handle(callback, args)
        heapq.heappush(self._timers, (self.now + delay, next(self._count), handle))
        return handle

    def call_soon(self, callback: Callable[..., Any], *args: object) -> Handle:
        """Call back when the test moves the time at all."""
        return self.call_later(0.0, callback, *args)

    def advance(self, seconds: float) -> None:
        """Move the time, firing what is due on the way."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled:
                handle.callback(*handle.args)
        self.now = end


class FakeWire:
    """A wire whose bytes the test sees, and whose peer is the test."""

    def __init__(self, owner: Any) -> None:
        """Begin with nothing noted."""
        self.owner = owner
        self.sent: list[bytes] = []
        self.closed = False

    def send(self, data: bytes) -> None:
        """Keep what is sent."""
        self.sent.append(data)

    def close(self, *, reset: bool = False) -> None:  # noqa: ARG002 - a wire's signature
        """Remember that the link hung up."""
        self.closed = True


class FakeEndpoint:
    """An endpoint that opens fake wires."""

    def __init__(self, clock: Clock) -> None:
        """Begin with nothing noted."""
        self.loop = clock
        self.timeouts = Timeouts(cast("asyncio.AbstractEventLoop", clock))
        self.counters = Counters()
        self.wires: list[FakeWire] = []

    def open(self, owner: Any) -> FakeWire:
        """Return a new wire."""
        self.wires.append(FakeWire(owner))
        return self.wires[-1]

    @property
    def wire(self) -> FakeWire:
        """The latest wire."""
        return self.wires[-1]


@pytest.fixture
def clock() -> Clock:
    """Return a clock at 0."""
    return Clock()


@pytest.fixture
def endpoint(clock: Clock) -> FakeEndpoint:
    """Return an endpoint on the test's clock."""
    return FakeEndpoint(clock)


@pytest.fixture(scope="session")
def key_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two keys of minions."""
    folder = tmp_path_factory.mktemp("fleet")
    load_pool(folder, 2)
    return folder


@pytest.fixture(scope="session")
def key(key_folder: Path) -> MinionKey:
    """Return a minion's key."""
    return load_pool(key_folder, 2)[0]


class FakePlanner:
    """A planner without a master: notes what is asked of it."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.ran: list[tuple[Any, dict[str, Any]]] = []
        self.synchronised: list[tuple[list[str], list[str]]] = []

    async def run(self, call: Any, host: Any, mods: Any, options: Any) -> Any:  # noqa: ARG002 - the planner's signature
        """Note it."""
        self.ran.append((mods, dict(options)))
        return {"test_|-a_|-a_|-nop": {"result": True}}, 2

    async def synchronise(self, host: Any, kinds: Any, saltenvs: Any) -> dict[str, list[str]]:  # noqa: ARG002
        """Note it."""
        self.synchronised.append((list(kinds), list(saltenvs)))
        return {kind: [] for kind in kinds}


class FakeHost:
    """A minion as its functions see it, whose master is the test: `answers` are what it answers, in their order."""

    def __init__(self) -> None:
        """Begin with one job, which is the one that runs the function, and nothing noted."""
        self.id = "minion-00001"
        self.rng = random.Random(1)  # noqa: S311 - no secret
        self.replay: Any = None
        self.planner = FakePlanner()
        self.changed: list[tuple[dict[str, Any], list[str]]] = []
        self.refreshed: list[bool] = []
        self.registered = 0
        self.jobs: list[dict[str, Any]] = [{"jid": "20261121034757208012", "fun": "test.ping", "arg": [], "pid": 99}]
        self.kept: dict[str, Any] = {}
        self.answers: list[Any] = []
        self.asked: list[str] = []
        self.loads: list[Mapping[str, Any]] = []
        self.fired: list[tuple[str, object]] = []

    def grains(self) -> dict[str, Any]:
        """Return the grains of the built-in template."""
        return GrainsFactory(load_template(), 1, "127.0.0.1").build(self.id, 1)

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Note it."""
        self.changed.append((dict(changes), list(removed)))

    def register_resources(self) -> None:
        """Count it."""
        self.registered += 1

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Note it."""
        self.refreshed.append(clean_cache)
        return asyncio.create_task(asyncio.sleep(0))

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept."""
        return self.kept

    def pillar_item(self, name: str) -> Any:
        """Return one value of it."""
        return self.kept.get(name)

    def job_rng(self, pid: int) -> random.Random:
        """Return the chance of a job."""
        return random.Random(pid)  # noqa: S311 - no secret

    def queued(self) -> list[dict[str, Any]]:
        """Return the jobs that wait: none."""
        return []

    def running(self) -> list[dict[str, Any]]:
        """Return the jobs."""
        return self.jobs

    def stop_job(self, jid: str) -> int | None:
        """Take a job away."""
        found = [data for data in self.jobs if data["jid"] == jid]
        self.jobs = [data for data in self.jobs if data["jid"] != jid]
        return int(found[0]["pid"]) if found else None

    def fire(self, tag: str, data: object) -> None:
        """Note an event."""
        self.fired.append((tag, data))

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Note it."""
        self.asked.append("_pillar")
        return override or {}

    @contextlib.contextmanager
    def asking(self) -> Iterator[Callable[..., Any]]:
        """Note what is asked."""

        async def ask(load: Mapping[str, Any]) -> Any:
            self.asked.append(load["cmd"])
            self.loads.append(load)
            return self.answers.pop(0) if self.answers else None

        yield ask


@pytest.fixture
def host() -> FakeHost:
    """Return a minion without a master."""
    return FakeHost()


@pytest.fixture
def call() -> Callable[..., Any]:
    """Return what runs one function on a minion to its end, and gives its outcome."""

    def run(host: Any, name: str, *args: object) -> Any:
        async def end() -> Any:
            load = {"tgt": "*", "tgt_type": "glob", "ret": "", **host.jobs[0], "fun": name, "arg": list(args)}
            outcome = job.begin(host, load, 99, name, args)
            return await outcome if inspect.iscoroutine(outcome) else outcome

        return asyncio.run(end())

    return run


class SaltMaster:
    """Salt's own server side of the request port, without sockets: `handle` is what would answer a minion."""

    def __init__(self, root: Path) -> None:
        """Begin with nothing noted."""
        self.opts = salt.config.master_config(None)
        self.opts.update(
            root_dir=str(root),
            pki_dir=str(root / "pki"),
            cachedir=str(root / "cache"),
            sock_dir=str(root / "sock"),
            auto_accept=True,
            auth_events=False,
            con_cache=False,
            cluster_id=None,
            worker_pools_enabled=False,
        )
        for name in ("pki", "pki/minions", "pki/minions_pre", "pki/minions_rejected", "pki/minions_denied", "cache"):
            (root / name).mkdir()
        aes = multiprocessing.Array(ctypes.c_char, salt.crypt.Crypticle.generate_key_string().encode())
        salt.master.SMaster.secrets["aes"] = {"secret": aes, "reload": salt.crypt.Crypticle.generate_key_string}
        self.channel = salt.channel.server.ReqServerChannel(self.opts, None)
        self.channel.crypticle = salt.crypt.Crypticle(self.opts, self.aes)
        self.channel.payload_handler = self.work
        self.channel.auto_key = salt.daemons.masterapi.AutoKey(self.opts)
        self.channel.cache_cli = False
        self.channel.ckminions = object()
        self.seen: list[dict[str, Any]] = []
        self.pillar: dict[str, Any] = {"a": {"b": 1}}

    @property
    def aes(self) -> str:
        """The key of publications."""
        return str(salt.master.SMaster.secrets["aes"]["secret"].value.decode())

    @property
    def public(self) -> str:
        """The master's public key."""
        return str(self.channel.master_key.get_pub_str())

    async def work(self, payload: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Stand for the master's workers: keep what came, and answer pillars and everything else."""
        load = payload["load"]
        self.seen.append(load)
        if load["cmd"] == "_pillar":
            return self.pillar, {"fun": "send_private", "key": "pillar", "tgt": load["id"]}
        return {"ok": load["cmd"]}, {"fun": "send"}

    def handle(self, data: bytes) -> bytes:
        """Return the answer to the bytes of a request."""
        reply = asyncio.run(self.channel.handle_message(salt.payload.loads(data)))
        return bytes(salt.payload.dumps(reply))

    def publish(self, load: dict[str, Any], serial: int, aes: str | None = None) -> bytes:
        """Return the frame of a publication."""
        sealed = salt.crypt.Crypticle(self.opts, aes or self.aes).dumps({**load, "serial": serial})
        signature = self.channel.master_key.sign(sealed, algorithm=salt.crypt.PKCS1v15_SHA1)
        payload = {"enc": "aes", "load": sealed, "sig": signature, "sig_algo": salt.crypt.PKCS1v15_SHA1}
        return bytes(salt.payload.dumps(payload))


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> SaltMaster:
    """Return a master of Salt's own server code."""
    return SaltMaster(tmp_path_factory.mktemp("master"))


@pytest.fixture
def master_key(master: SaltMaster, tmp_path: Path) -> MasterKey:
    """Return the master's key as a fleet that has met the master has it."""
    (tmp_path / "master.pub").write_text(master.public)
    return MasterKey(tmp_path)
