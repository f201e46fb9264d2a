"""The bed as containers, as far as it goes without an engine."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness import __main__ as cli
from harness.containers import backend, engine, image, inside, roles
from harness.containers.backend import Fleets, Share
from harness.errors import RunError
from harness.load import plan
from harness.processes.kernel import Place
from harness.samples import files as samples
from harness.samples.files import SampleFile
from harness.samples.rows import ProcessSample

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


@pytest.mark.slow
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
    assert backend.split(minions, containers) == expected


@pytest.mark.parametrize(
    ("minions", "expected"), [(10, [4, 3, 3]), (15, [4, 3, 8]), (8, [4, 3, 1]), (5, [4, 1, 1]), (1, [1, 1, 1])]
)
def test_fleets_scale_at_their_end(minions: int, expected: list[int]) -> None:
    """Ids are numbered through, so the last container grows and the last ones shrink."""
    assert backend.sizes([(0, 4), (4, 3), (7, 3)], minions) == expected


def _status(minions: int, publications: int, returns: int) -> dict[str, Any]:
    counters = {"publications": publications, "returns": returns}
    worker = {"pid": 7, "minions": minions, "rss_kb": 10, "base_rss_kb": 5, "cpu_s": 0.5}
    states = dict.fromkeys(("connected", "authenticated", "ready", "expected"), minions)
    states |= dict.fromkeys(("pending", "rejected", "denied", "dead", "partitioned", "executing"), 0)
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
        assert (do, seconds) == ("fleet", backend.REQUEST_S)
        self.asked.append(values["request"])
        return {"answer": self.answers[values["request"]["do"]]}


def test_fleets_answer_as_one() -> None:
    """States and counters are added up, but a publication is one whichever containers saw it."""
    matches = {"ids": ["a", "b"]}
    lines = [Line(status=_status(4, 9, 30), match=matches, scale={"minions": 0}, kill={"minions": 2}) for _ in range(2)]
    all_of_them = Fleets(Share(line, number * 4, 4) for number, line in enumerate(lines))  # type: ignore[arg-type]  # each has the field's type
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
    found, entries = backend.options(["--slowdown=2", f"--behaviour={own}=10%", f"--population={own}"])
    assert found == ["--slowdown=2", "--behaviour=/bed/files/0-own.toml=10%", "--population=/bed/files/1-own.toml"]
    assert entries == {"files/0-own.toml": own, "files/1-own.toml": own}


def test_archives_leave_out_what_is_compiled(tmp_path: Path) -> None:
    """An archive holds files, contents and folders, without tests and compiled modules."""
    for name in ("code/a.py", "code/__pycache__/a.pyc", "code/tests/t.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    with (
        engine.pack({"opt/code": tmp_path / "code", "Dockerfile": b"FROM x"}) as packed,
        tarfile.open(fileobj=packed) as tar,
    ):
        assert sorted(tar.getnames()) == ["Dockerfile", "opt/code", "opt/code/a.py"]


def test_files_are_fetched(tmp_path: Path) -> None:
    """A folder of a container arrives as it is there."""
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "zero").write_text("1")
    with engine.pack({"samples": tmp_path / "samples"}) as packed:
        container = SimpleNamespace(get_archive=lambda path: ([packed.read()], {"name": path}))
        found = engine.fetch(cast("Any", container), "/bed/samples", tmp_path / "here")
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
        engine.fetch(cast("Any", container), "/bed/samples", tmp_path / "here")
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
    engine.merge_processes([(folder, 0.0) for folder in folders], tmp_path / "processes.csv")
    found = [(row.time, row.pid) for row in samples.read(tmp_path, ProcessSample)]
    assert found == [(10.0, 7), (10.0, 10_000_007), (11.0, 7), (11.0, 10_000_007)]
    engine.merge_fleet([(folder / "fleet", 0.0) for folder in folders], tmp_path / "fleet")
    assert (tmp_path / "fleet" / "jobs.1000.csv").read_text() == "two"


def test_a_clock_that_is_off_is_corrected(tmp_path: Path) -> None:
    """Samples of a container whose clock is 200 s ahead are merged as if it were not; a torn last line stays."""
    fleet_folder = tmp_path / "one" / "fleet"
    fleet_folder.mkdir(parents=True)
    (fleet_folder / "jobs.0.csv").write_text("time,jid,fun,targeted\n1210.5,1,test.ping,4\n1211.5,2,te")
    (fleet_folder / "starts.0.csv").write_text("minion,auth_s,pillar_s,ready_s\nm1,1.0,2.0,3.0\n")
    rows = SampleFile(tmp_path / "one" / "processes.csv", ProcessSample)
    rows.write(ProcessSample(1210.2, "fleet", 7, 1.0, 100))
    rows.close()
    engine.merge_processes([(tmp_path / "one", 200.0)], tmp_path / "processes.csv")
    assert [row.time for row in samples.read(tmp_path, ProcessSample)] == [1010.0]
    engine.merge_fleet([(fleet_folder, 200.0)], tmp_path / "fleet")
    jobs = (tmp_path / "fleet" / "jobs.0.csv").read_text().splitlines()
    assert jobs[1:] == ["1010.500000,1,test.ping,4", "1211.5,2,te"]
    assert (tmp_path / "fleet" / "starts.0.csv").read_text() == (fleet_folder / "starts.0.csv").read_text()
    asked = tmp_path / "requests.csv"
    asked.write_text('number,scheduled,started,finished,error\n0,1200,1200.1,1201,"a, b"\n')
    engine.set_back(asked, tmp_path / "corrected.csv", 200.0)
    assert (tmp_path / "corrected.csv").read_text().splitlines()[1] == '0,1000.000000,1000.100000,1001.000000,"a, b"'
    # the moment that all requests are due from is one of the same clock
    plan.write_zero(tmp_path / "one", 1200.25)
    engine.set_back(tmp_path / "one" / "zero", tmp_path / "zero", 200.0)
    assert plan.read_zero(tmp_path) == 1000.25


LOCKED = """\
# for a newcomer
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:cc
pywin32==311 ; sys_platform == 'win32' \\
    --hash=sha256:dd
