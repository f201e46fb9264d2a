"""Sends packets to a bed's master and notes what must not happen, until the time is up.

What is found is kept by its cause, with the seed and the number of the first packet that caused it.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import salt.crypt
import salt.payload

from evil_minions import MasterKey, auth, envelope, load_pool
from evil_minions.errors import EvilMinionsError
from harness.bed.master import GRAIN
from harness.errors import HarnessError
from tests.live.helpers.fuzz.lines import LINES
from tests.live.helpers.fuzz.packets import BLOCK, NOBODY, Identity, Packet, Packets, origin
from tests.live.helpers.fuzz.replies import permitted
from tests.live.helpers.fuzz.witness import OWN_EVENTS, Events, Files, Keys, Log, Processes

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from harness.bed import Bed

# how long a packet may have no reply, and how long the master may need for a sound request
REPLY_S: Final = 3.0
GOOD_S: Final = 60.0
# packets a second at most, so that several fuzzers can run side by side
RATE: Final = 150
# connections that are kept open with something unfinished in them
UNFINISHED: Final = 40
# what is logged of a load that a minion has signed for
FAILURES: Final = ("salt.master: Error in function", "salt.pillar: ", "salt.utils.minions: Failed ")
# of all the time or packets, what belongs to the warm-up
WARM: Final = 0.15
# looks at an idle master, 0.25 s apart, until what a minion asked for counts as done
QUIET: Final = 3


@dataclass(frozen=True)
class Plan:
    """Which packets are sent: the seed, the first number, and how many or for how many seconds."""

    seed: int = 17
    first: int = 0
    packets: int | None = None
    seconds: float = 1800.0

    @classmethod
    def of_environment(cls, **default: Any) -> Plan:
        """Return the plan that the environment asks for."""
        names = {"seed": int, "first": int, "packets": int, "seconds": float}
        asked = {name: os.environ.get(f"SALTBED_FUZZ_{name.upper()}") for name in names}
        return cls(**{**default, **{name: names[name](value) for name, value in asked.items() if value}})

    def progress(self, number: int, begin: float) -> float:
        """Return which part of it is done."""
        if self.packets is not None:
            return (number - self.first) / self.packets
        return (time.monotonic() - begin) / self.seconds


@dataclass
class Findings:
    """What must not happen, by kind and cause, and how often it did."""

    seed: int
    found: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    def add(self, kind: str, cause: str, packet: Packet | None) -> None:
        """Note one."""
        entry = self.found.setdefault((kind, cause), [0, packet])
        entry[0] += 1

    @property
    def kinds(self) -> set[str]:
        """Return the kinds of what was found."""
        return {kind for kind, _ in self.found}

    def lines(self) -> Iterator[str]:
        """Yield a line for each cause."""
        for (kind, cause), (count, packet) in sorted(self.found.items()):
            yield f"{kind}: {cause}, {count} times, first with seed {self.seed}, {packet}"


class FatalError(Exception):
    """The master can't be fuzzed further."""


