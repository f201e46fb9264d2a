"""Verifying a run: what was changed is named, and what agrees is worked out without the code of the result."""

from __future__ import annotations

import ast
import csv
import io
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from harness import __main__ as cli
from harness import figures as defined
from harness import report as page
from harness import verify as verification
from harness.commands import campaign
from harness.errors import SettingsError
from harness.progress import Progress
from harness.results import result
from harness.results import runs as folders
from harness.samples import write as write_manifest
from harness.verify.store import DOUBT, NOTE, WRONG
from tests import oracle, synthetic
from tests.mutations import mutate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MUTATIONS = 100
# of results the oracle imports only what is no arithmetic: what ran, and what the result says
FACTS = ["harness.results.result", "harness.results.runs"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that agrees with itself; nobody changes it."""
    return synthetic.write(tmp_path_factory.mktemp("runs"), synthetic.Shape())


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """Return the folder of such a run, to be changed."""
    return Path(shutil.copytree(whole, tmp_path / whole.name))


def change(path: Path, how: Callable[[list[str]], list[str]]) -> None:
    """Change the lines of a file as if they had been written so: the manifest is made of them."""
    with path.open(newline="") as file:
        lines = file.readlines()
    with path.open("w", newline="") as file:
        file.writelines(how(lines))
    samples = path.parent if path.parent.name == "samples" else path.parent.parent
    write_manifest(samples)


def again(folder: Path) -> verification.Verification:
    """Work out the result of changed samples, as a run does, and verify it."""
    result.write(result.compute(folder), folder)
    return verification.verify(folder)


def test_a_run_that_agrees(whole: Path) -> None:
    """Samples that agree with each other and with their result are trustworthy."""
    found = verification.verify(whole)
    assert (found.findings, found.agrees, found.trustworthy) == ((), True, True)


def test_every_figure_is_worked_out(whole: Path) -> None:
    """There is no figure of a result that the oracle doesn't compute as well, with the same outcome."""
    told = dict(verification.flattened(result.load(whole)["trees"]["stock"]))
    assert verification.verify(whole).figures == len(told)
    named = {figure.name for figure in defined.FIGURES if figure.name not in defined.BY_ROLE}
    assert named <= told.keys()
    assert list(oracle.look(whole)) == []


def test_the_oracle_has_its_own_arithmetic(root: Path) -> None:
    """Nothing of what works out a result is imported, or its mistakes would be made twice."""
    paths = {path.stem: path for path in (root / "harness" / "verify").glob("*.py")}
    paths.pop("__init__")
    permitted = {"harness.results.trees", "harness.results.runs"}
    assert {name for path in paths.values() for name in results_of(path)} <= permitted
    assert results_of(root / "tests" / "oracle.py") == FACTS


def results_of(path: Path) -> list[str]:
    """Return the names of `harness.results` that a module imports."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names]
    return [name for name in found if name.startswith("harness.results")]


@pytest.mark.parametrize("seed", range(MUTATIONS))
def test_mutation_after_the_run(run: Path, seed: int) -> None:
    """Whatever happens to a file of a finished run, it is named, or no figure depends on it."""
    mutation = mutate(run / "stock" / "samples", seed)
    try:
        same = json.loads(json.dumps(result.compute(run).trees)) == result.load(run)["trees"]
    except Exception:  # noqa: BLE001  # a result that can't be worked out any more is none
        same = False
    assert same or not verification.verify(run).agrees, str(mutation)


@pytest.mark.parametrize("seed", range(MUTATIONS))
def test_mutation_during_the_run(whole: Path, run: Path, seed: int) -> None:
    """What happens before the run closes its files is found out by the sources that know the same."""
    mutation = mutate(run / "stock" / "samples", seed)
    write_manifest(run / "stock" / "samples")
    try:
        result.write(result.compute(run), run)
    except Exception:  # noqa: BLE001  # the run would have failed with it
        return
    same = result.load(run)["trees"] == result.load(whole)["trees"]
    assert same or verification.verify(run).findings or list(oracle.look(run)), str(mutation)


def test_a_hand_in_the_result(run: Path) -> None:
    """A result that says something else than its samples is named with both values."""
    path = run / "result.json"
    values = json.loads(path.read_text())
    values["trees"]["stock"]["returns_lost"] = 7
    path.write_text(json.dumps(values))
    told = "stock: returns_lost is 7 in the result; its samples give 0."
    assert [finding.sentence for finding in verification.verify(run).of(WRONG)] == [told]


def test_a_return_that_the_master_lost(run: Path) -> None:
    """A return that was acknowledged and is not kept is a figure of the master's, and noted: nothing disagrees."""
    change(run / "stock" / "samples" / "kept.csv", lambda lines: lines[:-1])
    found = again(run)
    (note,) = found.of(NOTE)
    assert note.text.startswith("1 returns were acknowledged by the master and are not in its job cache: 1 of 2026")
    assert (found.agrees, found.trustworthy) == (True, True)
    assert result.load(run)["trees"]["stock"]["returns_lost"] == 1


@pytest.mark.parametrize("in_time", [True, False])
def test_a_job_that_came_after_the_end(run: Path, *, in_time: bool) -> None:
    """A job after a run that did not settle is in no job cache that was read; after one that did it is a fault."""
    samples = run / "stock" / "samples"
    line = json.loads((samples / "timeline.json").read_text())
    (samples / "timeline.json").write_text(json.dumps({**line, "settled_in_time": in_time}))
    jobs = next((samples / "fleet").glob("jobs.*.csv"))

    def with_another(lines: list[str]) -> list[str]:
        row = lines[-1].rstrip("\r\n").split(",")
        return [*lines, ",".join([str(line["settled"] + 1), "20990101000000000000", *row[2:]]) + "\n"]

    change(jobs, with_another)
    missing = [found for found in again(run).of(WRONG) if "job cache does not have: 20990101000000000000" in found.text]
    assert bool(missing) == in_time


def test_a_late_load_generator(run: Path) -> None:
    """Requests that were not sent at their time make a run doubtful, with how many and by how much."""

    def late(lines: list[str]) -> list[str]:
        cells = lines[1].split(",")
        cells[6] = f"{float(cells[5]) + 2.4:.6f}"
        cells[7] = f"{max(float(cells[7]), float(cells[6]) + 0.1):.6f}"
        return [lines[0], ",".join(cells), *lines[2:]]

    change(run / "stock" / "samples" / "requests.csv", late)
    doubts = [finding.text for finding in again(run).of(DOUBT)]
    assert doubts == ["1 of 10 requests were sent more than 1 s late, the latest by 2.4 s."]


def test_a_busy_machine(run: Path) -> None:
    """Work of others, a machine that is short of memory, and one that swaps are said in sentences."""

    def busy(lines: list[str]) -> list[str]:
        changed = [lines[0]]
        for number, line in enumerate(lines[1:]):
            cells = line.split(",")
            cells[2] = f"{float(cells[2]) + number * 0.8:.6f}"
            cells[5:7] = ["100", str(number * 10)]
            changed.append(",".join(cells))
        return changed

    change(run / "stock" / "samples" / "machine.csv", busy)
    first, second, third = [finding.text for finding in again(run).of(DOUBT)]
    assert first.startswith("other work used 0.")
    assert second == "only 100 MB of memory were left during the load."
    assert third.endswith("MB were swapped out during the load.")


def test_one_container_of_two_that_was_not_sampled(run: Path) -> None:
    """The samples of a container can't stand for those of another, and the figures of both are worked out so."""
    start = json.loads((run / "stock" / "samples" / "timeline.json").read_text())["load_start"]

    def blind(lines: list[str]) -> list[str]:
        pid = lines[1].split(",")[2]
        rows = [line.split(",") for line in lines[1:] if line.split(",")[2] == pid]
        seen = [row for row in rows if not start + 1 < float(row[0]) < start + 9]
        return [*lines, *(",".join([row[0], "locust", str(int(row[2]) + 10_000_000), *row[3:]]) for row in seen)]

    change(run / "stock" / "samples" / "processes.csv", blind)
    found = again(run)
    assert found.agrees, found.why
    assert any(text.startswith("stock: processes.csv of container 1 has 1 gaps") for text in found.why), found.why


def test_a_clock_that_was_set(run: Path) -> None:
    """A wall clock that jumps beside the monotonic one is named with the jump and when it was."""

    def jump(lines: list[str]) -> list[str]:
        changed = list(lines)
        for number in range(12, len(lines)):
            cells = lines[number].split(",")
            cells[1] = f"{float(cells[1]) - 3:.6f}"
            changed[number] = ",".join(cells)
        return changed

    change(run / "stock" / "samples" / "machine.csv", jump)
    assert [finding.text for finding in again(run).of(WRONG)] == [
        "the machine's clock was set during the run: +3.0 s at 11 s."
    ]


def test_more_than_the_machine_has(run: Path) -> None:
    """A process that used more between two samples than all cores give was counted twice."""

    def jump(lines: list[str]) -> list[str]:
        cells = [line.split(",") for line in lines]
        rows = [number for number, row in enumerate(cells) if row[1] == "MWorker"]
        for number in rows[len(rows) // 2 :]:
            cells[number][3] = f"{float(cells[number][3]) + 2000:.6f}"
        return [",".join(row) for row in cells]

    change(run / "stock" / "samples" / "processes.csv", jump)
    told = [finding.text for finding in again(run).of(WRONG)]
    assert any(text.startswith("processes used more than the machine has: MWorker ") for text in told), told


def test_errors_in_the_masters_log(run: Path) -> None:
    """What the master complains of is noted; that it ran out of something makes its figures doubtful."""
    log = run / "stock" / "logs" / "master.log"
    error = "2026-11-22 12:01:00,000 [salt.master :1][ERROR   ][9] {}\n"
    log.write_text(log.read_text() + error.format("Something"))
    (note,) = verification.verify(run).of(NOTE)
    assert note.text == f"the master's log has 1 errors, the first is: {error.format('Something').strip()}"
    log.write_text(log.read_text() + error.format("[Errno 24] Too many open files"))
    (doubt,) = verification.verify(run).of(DOUBT)
    assert doubt.text == "the master ran out of something: Too many open files."


def test_exceptions_in_the_fleets_log(run: Path) -> None:
    """A simulated minion that failed where no real one would have makes the run doubtful."""
    path = run / "stock" / "logs" / "fleet.out"
    path.write_text("evil_minions: The master is busy. Trying again.\n")
    assert again(run).trustworthy
    with path.open("a") as file:
        file.write('Traceback (most recent call last):\n  File "x.py", line 1, in x\nKeyError: 7\nready\n')
    (doubt,) = again(run).of(DOUBT)
    assert doubt.text.startswith(
        "simulated minions failed in 1 places or more, as no real one would have: KeyError: 7."
    )


def test_publications_in_the_masters_log(run: Path) -> None:
    """With the log's level at info, jobs that minions saw and the master did not publish are named."""
    log = run / "stock" / "logs" / "master.log"
    jids = [line.split(",")[1] for line in (run / "stock/samples/fleet/jobs.0.csv").read_text().splitlines()[1:]]
    lines = [f"User x Published command test.ping with jid {jid}\n" for jid in [*jids[1:], "2026" + "0" * 16]]
    log.write_text(log.read_text() + "".join(lines))
    found = verification.verify(run)
    assert [finding.text for finding in found.findings] == [
        f"minions saw 1 jobs that the master's log does not have: {jids[0]}.",
        f"1 jobs that the master's log has reached no minion: 2026{'0' * 16}.",
    ]


def test_runs_of_before_are_doubted(run: Path) -> None:
    """A run without manifest and without samples of the machine can't be verified as a whole, and says so."""
    for name in ("manifest.json", "machine.csv"):
        (run / "stock" / "samples" / name).unlink()
    found = verification.verify(run)
    assert found.agrees
    assert [doubt.text.partition(",")[0] for doubt in found.of(DOUBT)] == [
        "there is no manifest.json",
        "there are no samples of the machine",
    ]


def test_a_bed_on_several_machines(run: Path) -> None:
    """Of several machines nobody knows what they did besides: no figure is made of one's samples."""
    change(run / "stock" / "samples" / "machine.csv", lambda lines: lines[:1])
    found = again(run)
    assert found.agrees, found.why
    assert [text.partition(",")[0] for text in found.why] == ["stock: there are no samples of the machine"]
    figures_of = json.loads((run / "result.json").read_text())["trees"]["stock"]
    assert figures_of["others_cores"] is None


def test_clocks_of_other_hosts(run: Path) -> None:
    """The clock of each worker of another host is a figure, and a hand in it is named."""
    path = run / "stock" / "samples" / "clocks.1.csv"
    path.write_text("name,offset_s,error_s,drift_s\r\nlocust-1,200.500000,0.002000,0.000000\r\n")
    change(path, list)
    found = again(run)
    assert found.agrees, found.why
    clocks = json.loads((run / "result.json").read_text())["trees"]["stock"]["clocks"]
    assert clocks == {"locust-1": {"offset_s": 200.5, "error_s": 0.002, "drift_s": 0.0}}
    path.write_text(path.read_text().replace("200.5", "100.5"))
    # the manifest names the changed file, and the figure does not agree any more
    later = verification.verify(run)
    assert not later.agrees
    assert any("clocks.locust-1.offset_s" in text for text in later.why), later.why
    assert any("clocks.1.csv" in text for text in later.why), later.why


def test_a_run_without_a_result(run: Path) -> None:
    """Where there is nothing to verify a sentence says what to do."""
    (run / "result.json").unlink()
    with pytest.raises(
        SettingsError, match=r"result.json is missing or broken: run `build/venv/bin/python -m harness result .*`\.$"
    ):
        verification.verify(run)


@pytest.mark.slow
def test_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command's exit code says whether all agrees; result and report have what was found, above everything."""
    page.write(run)
    assert cli.main(["verify", str(run)]) == 0
    values = result.load(run)
    count = len(dict(verification.flattened(values["trees"]["stock"])))
    said = f"{run.name}: {count} figures agree with the samples, and all sources with each other.\n"
    assert capsys.readouterr().out == said
    assert (values["trustworthy"], values["why"], values["disagrees"]) == (True, [], [])
    assert "Do not believe" not in (run / "report.html").read_text()
    before = (run / "report.html").read_text()

    path = run / "stock" / "samples" / "kept.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert cli.main(["verify", str(run), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["agrees"], told["trustworthy"], told["run"]) == (False, False, folders.read(run).id)
    assert told["disagrees"][0].startswith("stock: kept.csv was changed after the run: ")
    values = result.load(run)
    assert (values["trustworthy"], values["disagrees"]) == (False, told["disagrees"])
    text = (run / "report.html").read_text()
    assert text.index("<main>") < text.index("Do not believe this report") < text.index("<h1>")
    assert cli.main(["report", str(run)]) == 0
    assert (run / "report.html").read_text() == text != before


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is not there is exit code 2."""
    assert cli.main(["verify", "nothing", "--folder", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"There is no run nothing: give a folder in {tmp_path}, or latest.\n"


def test_one_way_through_a_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the samples to the report each file of them is parsed once, and the result is written once."""
    parsed, written = Counter[str](), Counter[str]()
    reader, write = csv.reader, Path.write_text

    def counted(file: TextIO, *dialect: str) -> Iterator[list[str]]:
        parsed[file.name] += 1
        return reader(file, *dialect)

    def noted(path: Path, text: str, **options: str) -> int:
        written[path.name] += 1
        return write(path, text, **options)

    monkeypatch.setattr(csv, "reader", counted)
    monkeypatch.setattr(Path, "write_text", noted)
    (run / "result.json").unlink()
    finished = campaign.evaluate(run, Progress(io.StringIO()))
    samples = run / "stock" / "samples"
    expected = {*samples.glob("*.csv"), *samples.glob("fleet/*.csv")}
    assert parsed == dict.fromkeys(map(str, expected), 1)
    assert written == {"result.json": 1, "report.html": 1}
    assert json.loads(json.dumps(finished.written)) == result.load(run)
    assert result.load(run)["trustworthy"] is True
