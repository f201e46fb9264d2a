"""What a master did while it was fuzzed, by its processes, its log, its files, its keys and its event bus."""

from __future__ import annotations

import re
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgpack
import psutil

from harness.processes.deadline import Deadline, until
from tests.live.helpers.fuzz.values import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.bed import Bed

EVENT_S: Final = 60.0
# beyond this a log that was read is emptied
LOG_BYTES: Final = 50 << 20
TRACEBACK: Final = "Traceback (most recent call last)"
RECORD: Final = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ \[([^\]]*?) *:\d+ *\]\[[A-Z ]+\]\[\d+\] (.*)", re.MULTILINE
)
FRAME: Final = re.compile(r'File "[^"]*?((?:salt|site-packages|lib)/[^"]*)", line \d+, in (\S+)')
# what a master changes by itself; and keys that wait
OWN_FILES: Final = re.compile(
    r"master/(cache/(\.dfn|health|roots|proc|jobs|queues|job_handler|\.?sqlite|thread_table)|run/|log|pki/minions_(pre|denied)/[^/]+$)"
)
# a sign-in, and a new key of the master after a minion has withdrawn its own
OWN_EVENTS: Final = ("salt/auth", "key", "saltbed/fuzz/")
GROWTH, GROWTH_BYTES = 1.3, 20 << 20


class Log:
    """The log of a bed's process, and what came since it was last read."""

    def __init__(self, *paths: Path) -> None:
        """Begin at the end of the files."""
        self._places = {path: path.stat().st_size if path.exists() else 0 for path in paths}

    def grew(self) -> bool:
        """Return whether there is more."""
        return any(path.exists() and path.stat().st_size > place for path, place in self._places.items())

    def tracebacks(self) -> Iterator[tuple[str, str]]:
        """Yield what went wrong and where, for each traceback since."""
        for path, place in self._places.items():
            if not path.exists() or path.stat().st_size <= place:
                continue
            with path.open("rb") as file:
                file.seek(place)
                data = file.read()
            # the last record may be incomplete, but not its beginning
            self._places[path] = place + len(data)
            text = data.decode(errors="replace")
            if TRACEBACK in text:
                yield from found_in(text)
            if self._places[path] > LOG_BYTES:
                self._places[path] = 0
                with path.open("r+b") as file:
                    file.truncate()


