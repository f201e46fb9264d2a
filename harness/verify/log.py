"""The logs, compared with what the run did: what the master published, how often it ended, which errors there were."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from harness.samples import MANIFEST, entries, some
from harness.verify.store import DOUBT, WRONG, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.scenarios.scenario import Scenario
    from harness.verify.store import Store


def differences(tree: str, samples: Path) -> Iterator[Finding]:
    """Yield what is no longer as the run left it."""
    if not (samples / MANIFEST).exists():
        text = f"there is no {MANIFEST}, as in runs of before: nobody can tell whether a sample was lost since"
        yield Finding(tree, DOUBT, f"{text}.")
        return
    try:
        recorded = json.loads((samples / MANIFEST).read_text(encoding="utf-8"))["files"]
        lines = {name: int(entry["lines"]) for name, entry in recorded.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        text = f"{MANIFEST} is broken, so nobody can tell whether a sample was lost or changed since the run"
        yield Finding(tree, WRONG, f"{text}.")
        return
    found = entries(samples)
    for name in sorted(recorded.keys() | found.keys()):
        if name not in found:
            yield Finding(tree, WRONG, f"{name} is gone: the run left it with {lines[name]:,} lines.")
        elif name not in recorded:
            yield Finding(tree, WRONG, f"{name} was not there when the run ended.")
        elif (entry := found[name]) != recorded[name]:
            yield Finding(tree, WRONG, f"{name} was changed after the run: {_how(lines[name], int(entry['lines']))}.")


def _how(before: int, now: int) -> str:
    if before == now:
        return f"it still has {now:,} lines, but others"
    return f"it has {now:,} lines, {abs(now - before):,} {'more' if now > before else 'fewer'} than the run left"


# with `log_level_logfile: info` in the scenario's `[master]` the master tells each publication and return
PUBLISHED = re.compile(r"Published command (\S+) with jid (\d{20})")
STOPPED = "Master received a SIGTERM. Exiting."
SEVERE = re.compile(r"\[(?:ERROR|CRITICAL) *\]")
# conditions that make every figure doubtful
EXHAUSTED = ("Too many open files", "No space left on device", "MemoryError", "Cannot allocate memory")
RESTART = "restart-master"
TRACEBACK = "Traceback (most recent call last):"
LONGEST = 160


def findings(store: Store, scenario: Scenario, logs: Path) -> Iterator[Finding]:
    """Yield what the master's log in the folder `logs` says against the samples."""
    paths = sorted({*logs.glob("master.log"), *logs.glob("master/master.log")})
    if not paths:
        yield store.wrong("the master's log is missing.")
        return
    published: dict[str, str] = {}
    stops, severe, exhausted = 0, list[str](), set[str]()
    for path in paths:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if found := PUBLISHED.search(line):
                    published[found[2]] = found[1]
                stops += STOPPED in line
                if SEVERE.search(line):
                    severe.append(line.strip()[:LONGEST])
                exhausted |= {word for word in EXHAUSTED if word in line}
    if exhausted:
        yield store.doubt(f"the master ran out of something: {some(sorted(exhausted))}.")
    elif severe:
        yield store.note(f"the master's log has {len(severe):,} errors, the first is: {severe[0]}")
    restarts = store.value("SELECT count(*) FROM moments WHERE do = :do AND error = ''", do=RESTART)
    # a master that is killed because it stops too slowly writes no last line
    if stops > restarts + 1:
        yield store.wrong(f"the master was stopped {stops:,} times; the run knows {restarts + 1:,}.")
    yield from _publications(store, scenario, published)


def fleet_findings(store: Store, logs: Path) -> Iterator[Finding]:
    """Yield what the fleet complained of in the folder `logs`: its minions did what no real one would have done."""
    paths = sorted({*logs.glob("fleet*.out"), *logs.glob("fleet-*/*.out"), *logs.glob("fleet-*/*.log")})
    count, last = 0, ""
    for path in paths:
        with path.open(encoding="utf-8", errors="replace") as file:
            inside = False
            for line in file:
                if line.startswith(TRACEBACK):
                    count, inside = count + 1, True
                elif inside and not line.startswith(" "):
                    last, inside = line.strip()[:LONGEST], False
    if count:
        text = f"simulated minions failed in {count:,} places or more, as no real one would have: {last}"
        yield store.doubt(f"{text}. Their figures are not to be trusted; the log of the fleet has more.")


def _publications(store: Store, scenario: Scenario, published: dict[str, str]) -> Iterator[Finding]:
    if not published or not store.timeline:
        return
    seen = {
        jid: (fun, count)
        for jid, fun, count in store.rows(
            "SELECT jid, min(fun), sum(targeted) FROM jobs WHERE time >= :start GROUP BY jid",
            start=store.timeline["load_start"],
        )
        if fun in scenario.asked
    }
    if unknown := sorted(seen.keys() - published.keys()):
        yield store.wrong(f"minions saw {len(unknown):,} jobs that the master's log does not have: {some(unknown)}.")
    unseen = sorted(jid for jid, fun in published.items() if fun in scenario.asked and jid not in seen)
    if unseen:
        yield store.note(f"{len(unseen):,} jobs that the master's log has reached no minion: {some(unseen)}.")
