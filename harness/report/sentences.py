"""Sentences of the page: what the trees are, where they ran, and what a reader has to know of the samples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from harness.report.rows import number
from harness.results import trees as known
from harness.scenarios import labels

if TYPE_CHECKING:
    from collections.abc import Mapping


MEANINGS = {"stock": "as it is released", "patched": "with our patches", "other": "of another folder"}


def meaning(tree: str, scenario: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """Return what a tree is: the release of Salt, and the settings that its master alone has."""
    kind = labels.kind(tree)
    own = scenario.get("tree_master", {}).get(kind, {})
    place = machine.get("trees", {}).get(tree, {}).get("folder")
    release = machine.get("versions", {}).get(f"salt_{tree}", "")
    words = ["Salt", *([release] if release else []), f"of {place}" if place else MEANINGS[kind]]
    return f"{' '.join(words)}{f', set to {json.dumps(own)[1:-1]}' if own else ''}"


def facts(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is known of the machine and the software, as pairs of a name and a value."""
    found = []
    for group, entries in machine.items():
        if group == "trees":
            found += [("tree", known.told(name, tree)) for name, tree in entries.items()]
        elif isinstance(entries, dict):
            found += [(name.replace("_", " "), _said(value)) for name, value in entries.items()]
    return found


def conditions(trees: list[str], machine: Mapping[str, Any], runs: int = 1) -> str:
    """Return what a reader has to know before looking at differences: the order, how busy it was, what was edited."""
    said = [f"{trees[0]} ran first, then {' and '.join(trees[1:])}." if len(trees) > 1 else f"Only {trees[0]} ran."]
    if runs > 1:
        turns = f"{' and '.join(trees)} took turns, {runs} times each; who came first changed."
        said = [turns if len(trees) > 1 else f"Only {trees[0]} ran, {runs} times."]
        said.append("Numbers are medians, with their ranges beside them; pictures and errors are of the first repeat.")
    cores, told = machine.get("machine", {}).get("cores"), machine.get("trees", {})
    loads = {tree: told[tree]["load_average"] for tree in trees if "load_average" in told.get(tree, {})}
    if loads and cores:
        words = " and ".join(f"{load:g} before {tree}" for tree, load in loads.items())
        words += " (medians)" if runs > 1 else ""
        said.append(f"The load average was {words} on {cores} core{'s' if cores > 1 else ''}")
        # that of a later tree has the end of the one before in it
        busy = next(iter(loads.values())) > cores
        said[-1] += ": the machine was busy, so treat differences in time as noise." if busy else "."
    said += [f"{known.told(name, tree)}." for name, tree in machine.get("trees", {}).items() if tree.get("edited")]
    return " ".join(said)


def remarks(trees: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (tree, sentence) for what a reader has to know of how the samples came about."""
    found = []
    for tree, values in trees.items():
        late = values["sent_late_s"]
        if late["late"]:
            text = f"{late['late']:,} of {late['n']:,} requests were sent more than 0.1 s after they were due, at most "
            found.append((tree, f"{text}{number(late['max'])} s: the clients had to wait for the processor."))
        elif late["n"]:
            found.append((tree, f"All {late['n']:,} requests were sent within {number(late['max'])} s of their time."))
        clocks = values["clocks"].items()
        found += [(tree, _of_clock(name, clock)) for name, clock in clocks if clock["offset_s"] or clock["drift_s"]]
        left = ", ".join(f"{count:,} {kind}" for kind, count in values["left_out"].items() if count)
        if left:
            found.append((tree, f"Of before the load's start and left out of every figure: {left}."))
        # results of older versions have none
        found += [(tree, f"{gap}; what needs it is not measured.") for gap in values.get("gaps", ())]
    return found


def _of_clock(name: str, clock: Mapping[str, float]) -> str:
    """Return what was measured of another machine's clock in a sentence."""
    offset, error, drift = (clock[key] for key in ("offset_s", "error_s", "drift_s"))
    side = "ahead of" if offset > 0 else "behind"
    text = f"The clock of {name} was {abs(offset):.3f} s {side} this machine's (± {error:.3f} s), which is corrected"
    moved = f"; it moved by {abs(drift):.3f} s during the run, which is not" if drift else ""
    return f"{text}{moved}."


def _said(value: object) -> str:
    """Return a fact in words; a table's entries follow each other."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {entry}" for name, entry in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
