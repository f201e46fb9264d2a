"""Reads docs/evidence: what was measured of each benchmark and scenario, and whether the code has changed since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.errors import DamagedFile
from benchmarks.measurement import FORMAT
from benchmarks.results.row import Row, Section, read_source
from harness.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.figure import Figure
    from benchmarks.results.subjects import Subject

FOLDER = ROOT / "docs" / "evidence"


def sections(folder: Path, subjects: Sequence[Subject], code: Mapping[str, str]) -> list[Section]:
    """Return a section for each subject; one without evidence has no rows.

    :param code: the hash of each tree (stock, patched) as it is now.

    Raises DamagedFile if a file is broken, of another format, or of nothing that is known.
    """
    known = {subject.file for subject in subjects}
    for path in sorted(folder.glob("*")):
        if path.name not in known:
            raise DamagedFile(f"{path} belongs to no benchmark and no scenario: delete it.")
    return [_section(subject, folder / subject.file, code) for subject in subjects]


def _section(subject: Subject, path: Path, code: Mapping[str, str]) -> Section:
    if not path.exists():
        return Section(subject)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if (values["format"], values["name"]) != (FORMAT, subject.name):
            raise ValueError(subject.name)  # noqa: TRY301 - the same sentence for every damage
        source = read_source(path.name, values, _older(values, subject, code))
        found = {entry["key"]: entry for entry in values["figures"]}
        minions = int(values["minions"])
        rows = [_row(figure, found[figure.key], minions) for figure in subject.figures if figure.key in found]
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        again = f"run `{subject.command}` and `nox -s results -- --collect`, or delete the file"
        raise DamagedFile(f"{path} is damaged or of another format: {again}.") from None
    return Section(subject, source, tuple(rows))


def _older(values: Mapping[str, Any], subject: Subject, code: Mapping[str, str]) -> bool:
    """Say whether a tree that was measured, or what it was measured with, has changed since."""
    measured = {name: str(tree["hash"]) for name, tree in values["trees"].items() if name in code}
    return values["own"] != subject.own or any(code[name] != found for name, found in measured.items())


def _row(figure: Figure, found: Mapping[str, Any], minions: int) -> Row:
    """Return the row of one figure; words and aims are the code's, numbers the file's."""
    if (found["unit"], found["statistic"]) != (figure.unit, figure.statistic):
        raise ValueError(figure.key)
    numbers = {name: None if found[name] is None else float(found[name]) for name in ("stock", "ours", "ratio")}
    return Row(figure, figure.title(minions), int(found["n"]), **numbers)
