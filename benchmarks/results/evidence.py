"""Reads docs/evidence: what was measured of each benchmark and scenario, and whether the code has changed since.

A copy has the figures, their spread and the environment, and no samples. Of a scenario it is the newest finished run
as the scenario is now: a run of other minions or another definition measured something else, one without the trees
that are compared compares nothing, and one that contradicts its samples proves nothing.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import FORMAT, BenchmarkError, Samples, document
from benchmarks.registry import ANSWERED, BENCHMARKS, BOTH, LOADS, own
from benchmarks.results.page import Row, Section, read_source
from harness.errors import SettingsError
from harness.paths import ROOT
from harness.results import result as results
from harness.results import runs
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.benchmark import Figure
    from benchmarks.registry import Load, Subject

# what a benchmark's file has that nobody reads in a copy
SAMPLES = "samples"


def collect(bench: Path, folder: Path, evidence: Path) -> list[Path]:
    """Copy what is newer than the evidence, and return the files that were written.

    Raises:
        BenchmarkError: if a file can't be read, and writes nothing then.
    """
    found = [*_benchmarks(bench), *_loads(folder)]
    written = []
    evidence.mkdir(parents=True, exist_ok=True)
    for values in found:
        path = evidence / f"{values['name'].replace('/', '-')}.json"
        if path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("date", "") >= values["date"]:
            continue
        git = {**values["git"], "patches": _patches(values["git"]["commit"])}
        path.write_text(json.dumps({**values, "git": git}, indent=1) + "\n", encoding="utf-8")
        written.append(path)
    return written


def _patches(commit: str) -> str:
    """Return the last commit up to this one that changed what Salt runs, "" if git does not know."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%H", commit, "--", "patches/*.patch", "salt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _benchmarks(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        if path.stem not in BENCHMARKS:
            raise BenchmarkError(f"{path} belongs to no benchmark: delete it.")
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            # a figure of the same name may mean something else there
            if values["format"] != FORMAT:
                continue
            figures = [{key: one[key] for key in one if key != SAMPLES} for one in values["figures"]]
            yield {**values, "figures": figures}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            again = f"run `nox -s bench -- {path.stem}` again, or delete the file"
            raise BenchmarkError(f"{path} is damaged: {again}.") from None


def _loads(folder: Path) -> Iterator[dict[str, Any]]:
    for load in LOADS:
        for path in sorted(folder.glob(f"*-{load.name}/result.json"), reverse=True):
            try:
                found = _run(path.parent, load, load.subject)
            except SettingsError as error:
                raise BenchmarkError(str(error)) from None
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                raise BenchmarkError(
                    f"{path} or a file beside it is damaged: run `python -m harness result {path.parent}`, "
                    "or delete the run."
                ) from None
            if found is not None:
                yield found
                break


def _run(folder: Path, load: Load, subject: Subject) -> dict[str, Any] | None:
    """Return the evidence of a run, None if it is not one that counts."""
    run = runs.read(folder)
    if run.status != "finished" or not set(load.trees) <= set(run.trees):
        return None
    # in results of another format a field of the same name may mean something else
    if json.loads((folder / "result.json").read_text(encoding="utf-8"))["format"] != results.FORMAT:
        return None
    values = results.load(folder)
    facts = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    # without the key nobody has verified it
    if values.get("disagrees", True) or facts.get("bed", {}).get("made_of") != "processes":
        return None
    if own(values["scenario"]) != subject.own:
        return None
    return {
        "format": FORMAT,
        "name": subject.name,
        "about": subject.about,
        "command": run.command.replace("python -m harness load", "nox -s load --"),
        "date": run.started,
        "minions": run.minions,
        "rounds": run.repeats,
        "own": subject.own,
        "doubts": values.get("why", []),
        "machine": {**facts["machine"], "python": facts["versions"]["python"]},
        "versions": facts["versions"],
        "git": facts["git"],
        "trees": facts["trees"],
        "figures": [one for figure in subject.figures if (one := _figure(figure, values["repeats"], run.minions))],
    }


def _figure(figure: Figure, repeats: Sequence[Mapping[str, Any]], minions: int) -> dict[str, Any] | None:
    """Return a figure as a benchmark writes it; None if the patched tree has no value."""
    stock, ours = ([_value(one.get(tree, {}), figure.key) for one in repeats] for tree in BOTH)
    if None in ours:
        return None
    samples = Samples([one for one in ours if one is not None], [one for one in stock if one is not None])
    found = document(figure, samples, minions)
    return {key: found[key] for key in found if key != SAMPLES}


def _value(tree: Mapping[str, Any], field: str) -> float | None:
    if field != ANSWERED:
        return thresholds.lookup(tree, field)
    asked, failed = (thresholds.lookup(tree, name) for name in ("client_requests", "client_errors"))
    return None if asked is None or failed is None else asked - failed


def sections(folder: Path, subjects: Sequence[Subject], code: Mapping[str, Any]) -> list[Section]:
    """Return a section for each subject; one without evidence has no rows.

    Args:
        code: the hashes of each tree (stock, patched) as it is now.

    Raises:
        BenchmarkError: if a file is broken, of another format, or of nothing that is known.
    """
    known = {subject.file for subject in subjects}
    for path in sorted(folder.glob("*")):
        if path.name not in known:
            raise BenchmarkError(f"{path} belongs to no benchmark and no scenario: delete it.")
    return [_section(subject, folder / subject.file, code) for subject in subjects]


def _section(subject: Subject, path: Path, code: Mapping[str, Any]) -> Section:
    if not path.exists():
        return Section(subject)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if (values["format"], values["name"]) != (FORMAT, subject.name):
            raise ValueError(subject.name)  # noqa: TRY301 - the same sentence for every damage
        # a tree that was measured, or what it was measured with, has changed since
        changed = any(_differ(tree, code[name], subject) for name, tree in values["trees"].items() if name in code)
        source = read_source(path.name, values, changed or values["own"] != subject.own)
        found = {entry["key"]: entry for entry in values["figures"]}
        minions = int(values["minions"])
        rows = [_row(figure, found[figure.key], minions) for figure in subject.figures if figure.key in found]
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        again = f"run `{subject.command}` and `nox -s results -- --collect`, or delete the file"
        raise BenchmarkError(f"{path} is damaged or of another format: {again}.") from None
    return Section(subject, source, tuple(rows))


def _differ(measured: Mapping[str, Any], now: Mapping[str, Any], subject: Subject) -> bool:
    """Say whether Salt, or an extension that is measured, is another one; the other extensions change no figure."""
    if "core" not in measured:
        return bool(measured["hash"] != now["hash"])
    pairs = ((measured["extensions"].get(name), now["extensions"].get(name)) for name in subject.extensions)
    return bool(measured["core"] != now["core"]) or any(then != today for then, today in pairs)


def _row(figure: Figure, found: Mapping[str, Any], minions: int) -> Row:
    """Return the row of one figure; words and aims are the code's, numbers the file's."""
    if (found["unit"], found["statistic"]) != (figure.unit, figure.statistic):
        raise ValueError(figure.key)
    numbers = {name: None if found[name] is None else float(found[name]) for name in ("stock", "ours", "ratio")}
    return Row(figure, figure.title(minions), int(found["n"]), **numbers)
