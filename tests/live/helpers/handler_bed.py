"""What the live tests of the job handler share: a patched bed, a client, and what the fleet's own samples say.

The fleet's samples know nothing of the handler, so they are the witness: when a job arrived, and when it was returned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from evil_minions.samples import JobRow, ReturnRow, read_samples
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from harness.bed.fleet import Fleet

READY_S = 120.0
SETTLE_S = 90.0
SCRIPT = Path(__file__).with_name("handler_client.py")
# the same tests over Salt's other transports, and with ports instead of Unix sockets inside the master
TRANSPORT = os.environ.get("SALTBED_HANDLER_TRANSPORT", "zeromq")
IPC_MODE = os.environ.get("SALTBED_HANDLER_IPC_MODE", "ipc")


class RaisedError(Exception):
    """What Salt raised in the client: the exception's name, its message, and when to try again."""

    def __init__(self, name: str, message: str, retry_after: int | None) -> None:
        """Keep them."""
        super().__init__(f"{name}: {message}")
        self.name = name
        self.retry_after = retry_after


class Client:
    """A LocalClient in a process of its own, see `handler_client.py`; a context manager."""

    def __init__(self, bed: Bed) -> None:
        """Start it."""
        argv = [sys.executable, str(SCRIPT), str(bed.master.config_dir / "master")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            argv, env=bed.environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        with self._process:
            if self._process.stdin:
                self._process.stdin.close()

    def do(self, what: str, **request: object) -> Any:
        """Send a request and return the answer; raise RaisedError for what Salt raised."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps({"do": what, **request}), file=self._process.stdin, flush=True)
        found = json.loads(self._process.stdout.readline())
        if "raised" in found:
            raise RaisedError(found["raised"], found["message"], found["retry_after"])
        return found["answer"]


class HandlerBed:
    """A bed on the patched tree with the job handler on, and its fleet."""

    def __init__(self, bed: Bed, fleet: Fleet, client: Client) -> None:
        """Take the parts."""
        self.bed = bed
        self.fleet = fleet
        self.client = client

    def ask(self, cmd: str, **arguments: object) -> dict[str, Any]:
        """Ask the handler over its private socket."""
        return dict(self.client.do("ask", cmd=cmd, **arguments))

    def submit(self, tgt: str | list[str], fun: str, arg: Sequence[object] = (), count: int = 1) -> list[str]:
        """Submit asynchronous jobs and return their ids."""
        kind = "list" if isinstance(tgt, list) else "glob"
        return list(self.client.do("async", tgt=tgt, fun=fun, arg=list(arg), tgt_type=kind, count=count))

    def idle(self) -> None:
        """Wait until nothing is queued and no slot is occupied."""

        def done() -> bool:
            status = self.ask("status")
            return not status["queued"] and not status["capacity"]["used"]

        until(done, Deadline(SETTLE_S), lambda: f"the handler is not idle: {self.ask('status')}")

    def executions(self, jids: Sequence[str]) -> list[tuple[str, str]]:
        """Return (job, minion) for every execution of these jobs that the fleet has returned."""
        wanted = set(jids)
        return [(row.jid, row.minion) for row in self.returns() if row.jid in wanted]

    def returns(self) -> list[ReturnRow]:
        """Return the fleet's samples of all returns so far."""
        self.fleet.control.flush()
        return list(read_samples(self.fleet.folder, ReturnRow))

    def complete(self, jids: Sequence[str], count: int) -> list[tuple[str, str]]:
        """Wait until the handler is idle and the fleet has returned `count` executions of these jobs; return them."""
        self.idle()
        until(
            lambda: len(self.executions(jids)) >= count,
            Deadline(SETTLE_S),
            lambda: f"of {count} executions the fleet has returned {len(self.executions(jids))}",
        )
        return self.executions(jids)

    def arrivals(self, jids: Sequence[str]) -> list[str]:
        """Return these jobs in the order in which the fleet first saw them."""
        wanted = set(jids)
        self.fleet.control.flush()
        rows = sorted(read_samples(self.fleet.folder, JobRow), key=lambda row: row.time)
        return list(dict.fromkeys(row.jid for row in rows if row.jid in wanted))

    def most_at_once(self, jids: Sequence[str]) -> int:
        """Return how many executions of these jobs overlapped at most, see `most_at_once`."""
        self.fleet.control.flush()
        return most_at_once([self.fleet.folder], jids)

    def pid(self, other_than: int = 0) -> int:
        """Wait until a handler answers, which is another process than `other_than`, and return its process id."""

        def up() -> int:
            try:
                found = int(self.ask("status")["pid"])
            except RaisedError:
                return 0
            return found if found != other_than else 0

        return until(up, Deadline(60), lambda: "no job handler answers")


def most_at_once(folders: Sequence[Path], jids: Sequence[str]) -> int:
    """Return how many executions of these jobs overlapped at most, by the samples of these fleets.

    One that ends in the same moment in which another one begins has made room for it. A job of several waves has
    several arrivals, of which the samples hold the first, so this is for jobs of one publication each.
    """
    wanted = set(jids)
    begins = {row.jid: row.time for folder in folders for row in read_samples(folder, JobRow) if row.jid in wanted}
    steps = []
    for row in (row for folder in folders for row in read_samples(folder, ReturnRow)):
        if row.jid in wanted:
            steps += [(begins[row.jid], 1), (row.time - row.seconds, -1)]
    return max(accumulate(step for _, step in sorted(steps)), default=0)


@contextmanager
def handler_bed(
    root: Path,
    folder: Path,
    minions: int,
    rate_limiting: dict[str, Any],
    **settings: Any,
) -> Iterator[HandlerBed]:
    """Yield a bed with the job handler and a fleet that is ready; `settings` are further ones of the bed."""
    options = {"rate_limiting": rate_limiting, "ipc_mode": IPC_MODE, **settings.pop("master_options", {})}
    wanted = BedSettings(
        tree=root / "salt",
        folder=folder,
        master_options=options,
        pillar="none",
        postgres="none",
        minions=minions,
        **{"api": None, "transport": TRANSPORT, **settings},
    )
    with Bed(wanted) as bed, Client(bed) as client:
        fleet = bed.start_fleet()
        fleet.wait_ready(READY_S)
        yield HandlerBed(bed, fleet, client)


def answers(text: str) -> dict[str, Any]:
    """Return what a command line prints with `--out=json`: one object after the other, merged."""
    decoder, found, rest = json.JSONDecoder(), {}, text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.update(value)
        rest = rest[end:].strip()
    return found
