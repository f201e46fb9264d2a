"""What can be seen of a master from outside, without what differs from run to run, and how two masters differ in it.

Ids of jobs, times, numbers of processes, ports and names of folders get the same name everywhere. The order of minions
is left out too: it says who was faster.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from harness.bed import Bed
    from tests.live.helpers.fleet_bus import Bus

Rows = Counter[tuple[str, str]]
JID = re.compile(r"\b\d{20}\b")
# the first is looked at apart, the second has what runs at the moment, and the third the mode of who wrote it last
LEFT_OUT = {"jobs", "proc", "batch_active.p"}
# what differs from run to run in texts, in this order
MOMENTARY = (
    (re.compile(r"\b\d{20}(_\d+)?\b"), "JID"),
    # StartTime of a job: 2026, Nov 30 08:30:01.123456
    (re.compile(r"\d{4}, [A-Z][a-z]{2} \d{2} \d{2}:\d{2}:\d{2}\.\d+"), "TIME"),
    (re.compile(r"\b\d{2}:\d{2}:\d{2}\.\d{6}\b"), "TIME"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"(?i)\bpid:? \d+"), "PID"),
)
# and under these names in what has a structure
VALUES = {"_stamp", "created", "duration", "last_progress", "pid", "start_time", "ts"}
# lists whose order says who was faster
SETS = {"all_minions"}
# a traceback names lines of code, which a patch may move; the exception follows
FRAMES = re.compile(r"(?m)(^ +File \".*\n(^ {4}.*\n)*)+")
# which minions are in a part of a batch depends on who answers first
PART = re.compile(r"(?m)^Executing run on \[.*\]\n")
# how often somebody asks for the state of a job, or a key is looked at, depends on how busy the machine is
REPEATED = ("saltutil.find_job", "saltutil.running")


@dataclass
class Observed:
    """What was seen of one master.

    says: what each command printed and returned: `stdout`, `stderr`, `code`
    rows: the jobs in the cache, the files, the events: each as its name (the function, the path, the tag) and a text
    """

    says: dict[str, dict[str, str]] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """What two masters do not have in common: `stock` is what only the first has.

    `where` is a command, with `part` a key of what it says; or a key of the rows, with `part` a name of a row.
    """

    where: str
    part: str
    stock: str
    patched: str


class Normal:
    """Gives everything that differs from bed to bed one name."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """Take texts and what to write in their place."""
        self._names = sorted(names.items(), key=lambda pair: -len(pair[0]))

    @classmethod
    def of(cls, bed: Bed, *folders: Path) -> Normal:
        """Return the one of a bed that has these folders as well."""
        names = {
            str(bed.temporary): "BED",
            str(bed.folder): "FOLDER",
            str(bed.settings.tree.absolute()): "TREE",
            str(bed.master.request_port): "PORT",
            str(bed.master.publish_port): "PORT",
            **{str(folder): "FILES" for folder in folders},
        }
        return cls(names)

    def text(self, text: str) -> str:
        """Return a text."""
        for old, new in self._names:
            text = text.replace(old, new)
        for pattern, new in MOMENTARY:
            text = pattern.sub(new, text)
        return FRAMES.sub("  FRAMES\n", text)

    def value(self, value: object) -> object:
        """Return what has a structure."""
        if isinstance(value, dict):
            rows: dict[str, list[object]] = {}
            for name, one in value.items():
                rows.setdefault(self.text(str(name)), []).append(self._named(name, one))
            # ids of jobs get the same name
            return {name: ones[0] if len(ones) == 1 else sorted(map(repr, ones)) for name, ones in rows.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(one) for one in value]
        if isinstance(value, (bytes, str)):
            return self.text(value.decode(errors="replace") if isinstance(value, bytes) else value)
        return value

    def _named(self, name: object, value: Any) -> object:
        if name in VALUES:
            return "..."
        return sorted(value) if name in SETS else self.value(value)

    def row(self, *parts: object) -> str:
        """Return values as one text."""
        return json.dumps([self.value(part) for part in parts], default=str, sort_keys=True)

    def printed(self, text: str) -> str:
        """Return what a command printed: JSON by its content, anything else with its blocks in one order."""
        text = PART.sub("", text)
        try:
            return self._json(text)
        except json.JSONDecodeError:
            pass
        blocks: list[str] = []
        for line in filter(None, self.text(text).splitlines()):
            # a block begins at the margin
            if blocks and line[0].isspace():
                blocks[-1] += "\n" + line
            else:
                blocks.append(line)
        return "\n".join(sorted(blocks))

    def _json(self, text: str) -> str:
        decoder, rest, found = json.JSONDecoder(), text.strip(), []
        while rest:
            value, end = decoder.raw_decode(rest)
            found.append(json.dumps(self.value(value), sort_keys=True))
            rest = rest[end:].strip()
        return "\n".join(sorted(found))


def jobs(bed: Bed, normal: Normal) -> Rows:
    """Return the job cache: a row for each job, with all files, their modes and what is in them."""
    found: Rows = Counter()
    for mark in bed.master.job_cache.glob("*/*/jid"):
        files: dict[str, object] = {}
        function = ""
        for path in sorted(mark.parent.rglob("*")):
            if not path.is_file():
                continue
            content: object = path.read_bytes()
            if path.suffix == ".p":
                content = msgpack.unpackb(path.read_bytes(), strict_map_key=False)
            if path.name == ".load.p" and isinstance(content, dict):
                function = str(content["fun"])
                if path.name == ".load.p" and (mark.parent / ".batch.p").exists():
                    content["tgt"] = "a part of the batch"
            name = str(path.relative_to(mark.parent))
            files[name] = [oct(path.stat().st_mode), normal.value(content)]
        if function in REPEATED:
            # and who has answered by then
            found[function, ""] = 1
        else:
            found[function, normal.row(files)] += 1
    return found


def files(folders: Iterable[Path], normal: Normal) -> Rows:
    """Return the names and modes of all files below some folders but for the job cache."""
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in paths if not LEFT_OUT.intersection(path.parts)]
    return Counter((normal.text(str(path)), oct(path.stat().st_mode)) for path in kept)


def events(bus: Bus, normal: Normal) -> Rows:
    """Return the events: the tag, the names of all that is in it, and what it says of a job."""
    found: Rows = Counter()
    rows: list[dict[str, Any]] = [event for event in bus.events() if "keys" in event]
    repeated = {event["jid"] for event in rows if event["fun"] in REPEATED}
    batches = {event["jid"] for event in rows if event["tag"].startswith("salt/batch/")}
    for event in rows:
        if event["jid"] in repeated:
            found["find_job", ""] = 1
            continue
        says = {name: event[name] for name in ("id", "fun", "act", "result")}
        row = normal.row(event["keys"], says)
        # a batch tells of its parts, and how many there are depends on who answers first
        if event["jid"] in batches and not event["id"]:
            found[normal.text(event["tag"]), f"of a batch: {row}"] = 1
        else:
            found[normal.text(event["tag"]), row] += 1
    return found


def differences(stock: Observed, patched: Observed) -> list[Difference]:
    """Return how two masters differ."""
    found = []
    for where in {**stock.says, **patched.says}:
        one, other = stock.says.get(where, {}), patched.says.get(where, {})
        parts = [part for part in {**one, **other} if one.get(part) != other.get(part)]
        found += [Difference(where, part, one.get(part, ""), other.get(part, "")) for part in parts]
    for where in {**stock.rows, **patched.rows}:
        left, right = stock.rows.get(where, Counter()), patched.rows.get(where, Counter())
        more, other_more = left - right, right - left
        names = sorted({name for name, _ in (*more, *other_more)})
        found += [Difference(where, name, _lines(more, name), _lines(other_more, name)) for name in names]
    return found


def _lines(rows: Rows, wanted: str) -> str:
    return "\n".join(f"{count} x {row}" for (name, row), count in sorted(rows.items()) if name == wanted)
