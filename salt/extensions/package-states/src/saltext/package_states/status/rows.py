"""The verdicts for a minion beside what is installed on it."""

from typing import NamedTuple

import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.model.version as versions
from saltext.package_states.model.decision import IMPOSSIBLE, NOTHING, Facts, decide
from saltext.package_states.model.resolver import managed


class Row(NamedTuple):
    """One package of a minion"""

    package: str  # ``name`` or ``name:architecture``
    # the version of the specification's table: ``Latest``, a version, or nothing
    version: str
    condition: str  # ``Equal``, ``More than`` and so on, or nothing
    state: str  # ``Installed`` or ``Absent``, with what is special about it
    verdict: str  # what is wanted, as text; nothing if that can't be decided
    source: str  # where the verdict comes from
    overruled: tuple  # the states that were overruled
    found: str  # the versions that are installed, as text
    consistent: bool  # whether what is installed is what is wanted
    reason: str  # why not


# what more is wanted than that a package is installed or absent
SPECIAL = (items.KEPT, items.PRESENT, items.PURGED)
#: What the drift of a package is told with
DRIFT = ("package", "verdict", "found", "source", "reason")
CONDITIONS = {
    "=": "Equal",
    ">": "More than",
    "<": "Less than",
    "<=": "Less or equal",
    ">=": "More or equal",
    "!=": "Not equal",
}


def rows(verdicts, manager, packages, unknown=()):
    """Return a tuple of :class:`Row`, one for each managed package; no repository has ``unknown`` ones"""
    others = {}
    for key, there in packages.items():
        name, colon, _ = key.partition(":")
        if colon:
            others.setdefault(name, []).extend(there.get("versions", ()))
    return tuple(
        _row(verdict, manager, packages, others, unknown)
        for verdict in managed(verdicts)
    )


def _row(verdict, manager, packages, others, unknown):
    item = verdict.item
    there = packages.get(item.key, {})
    installed = tuple(there.get("versions", ()))
    if item.wanted in items.ABSENT and not item.architecture:
        # whatever its architecture
        installed += tuple(others.get(item.name, ()))
    available = tuple(there.get("available", ()))
    facts = Facts(
        manager,
        installed,
        available,
        there.get("candidate", "") or versions.newest(manager, available),
        bool(there.get("configured")),
        there.get("kept", ""),
    )
    decision = decide(item, facts)
    # what the repositories lack is no drift where the right version is there,
    # but everything else is that needs an action
    reason = "" if decision.action == NOTHING else decision.reason or decision.action
    if decision.action == IMPOSSIBLE and not installed:
        reason = "it is not installed"
    elif reason and installed:
        reason = f"{', '.join(installed)} is installed"
    if reason and item.key in unknown:
        reason += ", and no repository has what is wanted"
    wanted = ", ".join(part[1] for part in item.condition)
    return Row(
        item.key,
        "Latest" if item.wanted == items.LATEST else wanted,
        ", ".join(CONDITIONS[part[0]] for part in item.condition),
        _state(item, there),
        items.show(item),
        verdict.source.label,
        verdict.overruled,
        ", ".join(installed),
        not reason,
        reason,
    )


def _state(item, there):
    state = "Absent" if item.wanted in items.ABSENT else "Installed"
    special = [item.wanted] if item.wanted in SPECIAL else []
    if there.get("orphan"):
        special.append("orphan")
    return f"{state} ({', '.join(special)})" if special else state


def summary(minion, found):
    return {
        "minion": minion,
        "consistent": all(row.consistent for row in found),
        "managed": len(found),
        "drift": [
            {field: getattr(row, field) for field in DRIFT}
            for row in found
            if not row.consistent
        ],
    }


def holds(verdicts, packages):
    """Return the packages that a minion holds or locks while nothing is wanted that would, sorted"""
    ours = {
        verdict.item.key for verdict in verdicts if verdict.item.wanted in items.LOCKING
    }
    return sorted(
        key for key, there in packages.items() if there.get("held") and key not in ours
    )


def columns(lines):
    """Return rows of cells as lines of text, in columns"""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        for line in lines
    ]


def people(status, found):
    """Return the status of a minion as a text with a table"""
    head = ("Package", "Version", "Condition", "State", "Found", "Verdict", "From")
    known, errors = status["refreshed"] is not None, status["errors"]
    lines = [head] + [
        (
            row.package,
            row.version,
            row.condition,
            row.state,
            row.found or "-",
            (
                ("see below" if row.package in errors else row.reason or "ok")
                if known
                else "not known"
            ),
            row.source,
        )
        for row in found
    ]
    text = [*columns(lines), ""]
    minion, drift = status["minion"], len(status["drift"])
    text += errors.values()
    if not known:
        text.append(f"{minion} was never heard: {status['pending']}")
    elif "pending" in status:
        text.append(
            f"{minion} is pending: {status['pending']}; see package_states.refresh {minion}."
        )
    elif drift:
        text.append(f"{minion} is drifting: {drift} of {len(found)}.")
    else:
        text.append(f"{minion} is consistent.")
    # what keeps the file as it is says so itself
    if not status["current"] and "" not in errors:
        text.append("Its file is an older one; run package_states.refresh.")
    if status["held"]:
        text.append(f"Held by others than package states: {', '.join(status['held'])}.")
    if known:
        text.append(security(found, status["security"]))
        text.append(f"It sent its packages at {status['refreshed'][:19]}.")
    return "\n".join(text)


def security(found, newer):
    """Return a sentence on security updates, of which ``newer`` is None if that is not known"""
    if newer is None:
        return "Whether it lacks security updates is not known: none of its repositories tells."
    if not newer:
        return "It lacks no security update."
    by_key = {row.package: row for row in found}
    parts = []
    for key, there in sorted(newer.items()):
        row = by_key.get(key)
        why = f" (it is to be {row.verdict}, from {row.source})" if row else ""
        parts.append(f"{names.line(key)} {names.line(''.join(there[:1]))}{why}")
    noun = "package lacks a security update" if len(parts) == 1 else None
    more = f" and {len(parts) - 5} more; see table=False" if parts[5:] else ""
    return (
        f"{len(parts)} {noun or 'packages lack security updates'}:"
        f" {', '.join(parts[:5])}{more}."
    )
