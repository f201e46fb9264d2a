"""The bed as containers, as far as it goes without an engine."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness import __main__ as cli
from harness import samples
from harness.containers import engine, files, fleet, inside, roles
from harness.containers.fleet import Fleets, Share
from harness.errors import RunError
from harness.samples import ProcessSample, SampleFile

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


def test_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A run in containers without an engine says in a sentence what is missing, and ends with 3."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    words = ["load", "--docker", "--scenario", "quick", "--tree", "stock", "--folder", str(tmp_path / "runs")]
    assert cli.main(words) == 3
    expected = (
        f"No Docker engine answers at unix://{tmp_path}/no.sock: install one (`apt-get install docker.io`), start it, "
        "or name another in DOCKER_HOST."
    )
    assert capsys.readouterr().err.splitlines()[-1] == expected


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--base", "x"], "--base needs --docker beside it."),
        (["--docker", "--fleets", "0"], "--fleets has to be at least 1."),
        (["--docker", "--fleet-engine", "tcp://x"], "--fleet-engine and --master-address belong together: "),
    ],
)
def test_options_that_need_others(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Half an order is refused before anything starts."""
    assert cli.main(["load", *words]) == 2
    assert capsys.readouterr().err.startswith(problem)


@pytest.mark.parametrize(
    ("minions", "containers", "expected"),
    [(10, 1, [(0, 10)]), (10, 3, [(0, 4), (4, 3), (7, 3)]), (2, 2, [(0, 1), (1, 1)])],
)
def test_minions_are_split(minions: int, containers: int, expected: list[tuple[int, int]]) -> None:
    """Every minion is in one container, in order of numbers."""
    assert fleet.split(minions, containers) == expected


@pytest.mark.parametrize(
    ("minions", "expected"), [(10, [4, 3, 3]), (15, [4, 3, 8]), (8, [4, 3, 1]), (5, [4, 1, 1]), (1, [1, 1, 1])]
)
def test_fleets_scale_at_their_end(minions: int, expected: list[int]) -> None:
    """Ids are numbered through, so the last container grows and the last ones shrink."""
    assert fleet.sizes([(0, 4), (4, 3), (7, 3)], minions) == expected


def _status(minions: int, publications: int, returns: int) -> dict[str, Any]:
    counters = {"publications": publications, "returns": returns}
    worker = {"pid": 7, "minions": minions, "rss_kb": 10, "base_rss_kb": 5, "cpu_s": 0.5}
    states = dict.fromkeys(("connected", "authenticated", "ready", "expected"), minions)
    states |= dict.fromkeys(("pending", "rejected", "denied", "dead", "partitioned"), 0)
    facts = {"format": 1, "minions": minions, **states, "base_rss_kb": 5, "processes": [worker]}
    return {**facts, "counters": counters}


class Line:
    """A line to a container that answers at once."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        """Answer each `do` of a request."""
        self.answers = answers
        self.asked: list[dict[str, Any]] = []

    def ask(self, do: str, values: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Answer as the program in a fleet's container does."""
        assert (do, seconds) == ("fleet", fleet.REQUEST_S)
        self.asked.append(values["request"])
        return {"answer": self.answers[values["request"]["do"]]}


def test_fleets_answer_as_one() -> None:
    """States and counters are added up, but a publication is one whichever containers saw it."""
    matches = {"ids": ["a", "b"]}
    lines = [Line(status=_status(4, 9, 30), match=matches, scale={"minions": 0}, kill={"minions": 2}) for _ in range(2)]
    all_of_them = Fleets(Share(line, number * 4, 4) for number, line in enumerate(lines))  # type: ignore[arg-type]
    status = all_of_them.status()
    assert (status.minions, status.ready, len(status.processes)) == (8, 8, 2)
    assert (status.counters.publications, status.counters.returns) == (9, 60)
    assert all_of_them.match("*", "glob") == 4
    assert all_of_them.ask({"do": "kill", "share": 0.5}) == {"minions": 4}
    all_of_them.ask({"do": "scale", "minions": 10})
    assert [line.asked[-1]["minions"] for line in lines] == [4, 6]


def test_files_of_the_fleet_go_along(tmp_path: Path) -> None:
    """Options that name files name them as they are within the container."""
    own = tmp_path / "own.toml"
    own.touch()
    found, entries = fleet.options(["--slowdown=2", f"--behaviour={own}=10%", f"--population={own}"])
    assert found == ["--slowdown=2", "--behaviour=/bed/files/0-own.toml=10%", "--population=/bed/files/1-own.toml"]
    assert entries == {"files/0-own.toml": own, "files/1-own.toml": own}


