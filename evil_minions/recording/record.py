"""Recording a real minion, on its master: listen to the event bus, mask what is secret, write a file.

Nothing is written before the end, and nothing unmasked ever: what is secret is known only when all has been heard.

A pure state machine: events go in one by one with the master's own time stamps, answers come out. It works with any
real minion over any transport, as the bus shows the same of each.

What counts as a secret is decided by where a value stands, not by what it looks like: all of the pillar, and whatever
has a name such as `password`. Each secret gets a placeholder of its own wherever it occurs, also in the forms that
templates, shells and diffs give it, so that a recording still shows where the same value came back.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import sys
import time
import urllib.parse
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import salt.client
import salt.config
import salt.pillar
import salt.utils.event
import salt.utils.minions
from salt.exceptions import SaltException

from evil_minions.errors import UsageError
from evil_minions.recording import Answer, Event, Recording, adapt, is_live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


LONG_ENOUGH: Final = 6
"""Characters from which on a text of the pillar counts as a secret whatever its name is."""

_INSIDE_WORDS: Final = 4
"""Characters from which on a secret is also looked for inside words."""

_SHORTEST: Final = 3
"""Characters from which on a secret is looked for at all; a shorter one goes where its name says what it is."""

_NAMED: Final = re.compile(
    r"passw|passphrase|^pass$|secret|token|credential|private|(^|_|-)(pin|psk|key|pwd|auth)$|(api|access|ssh|pre)_?key",
    re.IGNORECASE,
)
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_CRYPT: Final = re.compile(r"\$(?:1|2[abxy]?|5|6|7|y|gy|argon2id?)\$[./A-Za-z0-9$=,+]{16,}")
_IN_URL: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_STATE_KEY: Final = "_|-"
_STATE_PARTS: Final = 4


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return every scalar with the keys that lead to it."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, (*path, str(name)))
    elif isinstance(value, (list, tuple, set)):
        for child in value:
            yield from _leaves(child, path)
    else:
        yield path, value


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _forms(secret: str) -> Iterator[str]:
    """Return the ways in which a secret may show: as it is, line by line, and as others quote or encode it."""
    for part in (secret, secret.strip(), *(line.strip() for line in secret.splitlines()), *_IN_URL.findall(secret)):
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield repr(part)[1:-1]
        yield shlex.quote(part).strip("'")
        yield urllib.parse.quote(part, safe="")
        yield urllib.parse.quote_plus(part)
    data = secret.encode()
    for encoded in (base64.b64encode(data), base64.urlsafe_b64encode(data), base64.b64encode(data + b"\n")):
        yield encoded.decode().rstrip("=")


class Masker:
    """Learns secrets, then replaces them; learn everything before the first `mask`."""

    def __init__(self, public: Sequence[str] = (), known: Iterable[str] = ()) -> None:
        """Take patterns of pillar paths (`roles:*`) that are no secrets, and texts that never are."""
        self._public = tuple(public)
        self._known = frozenset(known)
        self._names: dict[str, str] = {}
        self._forms: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn_pillar(self, pillar: Any) -> None:
        """Take every value of a pillar that is long enough or has the name of a secret."""
        for path, leaf in _leaves(pillar):
            where = ":".join(path)
            if leaf is None or isinstance(leaf, bool) or any(fnmatchcase(where, public) for public in self._public):
                continue
            if self._counts(path, leaf):
                self._learn(_text(leaf))

    @staticmethod
    def _counts(path: tuple[str, ...], leaf: object) -> bool:
        """Return whether a leaf of a pillar is a secret; what is short needs a telling name of its own."""
        text = _text(leaf)
        if isinstance(leaf, (str, bytes)) and len(text) >= _INSIDE_WORDS:
            return len(text) >= LONG_ENOUGH or any(_NAMED.search(name) for name in path)
        shortest = _SHORTEST if isinstance(leaf, (str, bytes)) else _INSIDE_WORDS
        return len(text) >= shortest and bool(path) and bool(_NAMED.search(path[-1]))

    def learn_names(self, value: Any) -> None:
        """Take what stands below the names of secrets in anything else."""
        for path, leaf in _leaves(value):
            if path and isinstance(leaf, str) and len(leaf) >= _INSIDE_WORDS and _NAMED.search(path[-1]):
                self._learn(leaf)

    def _learn(self, secret: str) -> None:
        """Give a secret its placeholder."""
        if not secret.strip() or secret in self._known:
            return
        placeholder = self._names.setdefault(secret, f"<secret-{len(self._names) + 1}>")
        for form in _forms(secret):
            whole = form in {secret, secret.strip()}
            if form.strip() and form not in self._known and (whole or len(form) >= _INSIDE_WORDS):
                self._forms.setdefault(form, placeholder)
        self._pattern = None

    def _compiled(self) -> re.Pattern[str]:
        """Return the pattern of all secrets, longest first, so that a part never hides the whole."""
        if self._pattern is None:
            forms = sorted(self._forms, key=lambda form: (-len(form), form))
            self._pattern = re.compile(
                "|".join(
                    re.escape(form) if len(form) >= _INSIDE_WORDS else rf"(?<!\w){re.escape(form)}(?!\w)"
                    for form in forms
                )
                or r"(?!)"
            )
        return self._pattern

    def relevant(self, texts: Iterable[str]) -> None:
        """Keep only the forms that occur in one of `texts`: a search for thousands at once would take minutes."""
        whole = "\0".join(texts)
        self._forms = {form: name for form, name in self._forms.items() if form in whole}
        self._pattern = None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        hidden = _CRYPT.sub("<hash>", _PEM.sub("<PEM>", text))
        return self._compiled().sub(lambda found: self._forms[found.group()], hidden)

    def _key(self, key: str) -> str:
        """Return the name of an entry without secrets; of a state's, module and function are never one."""
        parts = key.split(_STATE_KEY)
        if len(parts) == _STATE_PARTS:
            return _STATE_KEY.join([parts[0], self.text(parts[1]), self.text(parts[2]), parts[3]])
        return self.text(key)

    def mask(self, value: Any) -> Any:
        """Return a value as JSON has it, without secrets."""
        if isinstance(value, dict):
            return {self._key(_text(key)): self._named(key, child) for key, child in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.mask(child) for child in value]
        if isinstance(value, (str, bytes)):
            return self.text(_text(value))
        if isinstance(value, int) and not isinstance(value, bool) and str(value) in self._forms:
            return self._forms[str(value)]
        return value if value is None or isinstance(value, (bool, int, float)) else self.text(str(value))

    def _named(self, key: object, value: Any) -> Any:
        """Return the value of an entry; a short text below the name of a secret goes entirely."""
        short = isinstance(value, str) and 0 < len(value) < _INSIDE_WORDS and _NAMED.search(_text(key))
        return "<secret>" if short else self.mask(value)


