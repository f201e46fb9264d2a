"""The campaign: what it measures, in which order, and when it refuses."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import campaign
from benchmarks.benchmark import Benchmark, BenchmarkError
from benchmarks.registry import BENCHMARKS, subjects
from benchmarks.results.page import QUESTIONS

if TYPE_CHECKING:
    from benchmarks.registry import Subject
    from tests.unit.benchmarks.conftest import Measured


def test_everything_is_wanted_first_what_the_first_table_shows(empty: Measured) -> None:
    """Without evidence all benchmarks and scenarios are measured, those of the first table before the others."""
    found = [one.name for one in campaign.wanted(subjects(), None, empty.docs)]
    assert sorted(found) == sorted(one.name for one in subjects())
    first = {question.name for question in QUESTIONS}
    assert set(found[: len(first)]) == first


def test_what_has_evidence_is_passed_over(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption it goes on; what was measured with older code is measured again."""
    assert campaign.wanted(subjects(), None, measured.docs) == []
    (measured.evidence / "pillar.json").unlink()
    assert [one.name for one in campaign.wanted(subjects(), None, measured.docs)] == ["pillar"]
    monkeypatch.setattr(Benchmark, "own", lambda one: "new" if one.name == "query" else "x")
    found = {one.name for one in campaign.wanted(subjects(), None, measured.docs)}
    assert {"pillar", "query"} <= found


def test_only_what_was_asked_for(empty: Measured) -> None:
    """Names are those of the page; another one is named in the error."""
    assert [one.name for one in campaign.wanted(subjects(), ["load/burst"], empty.docs)] == ["load/burst"]
    with pytest.raises(BenchmarkError, match="nothing to measure with the name nosuch; choose from load/default"):
        campaign.wanted(subjects(), ["nosuch"], empty.docs)


@pytest.fixture
def alone(empty: Measured, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Return folders for a campaign, on a machine without other work."""
    monkeypatch.setattr(campaign, "ROOT", empty.folder)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.chdir(empty.folder)
    return empty


def test_a_busy_machine_is_refused(
    alone: Measured, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started beside other work, unless `--busy` says so."""
    started: list[str] = []

    def measure(subject: Subject) -> bool:
        started.append(subject.name)
        return True

    monkeypatch.setattr(campaign, "_measure", measure)
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    assert campaign.main(["--only", "pillar"]) == 2
    assert (started, "the machine is busy" in capsys.readouterr().err) == ([], True)
    assert campaign.main(["--only", "pillar", "--busy"]) == 0
    assert started == ["pillar"]
    assert alone.page.is_file()


@pytest.mark.usefixtures("alone")
def test_a_failure_does_not_end_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are measured, what remains is shown before each, and the exit code tells of the failure."""
    monkeypatch.setattr(campaign, "_measure", lambda subject: subject.name != "pillar")
    assert campaign.main(["--only", "pillar", "query"]) == 1
    printed = capsys.readouterr()
    assert "1 of 2: nox -s bench -- pillar; about 7 minutes remain" in printed.out
    assert "2 of 2: nox -s bench -- query; about 5 minutes remain" in printed.out
    assert "not measured: pillar; the same command tries them again" in printed.err


def test_evidence_decides_whether_it_was_measured(alone: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that ends well and leaves nothing has measured nothing."""
    (pillar,) = campaign.wanted(subjects(), ["pillar"], alone.docs)
    program = alone.folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert not campaign._measure(pillar)

    file = alone.measurement(BENCHMARKS["pillar"])
    keep = alone.folder / "keep"
    file.rename(keep)
    program.write_text(f"#!/bin/sh\nmkdir -p build/bench && cp {keep} build/bench/pillar.json\n")
    assert campaign._measure(pillar)
    assert (alone.evidence / "pillar.json").is_file()


def test_the_list_measures_nothing(alone: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    """`--list` shows minutes and names."""
    assert campaign.main(["--list", "--only", "pillar"]) == 0
    assert capsys.readouterr().out == "     2 min  pillar\n"
    assert not alone.evidence.exists()


@pytest.mark.parametrize(
    "edit", [('"load_average_at_start": 0.1', '"load_average_at_start": 7.5'), ('"doubts": []', '"doubts": ["gaps"]')]
)
def test_evidence_of_a_busy_machine_is_measured_again(measured: Measured, edit: tuple[str, str]) -> None:
    """It counts only for a campaign that may run beside other work."""
    path = measured.evidence / "load-burst.json"
    path.write_text(json.dumps(json.loads(path.read_text())).replace(*edit))
    assert [one.name for one in campaign.wanted(subjects(), None, measured.docs)] == ["load/burst"]
    assert campaign.wanted(subjects(), None, measured.docs, busy=True) == []