zipp==3.0 \\
    --hash=sha256:ee
"""


def test_requirements_of_another_python() -> None:
    """A base has what its own Python needs, whichever Python downloads it."""
    assert (
        image.locked(LOCKED, "3.11") == "numpy==2.4.6 --hash=sha256:aa --hash=sha256:bb\nzipp==3.0 --hash=sha256:ee\n"
    )
    assert image.locked(LOCKED, "3.12") == "numpy==2.5.5 --hash=sha256:cc\nzipp==3.0 --hash=sha256:ee\n"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_requirements_of_every_python(version: str) -> None:
    """The lock gives each package once to each Python, and every line has hashes."""
    lines = image.locked(image.LOCK.read_text(), version).splitlines()
    names = [line.partition("==")[0] for line in lines]
    assert len(names) == len(set(names)) > 50
    assert all("--hash=sha256:" in line for line in lines)


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
        {"number": 4, "do": "clock"},
    ]
    before = time.time()
    output = io.BytesIO()
    requests = io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert inside.serve(requests, inside.sender(output)) == 0
    assert ended == ["left"]
    answers = {answer.pop("number"): answer for answer in map(json.loads, output.getvalue().splitlines())}
    assert before <= answers.pop(4)["time"] <= time.time()
    assert answers == {1: {"is": "x"}, 2: {"twice": 8}, 3: {"error": "no"}}


def _fail(_: dict[str, Any]) -> dict[str, Any]:
    raise OSError("no")


def test_a_role_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked hears why, and the container stays until its logs have been fetched."""

    def role(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, roles.Action]]:
        raise ValueError(f"{request['role']} and {stack is not None}")

    monkeypatch.setitem(roles.ROLES, "test", role)
    requests, output = io.BytesIO(b'{"number": 1, "do": "be", "role": "test"}\n{"more": 1}\n'), io.BytesIO()
    assert inside.serve(requests, inside.sender(output)) == 1
    assert json.loads(output.getvalue()) == {"number": 1, "error": "test and True"}
    assert requests.read() == b""