def found_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield, for each record with a traceback, the beginning of its message, and where what was raised."""
    starts = [match.start() for match in RECORD.finditer(text)]
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        record = text[start:end]
        if TRACEBACK not in record:
            continue
        head = RECORD.match(record)
        message = f"{head[1]}: {head[2]}" if head else "standard error"
        trace = record[record.rindex(TRACEBACK) :]
        frames = FRAME.findall(trace)
        raised = next((line for line in trace.splitlines()[1:] if line and not line.startswith(" ")), "?")
        place = " in ".join(reversed(frames[-1])) if frames else "?"
        yield re.sub(r"0x[0-9a-f]+|\d+", "N", message)[:70], f"{place}: {raised.partition(':')[0][:60]}"


class Processes:
    """The processes of a master that were there when it was ready."""

    def __init__(self, pid: int) -> None:
        """Note them."""
        first = psutil.Process(pid)
        self._all = [first, *first.children(recursive=True)]
        self._names = {one.pid: self._name(one) for one in self._all}
        self._memory: dict[int, int] = {}

    @staticmethod
    def _name(one: psutil.Process) -> str:
        with suppress(psutil.Error):
            words = one.cmdline()
            return words[-1][-40:] if words else one.name()
        return "?"

    def ended(self) -> list[str]:
        """Return which of them are gone, or are others by now."""
        return [
            f"{self._names[one.pid]} ({one.pid})"
            for one in self._all
            if not one.is_running() or one.status() == psutil.STATUS_ZOMBIE
        ]

    def at_work(self) -> bool:
        """Return whether one of them computes, waits for a processor or for a disk."""
        for one in self._all:
            with suppress(psutil.Error):
                if one.status() in {psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP}:
                    return True
        return False

    def note_memory(self) -> None:
        """Note how much they hold, after they have warmed up."""
        self._memory = {one.pid: one.memory_info().rss for one in self._all}

    def grown(self) -> list[str]:
        """Return which of them hold much more than they did, with megabytes before and now."""
        found = []
        for pid, before in self._memory.items():
            with suppress(psutil.Error):
                now = psutil.Process(pid).memory_info().rss
                if now > GROWTH * before + GROWTH_BYTES:
                    found.append(f"{self._names[pid]}: {before >> 20} MB -> {now >> 20} MB")
        return found

    def memory(self) -> dict[str, str]:
        """Return how many megabytes they held and hold."""
        now = {one.pid: one.memory_info().rss >> 20 for one in self._all if one.is_running()}
        return {f"{self._names[pid]} {pid}": f"{self._memory.get(pid, 0) >> 20} -> {now[pid]}" for pid in now}


class Files:
    """The files of a bed, and those elsewhere that an id could have become."""

    def __init__(self, bed: Bed) -> None:
        """Note them."""
        self._root = bed.temporary
        self._before = self._list()

    def _list(self) -> dict[str, tuple[int, int]]:
        found = {}
        for path in (self._root / "master").rglob("*"):
            name = str(path.relative_to(self._root))
            if OWN_FILES.match(name) is None and not path.is_dir():
                # files come and go
                with suppress(OSError):
                    status = path.lstat()
                    found[name] = status.st_size, status.st_mtime_ns
        return found

    def changed(self) -> list[str]:
        """Return the files that are new, gone or others, and the names elsewhere that come from packets."""
        now = self._list()
        found = sorted(name for name in now.keys() | self._before.keys() if now.get(name) != self._before.get(name))
        self._before = now
        places = [self._root, *self._root.parents, Path.cwd(), Path("/tmp")]  # noqa: S108 - nothing is made there
        return found + [str(path) for place in places for path in place.iterdir() if MARK in path.name]

    def forget(self) -> None:
        """Take the files as they are."""
        self._before = self._list()


class Keys:
    """The accepted and the rejected keys of a master."""

    def __init__(self, bed: Bed) -> None:
        """Note them."""
        self._folders = [bed.master.pki_dir / name for name in ("minions", "minions_rejected")]
        self.before = self.listed()

    def listed(self) -> list[tuple[str, bytes]]:
        """Return their names and contents."""
        return sorted((str(path), path.read_bytes()) for folder in self._folders for path in folder.glob("*"))


class Events:
    """A listener at the event bus that takes every event at once; a context manager."""

    def __init__(self, bed: Bed) -> None:
        """Listen."""
        self._folder = bed.master.sock_dir
        self._count = 0
        self._unpacker = msgpack.Unpacker(raw=True, strict_map_key=False)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(self._folder / "master_event_pub.ipc"))
        self._socket.setblocking(False)
        self._tags: list[str] = []

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._socket.close()

    def read(self) -> None:
        """Take what there is, so that the bus has no slow listener."""
        with suppress(BlockingIOError):
            while data := self._socket.recv(1 << 20):
                self._unpacker.feed(data)
        for event in self._unpacker:
            self._tags.append(bytes(event[b"body"]).partition(b"\n\n")[0].decode(errors="replace"))

    def since(self) -> list[str]:
        """Return the tags of all events since the last call; raise an error if the bus does not pass events on."""
        self._count += 1
        tag = f"saltbed/fuzz/{self._count}"
        with socket.socket(socket.AF_UNIX) as pull:
            pull.connect(str(self._folder / "master_event_pull.ipc"))
            pull.sendall(framed(tag.encode() + b"\n\n" + msgpack.packb({"_stamp": ""})))

        def came() -> bool:
            self.read()
            return tag in self._tags

        until(came, Deadline(EVENT_S), lambda: "the event bus passes no event on")
        found, self._tags = [one for one in self._tags if one != tag], []
        return found


def framed(body: bytes, head: Any = None) -> bytes:
    """Return an event as the bus takes it."""
    data = msgpack.packb({"head": head or {}, "body": body}, use_bin_type=True)
    return struct.pack(">I", len(data)) + bytes(data)