def texts(value: Any) -> Iterator[str]:
    """Return every text and number in a value, keys included."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield _text(key)
            yield from texts(child)
    elif isinstance(value, (list, tuple, set)):
        for child in value:
            yield from texts(child)
    elif value is not None and not isinstance(value, bool):
        yield _text(value)


_JOB: Final = re.compile(r"salt/job/(\d+)/(new|ret|start)(?:/(.+))?")
# what a simulated minion sends by itself
_OWN_START: Final = ("minion_start", "salt/minion/*/start", "salt/job/*/start/*", "minion/refresh/*")
_SENT: Final = "_minion_event"


def seconds(stamp: str) -> float:
    """Return the time of an event's stamp in seconds since the epoch."""
    return datetime.fromisoformat(stamp if stamp[-6:-5] in {"+", "-"} else f"{stamp}+00:00").timestamp()


@dataclass(slots=True)
class _Job:
    """A job that was published and hasn't returned."""

    since: float
    fun: Any
    args: list[Any]
    events: list[Event] = field(default_factory=list)


class Collector:
    """What one minion answered so far; `jobs` counts the jobs among its `answers`."""

    def __init__(self, minion: str, since: float) -> None:
        """Begin at a time in seconds since the epoch, from which events that belong to no job count."""
        self.jobs = 0
        self.answers: list[Answer] = []
        self.events: list[Event] = []
        self._minion = minion
        self._since = since
        self._jobs: dict[str, _Job] = {}

    def feed(self, tag: str, data: Mapping[str, Any]) -> None:
        """Take one event of the master's bus."""
        if "_stamp" not in data:
            return
        at = seconds(data["_stamp"])
        found = _JOB.fullmatch(tag)
        if found and found[2] == "new":
            self._jobs[found[1]] = _Job(at, data["fun"], list(data["arg"]))
        elif found and found[2] == "ret":
            if found[3] == self._minion:
                self._returned(found[1], data, at)
        elif self._mine(tag, data) and not any(fnmatchcase(tag, pattern) for pattern in _OWN_START):
            sent = data.get("data") if data.get("cmd") == _SENT else data
            if isinstance(sent, dict):
                sent = {name: value for name, value in sent.items() if name != "_stamp"}
            self._fired(tag, sent, at)

    def _mine(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Return whether the minion fired an event itself."""
        if tag.startswith(f"salt/beacon/{self._minion}/"):
            return True
        return data.get("id") == self._minion and data.get("cmd") == _SENT

    def _fired(self, tag: str, data: Any, at: float) -> None:
        """Keep an event with the job that it names, or else the one that began last and still runs."""
        named = next((jid for jid in self._jobs if jid in tag), None)
        running = [jid for jid, job in self._jobs.items() if self._kept(job)]
        jid = named or (running[-1] if running else None)
        if jid is None:
            self.events.append(Event(round(max(0.0, at - self._since), 6), tag, data))
        else:
            job = self._jobs[jid]
            job.events.append(Event(round(max(0.0, at - job.since), 6), tag, data))

    @staticmethod
    def _kept(job: _Job) -> bool:
        """Return whether any function of a job gets into the recording."""
        return not all(is_live(fun) for fun in ([job.fun] if isinstance(job.fun, str) else job.fun))

    def _returned(self, jid: str, data: Mapping[str, Any], at: float) -> None:
        """Make answers of a return; one whose publication nobody saw has no time, and is left out."""
        job = self._jobs.pop(jid, None)
        if job is None:
            return
        self.jobs += self._kept(job)
        took = round(max(0.0, at - job.since), 6)
        whole = Answer(
            "", (), data["return"], 0, took, jid, data.get("out"), tuple(sorted(job.events, key=lambda event: event.at))
        )
        if isinstance(job.fun, str):
            parts = [replace(whole, fun=job.fun, args=tuple(job.args), retcode=int(data.get("retcode", 0)))]
        else:
            parts = self._several(job, data, whole)
        self.answers += [part for part in parts if not is_live(part.fun)]

    @staticmethod
    def _several(job: _Job, data: Mapping[str, Any], whole: Answer) -> list[Answer]:
        """Take the return of several functions apart: equal shares of the time, events with the first."""
        share = round(whole.seconds / len(job.fun), 6)
        return [
            replace(
                whole,
                fun=fun,
                args=tuple(args),
                value=data["return"].get(fun),
                retcode=int(data["retcode"].get(fun, 1)),
                seconds=share,
                out=None,
                events=() if number else whole.events,
            )
            for number, (fun, args) in enumerate(zip(job.fun, job.args, strict=False))
            if fun in data["return"]
        ]


_WAIT: Final = 0.5
_ASK_S: Final = 30
_NEVER_SECRET: Final = frozenset({"base", "True", "False", "None"})


class Master:
    """The master on this machine, as far as a recording needs it."""

    def __init__(self, config: Path) -> None:
        """Read its configuration.

        Raises:
            UsageError: if there is none, or its event bus isn't there or not for this user.
        """
        if not config.is_file():
            raise UsageError(f"{config} isn't there: give --config the master's configuration.")
        self.config = config
        self.opts = salt.config.master_config(str(config))
        bus = f"{self.opts['sock_dir']}/master_event_pub.ipc"
        if not os.access(bus, os.R_OK | os.W_OK):
            raise UsageError(f"{bus} can't be opened: run this on the master, while it runs, as its user.")

    def grains(self, minion: str) -> dict[str, Any]:
        """Return the grains of a minion, from the master's cache or from the minion itself.

        Raises:
            UsageError: if neither has them.
        """
        _, grains, _ = salt.utils.minions.get_minion_data(minion, self.opts)
        if not grains:
            client = salt.client.LocalClient(str(self.config))
            grains = client.cmd(minion, "grains.items", timeout=_ASK_S, tgt_type="list").get(minion)
        if not isinstance(grains, dict):
            raise UsageError(f"{minion} has no grains here and doesn't answer: start it, and accept its key.")
        return grains

    def pillars(self, minion: str, grains: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the pillar of a minion as it is in the cache and as it is now.

        Raises:
            UsageError: if it can't be compiled: without it nothing would be masked.
        """
        _, _, cached = salt.utils.minions.get_minion_data(minion, self.opts)
        try:
            fresh = salt.pillar.Pillar(self.opts, grains, minion, self.opts.get("saltenv")).compile_pillar()
            problem = (fresh.get("_errors") or [None])[0]
        except SaltException as error:
            problem = error
        if problem:
            raise UsageError(f"The pillar of {minion} doesn't compile ({problem}): mend it, it says what to mask.")
        return [cached or {}, fresh]

    def listen(self, collector: Collector, done: Callable[[], bool], heard: Callable[[int], None]) -> None:
        """Feed `collector` until `done` or Ctrl-C; `heard` is told the number of jobs."""
        with salt.utils.event.get_event(
            "master", sock_dir=self.opts["sock_dir"], opts=self.opts, listen=True, raise_errors=True
        ) as bus:
            # subscribes now, not with the first wait
            bus.connect_pub()
            heard(0)
            try:
                while not done():
                    event = bus.get_event(wait=_WAIT, full=True, auto_reconnect=True)
                    if event is not None:
                        before = collector.jobs
                        collector.feed(event["tag"], event["data"])
                        if collector.jobs != before:
                            heard(collector.jobs)
            except KeyboardInterrupt:
                return


def assemble(
    minion: str,
    grains: dict[str, Any],
    pillars: Sequence[dict[str, Any]],
    collector: Collector,
    public: Sequence[str],
    now: datetime,
) -> Recording:
    """Return what was collected as a recording, masked."""
    masker = Masker(public, _NEVER_SECRET | set(adapt.identity(grains)))
    for pillar in pillars:
        masker.learn_pillar(pillar)
    for answer in collector.answers:
        for arg in answer.args:
            if isinstance(arg, dict):
                masker.learn_pillar(arg.get("pillar") or {})
    everything: list[Any] = [grains, [(event.tag, event.data) for event in collector.events]]
    for answer in collector.answers:
        everything += [answer.args, answer.value, [(event.tag, event.data) for event in answer.events]]
    masker.learn_names(everything)
    masker.relevant(texts(everything))

    def masked(events: Sequence[Event]) -> tuple[Event, ...]:
        return tuple(Event(event.at, masker.text(event.tag), masker.mask(event.data)) for event in events)

    return Recording(
        minion=minion,
        salt=str(grains.get("saltversion", "")),
        recorded=now.isoformat(timespec="seconds"),
        grains=masker.mask(grains),
        answers=tuple(
            replace(
                answer,
                args=tuple(masker.mask(list(answer.args))),
                value=masker.mask(answer.value),
                events=masked(answer.events),
            )
            for answer in collector.answers
        ),
        events=masked(collector.events),
    )


def write(recording: Recording, path: Path) -> None:
    """Write a recording, whole or not at all.

    Raises:
        UsageError: if the file can't be written.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        # no rule finds every secret
        draft.touch(mode=0o600)
        draft.write_text(recording.to_json(), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror}): give another --output.") from error


def record(
    config: Path, minion: str, output: Path, *, jobs: int | None, seconds: float | None, public: Sequence[str]
) -> Recording:
    """Record a minion until `jobs` have returned, `seconds` are over, or Ctrl-C; write the file and return it.

    Raises:
        UsageError: if master, minion or file can't be used, or nothing was heard.
    """
    if not output.absolute().parent.is_dir():
        raise UsageError(f"{output.absolute().parent} isn't there: make it, or give another --output.")
    master = Master(config)
    grains = master.grains(minion)
    pillars = master.pillars(minion, grains)
    collector = Collector(minion, time.time())
    deadline = time.monotonic() + seconds if seconds is not None else None

    def done() -> bool:
        return (jobs is not None and collector.jobs >= jobs) or (deadline is not None and time.monotonic() >= deadline)

    def heard(count: int) -> None:
        if not count:
            print(f"Recording {minion}: let it run jobs, Ctrl-C ends.", file=sys.stderr, flush=True)
        elif sys.stderr.isatty():
            print(f"\r{count} jobs", end="", file=sys.stderr, flush=True)

    master.listen(collector, done, heard)
    if not collector.answers and not collector.events:
        raise UsageError(f"{minion} answered nothing that can be recorded: run jobs on it meanwhile.")
    # it may have changed on the way
    pillars += master.pillars(minion, grains)
    recording = assemble(minion, grains, pillars, collector, public, datetime.now(UTC))
    write(recording, output)
    return recording
