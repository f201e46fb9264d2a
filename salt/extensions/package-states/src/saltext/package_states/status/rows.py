"""The verdicts for a minion beside what is installed on it."""

from typing import NamedTuple

import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.model.version as versions
from saltext.package_states.model.decision import IMPOSSIBLE, NOTHING, Facts, decide
from saltext.package_states.model.resolver import managed


class Row(NamedTuple):
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
    others = foreign(packages)
    return tuple(
        _row(verdict, facts(verdict.item, manager, packages, others), packages, unknown)
        for verdict in managed(verdicts)
    )


def foreign(packages):
    """Return the versions of packages that are not of the minion's own architecture, lists by name"""
    others = {}
    for key, there in packages.items():
        name, colon, _ = key.partition(":")
        if colon:
            others.setdefault(name, []).extend(there.get("versions", ()))
    return others


def facts(item, manager, packages, others):
    there = packages.get(item.key, {})
    installed = tuple(there.get("versions", ()))
    if item.wanted in items.ABSENT and not item.architecture:
        # whatever its architecture
        installed += tuple(others.get(item.name, ()))
    available = tuple(there.get("available", ()))
    return Facts(
        manager,
        installed,
        available,
        there.get("candidate", versions.newest(manager, available)),
        bool(there.get("configured")),
        there.get("kept", ""),
        bool(there.get("broken")),
    )


def _row(verdict, known, packages, unknown):
    item, installed = verdict.item, known.installed
    decision = decide(item, known)
    # what the repositories lack is no drift where the right version is there,
    # but everything else is that needs an action
    reason = "" if decision.action == NOTHING else decision.reason or decision.action
    if decision.action == IMPOSSIBLE and not installed:
        reason = "it is not installed"
    elif reason and installed and not known.broken:
        reason = f"{', '.join(installed)} is installed"
    if reason and item.key in unknown:
        reason += ", and no repository has what is wanted"
    wanted = ", ".join(part[1] for part in item.condition)
    return Row(
        item.key,
        "Latest" if item.wanted == items.LATEST else wanted,
        ", ".join(CONDITIONS[part[0]] for part in item.condition),
        _state(item, packages.get(item.key, {})),
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


def locking(entries):
    return {one.key for one in entries if one.wanted in items.LOCKING}


def holds(verdicts, packages, found):
    """Return the packages that a minion holds or locks though nothing that is wanted would, and those
    that are right and that it does not lock though what is wanted does; two sorted lists
    """
    held = {key for key, there in packages.items() if there.get("held")}
    ours = [one.item for one in verdicts if one.item.wanted in items.LOCKING]
    right = {row.package for row in found if row.consistent}
    # of a condition there may be no version to be locked out
    sure = {
        item.key
        for item in ours
        if not (item.wanted in items.ABSENT and item.condition)
    }
    return sorted(held - locking(ours)), sorted((sure & right) - held)


def columns(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        for line in lines
    ]


def people(status, found):
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
    if "" in errors and known:
        text.append(f"{minion} is pending, as that has to be settled first.")
    elif not known:
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
    others = set(status["held_by_others"])
    if others:
        text.append(
            f"Held there by somebody else, so that neither a run nor an upgrade changes it:"
            f" {', '.join(sorted(others))}; release the hold, or say unmanaged."
        )
    left = sorted(set(status["held"]) - others)
    if left:
        text.append(
            f"Locked there by Salt, or by a pin of somebody else, though no package state asks"
            f" for it: {', '.join(left)}; the next run releases what is Salt's."
        )
    if known:
        if status["unlocked"]:
            some = ", ".join(status["unlocked"])
            text.append(f"Not locked by then, a run of state.apply does that: {some}.")
        text.append(security(status["security"], status["security_locked"]))
        text.append(f"It sent its packages at {status['refreshed'][:19]}.")
    return "\n".join(text)


def frozen(found, newer):
    """Return what is to be of packages whose security updates an entry locks out, as text by package"""
    return {
        row.package: f"{row.verdict}, from {row.source}"
        for row in found
        if row.package in (newer or ())
        and row.verdict.partition(" ")[0] in items.LOCKING
    }


def security(newer, locked):
    """Return a sentence on security updates, of which ``newer`` is None if that is not known, those that
    are ``locked`` first
    """
    if newer is None:
        return "Whether it lacks security updates is not known: none of its repositories tells."
    if not newer:
        return "It lacks no security update."
    parts = []
    for key, there in sorted(
        newer.items(), key=lambda one: (one[0] not in locked, one)
    ):
        why = f" (it is to be {locked[key]})" if key in locked else ""
        parts.append(f"{names.line(key)} {names.line(''.join(there[:1]))}{why}")
    more = f" and {len(parts) - 5} more; see table=False" if parts[5:] else ""
    many = "security updates" if parts[1:] else "security update"
    return f"It lacks {len(parts)} {many}: {', '.join(parts[:5])}{more}."
