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
from pathlib import Path
from random import SystemRandom
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from evil_minions.fleet.client import FORMAT
from harness import __main__ as cli
from harness import samples
from harness.containers import backend, engine, image, inside, relay, roles, swarm
from harness.containers.backend import ContainerSettings, Fleets, Share
from harness.errors import DockerError, RunError
from harness.load import plan
from harness.processes.deadline import Deadline, until
from harness.processes.kernel import Place
from harness.processes.ports import Ports
from harness.samples import ProcessSample, SampleFile

if TYPE_CHECKING:
    from contextlib import ExitStack


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
        (["--base", "x"], "--base needs --docker or --swarm beside it."),
        (["--fleets", "2"], "--fleets needs --docker or --swarm beside it."),
        (["--docker", "--fleets", "0"], "--fleets has to be at least 1."),
    ],
)
def test_options_that_need_others(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Half an order is refused before anything starts."""
    assert cli.main(["load", *words]) == 2
    assert capsys.readouterr().err.startswith(problem)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ContainerSettings("x"), "containers on x, 1 with minions"),
        (ContainerSettings("x", 2), "containers on x, 2 with minions"),
        (ContainerSettings("x", 2, swarm=True), "containers on x, 2 with minions on a swarm"),
        (ContainerSettings("x", swarm=True), "containers on x, 1 with minions on each node of a swarm"),
    ],
)
def test_what_the_bed_is_made_of(settings: ContainerSettings, expected: str) -> None:
    """Runs on different beds are not compared."""
    assert settings.description == expected


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
    facts = {"format": FORMAT, "minions": minions, **states, "base_rss_kb": 5, "processes": [worker]}
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
    own.write_text("x = 1")
    found, files = backend.options(["--slowdown=2", f"--behaviour={own}=10%", f"--population={own}"])
    assert found == ["--slowdown=2", "--behaviour=/bed/files/0-own.toml=10%", "--population=/bed/files/1-own.toml"]
    assert files == {"0-own.toml": "x = 1", "1-own.toml": "x = 1"}


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


class Local:
    """A line to a container whose files are those of this machine."""

    def __init__(self, *names: str) -> None:
        """Say that there are these files, or the real ones."""
        self.names = list(names)

    def ask(self, do: str, values: dict[str, Any]) -> dict[str, Any]:
        """Answer as the program in a container does."""
        if do == "files" and self.names:
            return {"files": self.names}
        return {"files": inside._files, "read": inside._read}[do](values)


def test_files_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of a container arrives as it is there, large files in parts."""
    monkeypatch.setattr(inside, "CHUNK", 3)
    contents = {"zero": b"1", "fleet/jobs.0.csv": b"0123456789\xff", "empty": b""}
    for name, content in contents.items():
        (tmp_path / "samples" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "samples" / name).write_bytes(content)
    found = engine.fetch_folder(cast("Any", Local()), str(tmp_path / "samples"), tmp_path / "here")
    assert {name: (found / name).read_bytes() for name in contents} == contents


@pytest.mark.parametrize("name", ["a/../../escaped", "/escaped"])
def test_harmful_files_are_refused(tmp_path: Path, name: str) -> None:
    """What would land elsewhere is named."""
    with pytest.raises(RunError, match=f"^A container sent '{name}'"):
        engine.fetch_folder(cast("Any", Local(name)), str(tmp_path), tmp_path / "here")
    assert not (tmp_path / "here").exists()


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
    reading, writing = os.pipe()
    answers: dict[int, Any] = {}
    before = time.time()
    with open(reading, "rb") as requests, open(writing, "wb") as harness:  # noqa: PTH123 - descriptors

        def send(number: int, answer: dict[str, Any]) -> None:
            answers[number] = answer
            if number == 1:
                harness.writelines(json.dumps(line).encode() + b"\n" for line in lines[1:])
                harness.flush()
            if len(answers) == len(lines):
                harness.close()

        harness.write(json.dumps(lines[0]).encode() + b"\n")
        harness.flush()
        assert inside.serve(requests, send) == 0
    assert ended == ["left"]
    assert before <= answers.pop(4)["time"] <= time.time()
    assert answers == {1: {"is": "x"}, 2: {"twice": 8}, 3: {"error": "no"}}


def _fail(_: dict[str, Any]) -> dict[str, Any]:
    raise OSError("no")


def test_a_role_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked hears why, and can fetch the logs."""

    def role(request: dict[str, Any], stack: ExitStack) -> tuple[dict[str, Any], dict[str, roles.Action]]:
        raise ValueError(f"{request['role']} and {stack is not None}")

    monkeypatch.setitem(roles.ROLES, "test", role)
    folder = json.dumps(str(tmp_path))
    (tmp_path / "log").touch()
    lines = f'{{"number": 1, "do": "be", "role": "test"}}\n{{"number": 2, "do": "files", "path": {folder}}}\n'
    requests, output = io.BytesIO(lines.encode()), io.BytesIO()
    assert inside.serve(requests, inside.sender(output)) == 1
    until(lambda: output.getvalue().count(b"\n") == 2, Deadline(20), lambda: f"{output.getvalue()!r}")
    # each is answered by a thread of its own
    answers = sorted(map(json.loads, output.getvalue().splitlines()), key=lambda answer: answer["number"])
    assert answers == [{"number": 1, "error": "test and True"}, {"number": 2, "files": ["log"]}]


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


class Thing:
    """A service, container, network or image of an engine."""

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        """Carry labels."""
        self.id, self.labels, self.attrs, self.gone = name, labels, {"Spec": {"Labels": labels}}, False

    def remove(self, **_: object) -> None:
        """Go."""
        self.gone = True


class Things(list[Thing]):
    """Everything of one kind on an engine."""

    def list(self, **_: object) -> list[Thing]:
        """Return what is there."""
        return [thing for thing in self if not thing.gone]


def test_a_sweep_spares_another_machine_of_the_same_name() -> None:
    """What a dead run of this machine left goes; all of another machine's run stays, though the hosts' names agree."""
    dead = {**engine.labels("dead"), engine.OWNER: f"{HERE}/{os.getpid()}/1.00"}
    theirs = {**engine.labels("theirs"), engine.OWNER: f"{replace(HERE, boot='theirs')}/1/1.00"}
    others = {"com.example": "x"}
    every = [("dead", dead), ("theirs", theirs), ("others", others)]
    tasks = [{"Spec": {"ContainerSpec": {"Labels": theirs}}}, {"Spec": {"NetworkAttachmentSpec": {}}}]
    client = SimpleNamespace(
        info=lambda: {"Swarm": {"ControlAvailable": True}},
        api=SimpleNamespace(tasks=lambda: tasks),
        services=Things(Thing(name, marks) for name, marks in every),
        containers=Things(Thing(name, marks) for name, marks in [*every, ("mine", engine.labels("mine"))]),
        networks=Things(Thing(name, marks) for name, marks in every),
        images=Things(Thing(name, marks) for name, marks in every),
    )
    assert engine.remove(cast("Any", client), engine.abandoned) == []
    assert [thing.id for thing in client.services.list()] == ["theirs", "others"]
    assert [thing.id for thing in client.containers.list()] == ["theirs", "others", "mine"]
    assert [thing.id for thing in client.networks.list()] == ["theirs", "others"]
    assert [thing.id for thing in client.images.list()] == ["theirs", "others"]


def _swarm(manager: bool, *states: tuple[str, str]) -> Any:  # noqa: FBT001 - a fact
    nodes = [SimpleNamespace(attrs={"Status": {"State": s}, "Spec": {"Availability": a}}) for s, a in states]
    info = {"Swarm": {"ControlAvailable": manager}}
    return SimpleNamespace(info=lambda: info, nodes=SimpleNamespace(list=lambda: nodes))


def test_nodes_that_take_tasks() -> None:
    """A node that is down or drained gets no minions; an engine that manages no swarm is refused."""
    states = [("ready", "active"), ("down", "active"), ("ready", "drain"), ("ready", "active")]
    assert swarm.nodes(_swarm(True, *states)) == 2
    with pytest.raises(DockerError, match=r"^The engine manages no swarm: type `docker swarm init`"):
        swarm.nodes(_swarm(False))


class Service:
    """A service whose tasks are in given states, and which keeps what it was made of."""

    def __init__(self, *statuses: dict[str, str]) -> None:
        """Take the states of the tasks."""
        self.statuses = statuses
        self.made: dict[str, Any] = {}

    def create(self, image: str, **options: Any) -> Service:
        """Be made."""
        self.made = {"image": image, **options}
        return self

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks."""
        return [{"Status": status} for status in self.statuses]


def _start(service: Service) -> None:
    images = SimpleNamespace(get=lambda name: SimpleNamespace(id=f"sha256:{name}"))
    swarm.start_tasks(cast("Any", SimpleNamespace(services=service, images=images)), "env", "net", "1-stock", 2)


def test_tasks_of_a_swarm() -> None:
    """The fleet is a replicated service without a virtual address, whose tasks end for good when they end."""
    service = Service({"State": "running"}, {"State": "running"})
    _start(service)
    made = service.made
    assert made["image"] == "sha256:env"
    assert made["mode"] == {"replicated": {"Replicas": 2}}
    assert made["endpoint_spec"] == {"Mode": "dnsrr"}
    assert made["restart_policy"]["Condition"] == "none"
    assert (made["networks"], made["env"]) == (["net"], ["SALTBED_RELAY=relay-{{.Task.Slot}}"])
    assert made["labels"][engine.RUN] == made["container_labels"][engine.RUN] == "1-stock"


def test_a_node_without_the_image() -> None:
    """The error says what the node lacks, and the command that brings it there."""
    service = Service({"State": "running"}, {"State": "rejected", "Err": "No such image: sha256:env"})
    with pytest.raises(DockerError, match=r"\(No such image: sha256:env\).* `docker save env \| ssh NODE docker load`"):
        _start(service)


def test_both_ends_of_a_line(tmp_path: Path) -> None:
    """A task gets the code, then has the relay's input, output and errors for its own, and ends with it."""
    program = "import sys; print(sys.stdin.readline() * 2, end='', flush=True); sys.stderr.write('x'); sys.stdin.read()"
    (tmp_path / "here" / "harness" / "containers").mkdir(parents=True)
    (tmp_path / "here" / "harness" / "containers" / "inside.py").write_text(program)
    (tmp_path / "there").mkdir()
    source = Path(relay.__file__).read_text()

    def start(place: str, **variables: str) -> subprocess.Popen[bytes]:
        text = source.replace('"/opt/saltbed"', repr(str(tmp_path / place)))
        text = text.replace('"harness", "evil_minions", "tree"', '"harness",').replace("4500", str(port))
        words, environment, pipe = [sys.executable, "-c", text], {**os.environ, **variables}, subprocess.PIPE
        return subprocess.Popen(words, env=environment, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe)

    with Ports(SystemRandom()) as ports:
        port = ports.take("relay")
        with start("here") as near, start("there", **{relay.VARIABLE: "127.0.0.1"}) as far:
            try:
                assert near.stdin and near.stdout and near.stderr  # noqa: PT018 - for mypy
                near.stdin.write(b"twice\n")
                near.stdin.flush()
                assert [near.stdout.readline() for _ in range(2)] == [b"twice\n"] * 2
                near.stdin.close()
                assert (near.wait(60), far.wait(60), near.stderr.read()) == (0, 0, b"x")
            finally:
                near.kill()
                far.kill()