def test_archives_leave_out_what_is_compiled(tmp_path: Path) -> None:
    """An archive holds files, contents and folders, without tests and compiled modules."""
    for name in ("code/a.py", "code/__pycache__/a.pyc", "code/tests/t.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    with (
        files.pack({"opt/code": tmp_path / "code", "Dockerfile": b"FROM x"}) as packed,
        tarfile.open(fileobj=packed) as tar,
    ):
        assert sorted(tar.getnames()) == ["Dockerfile", "opt/code", "opt/code/a.py"]


def test_files_are_fetched(tmp_path: Path) -> None:
    """A folder of a container arrives as it is there."""
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "zero").write_text("1")
    with files.pack({"samples": tmp_path / "samples"}) as packed:
        container = SimpleNamespace(get_archive=lambda path: ([packed.read()], {"name": path}))
        found = files.fetch(container, "/bed/samples", tmp_path / "here")
    assert (found / "zero").read_text() == "1"


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("a/../../escaped", tarfile.REGTYPE), ("/escaped", tarfile.REGTYPE), ("x", tarfile.SYMTYPE)],
)
def test_harmful_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: bytes, *, filtered: bool
) -> None:
    """What would land elsewhere, or is a link, is named; also on a Python without filters."""
    if not filtered:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(member)
    container = SimpleNamespace(get_archive=lambda path: ([packed.getvalue()], {"name": path}))
    with pytest.raises(RunError, match=f"^A container sent '{name}'"):
        files.fetch(container, "/bed/samples", tmp_path / "here")
    assert not (tmp_path / "escaped").exists()


def test_samples_of_containers_become_those_of_one_machine(tmp_path: Path) -> None:
    """Processes of two containers stay apart whatever their numbers; those of one second have one time."""
    for name, shift in (("one", 0.1), ("two", 0.4)):
        (tmp_path / name / "fleet").mkdir(parents=True)
        (tmp_path / name / "fleet" / "jobs.0.csv").write_text(name)
        rows = SampleFile(tmp_path / name / "processes.csv", ProcessSample)
        for second in (10, 11):
            rows.write(ProcessSample(second + shift, "fleet", 7, 1.0, 100))
        rows.close()
    folders = [tmp_path / "one", tmp_path / "two"]
    files.merge_processes(folders, tmp_path / "processes.csv")
    found = [(row.time, row.pid) for row in samples.read_processes(tmp_path)]
    assert found == [(10.0, 7), (10.0, 10_000_007), (11.0, 7), (11.0, 10_000_007)]
    files.merge_fleet((folder / "fleet" for folder in folders), tmp_path / "fleet")
    assert (tmp_path / "fleet" / "jobs.1000.csv").read_text() == "two"


def test_the_program_in_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request says what to be, each later one gets an answer of its own, and the input's end is the end."""
    ended: list[str] = []

    def role(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, roles.Action]]:
        stack.callback(ended.append, "left")
        return {"is": request["name"]}, {"double": lambda asked: {"twice": asked["value"] * 2}, "fail": _fail}

    monkeypatch.setitem(roles.ROLES, "test", role)
    lines = [
        {"number": 1, "do": "be", "role": "test", "name": "x"},
        {"number": 2, "do": "double", "value": 4},
        {"number": 3, "do": "fail"},
    ]
    output = io.BytesIO()
    requests = io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert inside.serve(requests, inside.Answers(output)) == 0
    assert ended == ["left"]
    answers = {answer.pop("number"): answer for answer in map(json.loads, output.getvalue().splitlines())}
    assert answers == {1: {"is": "x"}, 2: {"twice": 8}, 3: {"error": "no"}}


def _fail(_: dict[str, Any]) -> dict[str, Any]:
    raise OSError("no")


def test_a_role_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked hears why, and the container stays until its logs have been fetched."""

    def role(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, roles.Action]]:
        raise ValueError(f"{request['role']} and {stack is not None}")

    monkeypatch.setitem(roles.ROLES, "test", role)
    requests, output = io.BytesIO(b'{"number": 1, "do": "be", "role": "test"}\n{"more": 1}\n'), io.BytesIO()
    assert inside.serve(requests, inside.Answers(output)) == 1
    assert json.loads(output.getvalue()) == {"number": 1, "error": "test and True"}
    assert requests.read() == b""


def test_what_nobody_owns_any_more() -> None:
    """What a run made is abandoned when its process of this machine has ended, not while it runs or elsewhere."""
    mine = engine.labels("1")
    assert not engine.abandoned(mine)
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    assert engine.abandoned({**mine, engine.OWNER: f"boot/{ended.stdout.decode().strip()}/1.0"})
    assert engine.abandoned({**mine, engine.OWNER: f"boot/{os.getpid()}/1.0"})
    assert not engine.abandoned({**mine, engine.OWNER: "boot/1/1.0", engine.HOST: "elsewhere"})
    assert not engine.abandoned({})