class Fuzzer:
    """Fuzzes the request port of a bed."""

    def __init__(self, bed: Bed, plan: Plan) -> None:
        """Sign two minions in: one that sends packets, and one that asks as a minion does."""
        self.bed = bed
        self.plan = plan
        self.findings = Findings(plan.seed)
        self.notes = Findings(plan.seed)
        kind = LINES[bed.master.transport]
        port = bed.master.request_port
        self._line, self._good_line = kind(port), kind(port)
        keys = load_pool(bed.temporary / "fuzzer", 3)
        self._master = MasterKey(bed.temporary / "fuzzer")
        self.minion = Identity("fuzz-minion", keys[0], self._sign_in("fuzz-minion", keys[0]))
        self.good = Identity("fuzz-good", keys[1], self._sign_in("fuzz-good", keys[1]))
        self.packets = Packets(plan.seed, self.minion, keys[2].public, kind)
        self._rng = random.Random(plan.seed)  # noqa: S311 - a repeatable test is no secret
        self._unfinished: list[socket.socket] = []
        # the last packets of the minion that got no reply in time: what is logged of them comes later
        self._late: deque[Packet] = deque(maxlen=10)
        self.sent = 0
        self.memory: dict[str, str] = {}
        self._workers = int(bed.settings.master_options.get("worker_threads", 5))

    def _sign_in(self, name: str, key: Any) -> Any:
        token = salt.crypt.Crypticle.generate_key_string().encode()
        for _ in range(3):
            attempt = auth.question(name, key, self._master, token, {GRAIN: self.bed.master.word})
            reply = self._good_line.ask(envelope.clear(attempt.load), GOOD_S)
            if reply is not None:
                return auth.answer(attempt, envelope.reply(reply), key, self._master)
        raise FatalError(f"{name} can't sign in")

    def run(self) -> Findings:
        """Send packets until the plan is done or the master is."""
        with ExitStack() as stack:
            stack.enter_context(self._line)
            stack.enter_context(self._good_line)
            stack.callback(self._finish)
            self.events = stack.enter_context(Events(self.bed))
            logs = self.bed.logs
            self.log = Log(logs / "master.log", logs / "master.out")
            self.processes, self.files, self.keys = Processes(self.bed.master_pid), Files(self.bed), Keys(self.bed)
            try:
                self._send_all()
            except FatalError as error:
                self.findings.add("fatal", str(error), self._packet)
        return self.findings

    def _send_all(self) -> None:
        number, begin, warm = self.plan.first, time.monotonic(), False
        while (done := self.plan.progress(number, begin)) < 1:
            if done >= WARM and not warm:
                self.processes.note_memory()
                warm = True
            due = time.monotonic() + 1 / RATE
            self._packet = self.packets.packet(number)
            self._send(self._packet)
            self.sent += 1
            number += 1
            if number % BLOCK == 0:
                self._check()
            time.sleep(max(0, due - time.monotonic()))
        self._check()
        self._finish()
        self.memory = self.processes.memory()
        for grown in self.processes.grown():
            self.findings.add("memory", grown, None)

    def _send(self, packet: Packet) -> None:
        """Send a packet, and look at its reply and at what the master says of it."""
        if packet.wire:
            self._write(packet)
        else:
            reply = self._line.ask(packet.data, REPLY_S)
            if reply is None:
                self.notes.add("no reply", f"{packet.kind} {packet.command}", packet)
                if packet.origin != NOBODY:
                    self._late.append(packet)
                self._line.close()
            elif packet.origin == NOBODY:
                self._judge(packet, reply)
        self.events.read()
        if self.log.grew():
            for message, place in self.log.tracebacks():
                self._note_traceback(packet, message, place)

    def _write(self, packet: Packet) -> None:
        with suppress(OSError):
            self._unfinished.append(self._line.write(packet.data, opened=self._rng.random() < 0.9))
        if len(self._unfinished) > UNFINISHED:
            self._unfinished.pop(self._rng.randrange(len(self._unfinished))).close()
        # those that write slowly
        if self._unfinished:
            with suppress(OSError):
                self._rng.choice(self._unfinished).send(self._rng.randbytes(1))

    def _finish(self) -> None:
        while self._unfinished:
            self._unfinished.pop().close()

    def _judge(self, packet: Packet, reply: bytes) -> None:
        try:
            value = salt.payload.loads(reply)
        except salt.exceptions.SaltException:
            # the load of a ping comes back as it is
            value = {} if packet.command == "ping" and b"ping" in reply else reply
        if not permitted(value):
            self.findings.add("reply", f"{packet.kind} {packet.command}: {str(value)[:80]}", packet)

    def _note_traceback(self, packet: Packet, message: str, place: str) -> None:
        """Note a traceback; some functions log one for an accepted minion's bad load, which is known."""
        packet = next((one for one in self._late if f" {one.command}: " in f"{message} "), packet)
        # the last one is how aiohttp refuses bytes that are no HTTP
        known = (packet.origin != NOBODY and message.startswith(FAILURES)) or "http_exceptions.Bad" in place
        target = self.notes if known else self.findings
        target.add(f"traceback ({packet.origin})", f"{message} | {place}", packet)

    def _check(self) -> None:
        """Look at all that can be seen between two packets."""
        packet = self._packet
        if ended := self.processes.ended():
            raise FatalError(f"processes of the master ended: {', '.join(ended)}")
        try:
            tags = self.events.since()
        except HarnessError as error:
            raise FatalError(str(error)) from error
        self._ask_good()
        if self.keys.listed() != self.keys.before:
            self._restore_keys(packet)
        if origin(packet.number) == NOBODY:
            for tag in tags:
                if not tag.startswith(OWN_EVENTS):
                    self.findings.add("event", tag[:80], packet)
            for name in self.files.changed():
                self.findings.add("file", name, packet)
        else:
            self._settle()

    def _settle(self) -> None:
        """Wait until what a minion has asked for is done: a worker goes on after its reply has timed out."""
        quiet = 0
        for _ in range(160):
            time.sleep(0.25)
            tags = [tag for tag in self.events.since() if not tag.startswith(OWN_EVENTS)]
            # on a busy machine a worker may wait for long between two of its steps
            quiet = 0 if self.files.changed() or tags or self.processes.at_work() else quiet + 1
            if quiet == QUIET:
                return

    def _restore_keys(self, packet: Packet) -> None:
        """Sign in again if the minion has withdrawn its own key, as it may."""
        gone = set(self.keys.before) - set(self.keys.listed())
        if packet.origin == NOBODY or {name.rpartition("/")[2] for name, _ in gone} != {self.minion.name}:
            self.findings.add("keys", str(sorted(name for name, _ in gone)), packet)
        self._ask_good()
        self.minion.credentials = self._sign_in(self.minion.name, self.minion.key)
        self.keys.before = self.keys.listed()
        self.files.forget()

    def _ask_good(self) -> None:
        """Ask each worker what it has to answer."""
        for _ in range(2 * self._workers):
            number = envelope.nonce()
            load = {"cmd": "_file_envs"}
            good = self.good
            request = envelope.encrypted(load, good.name, good.key, good.credentials.session, number)
            reply = self._good_line.ask(request, GOOD_S)
            if reply is None:
                raise FatalError("the master does not answer a minion")
            try:
                answer = envelope.decrypted(reply, good.credentials.session, number)
            except EvilMinionsError as error:
                raise FatalError(f"the master answers a minion with {reply[:80]!r}: {error}") from error
            if answer != ["base"]:
                raise FatalError(f"the master answers a minion with {answer!r}")