def test_what_nobody_owns_any_more() -> None:
    """What a run made is abandoned when its process of this machine has ended, not while it runs or elsewhere."""
    mine = engine.labels("1")
    assert not engine.abandoned(mine)
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    assert engine.abandoned({**mine, engine.OWNER: f"{Place.here()}/{ended.stdout.decode().strip()}/1.0"})
    assert engine.abandoned({**mine, engine.OWNER: f"{Place.here()}/{os.getpid()}/1.0"})
    assert not engine.abandoned({})
    assert not engine.abandoned({engine.RUN: "1"})


HERE = Place.here()


@pytest.mark.parametrize(
    "place",
    [
        Place("another-machine", "another-boot", HERE.namespace),
        # a copy of this machine, or an earlier boot of it
        Place(HERE.machine, "another-boot", HERE.namespace),
        # a container on this machine, which sees other processes
        Place(HERE.machine, HERE.boot, "pid:[1]"),
        Place("", "another-boot", HERE.namespace),
    ],
    ids=["machine", "boot", "namespace", "nameless"],
)
def test_what_may_be_alive_elsewhere(place: Place) -> None:
    """Of another machine's process nobody here can tell, whatever that machine's host is called."""
    theirs = {**engine.labels("1"), engine.OWNER: f"{place}/1/1.00"}
    assert theirs[engine.HOST] == socket.gethostname()
    assert not engine.abandoned(theirs)
    day = float(theirs[engine.STARTED])
    assert not engine.forgotten(theirs, set(), day + 3600)
    assert not engine.forgotten(theirs, {"1"}, day + 10 * engine.FORGOTTEN_S)
    assert engine.forgotten(theirs, {"2"}, day + 2 * engine.FORGOTTEN_S)


class Thing:
    """A container, network or image of an engine."""

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        """Carry labels."""
        self.id, self.labels, self.attrs, self.gone = name, labels, {"Labels": labels}, False

    def remove(self, **_: object) -> None:
        """Go."""
        self.gone = True


class Things(list[Thing]):
    """Everything of one kind on an engine."""

    def list(self, **_: object) -> list[Thing]:
        """Return what is there."""
        return [thing for thing in self if not thing.gone]

    def remove(self, name: str, **_: object) -> None:  # type: ignore[override]  # takes what the SDK takes
        """Remove an image, as the engine's own command does."""
        next(thing for thing in self if thing.id == name).remove()


def test_a_sweep_spares_another_machine_of_the_same_name() -> None:
    """What a dead run of this machine left goes; all of another machine's run stays, though the hosts' names agree."""
    dead = {**engine.labels("dead"), engine.OWNER: f"{HERE}/{os.getpid()}/1.00"}
    theirs = {**engine.labels("theirs"), engine.OWNER: f"{replace(HERE, boot='theirs')}/1/1.00"}
    old = {**theirs, engine.RUN: "old", engine.STARTED: "1000"}
    others = {"com.example": "x"}
    every = [("dead", dead), ("theirs", theirs), ("others", others)]
    client = SimpleNamespace(
        containers=Things(Thing(name, marks) for name, marks in [*every, ("mine", engine.labels("mine"))]),
        networks=Things(Thing(name, marks) for name, marks in [*every, ("old", old)]),
        images=Things(Thing(name, marks) for name, marks in [*every, ("old", old)]),
    )
    assert engine.sweep(cast("Any", client)) == []
    assert [thing.id for thing in client.containers.list()] == ["theirs", "others", "mine"]
    assert [thing.id for thing in client.networks.list()] == ["theirs", "others"]
    assert [thing.id for thing in client.images.list()] == ["theirs", "others"]
