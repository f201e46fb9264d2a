"""Recording a real minion, on its master: listen to the event bus, mask what is secret, write a file.

Nothing is written before the end, and nothing unmasked ever: what is secret is known only when all has been heard.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import salt.client
import salt.config
import salt.pillar
import salt.utils.event
import salt.utils.minions
from salt.exceptions import SaltException

from evil_minions.errors import UsageError
from evil_minions.recording import adapt
from evil_minions.recording.collect import Collector
from evil_minions.recording.mask import Masker, texts
from evil_minions.recording.recording import Event, Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_WAIT: Final = 0.5
_ASK_SECONDS: Final = 30
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
            grains = client.cmd(minion, "grains.items", timeout=_ASK_SECONDS, tgt_type="list").get(minion)
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
