"""The control socket, the command line, and what a supervisor does without a master."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

import pytest

from evil_minions import Control, connect, socket_path
from evil_minions import __main__ as command
from evil_minions.errors import ControlError, UsageError
from evil_minions.fleet.client import ProcessStatus, Status
from evil_minions.fleet.commands import line
from evil_minions.fleet.orders import Selection
from evil_minions.fleet.ramp import parts_of
from evil_minions.fleet.supervisor import Supervisor
from evil_minions.samples import Counters, total
from tests.unit.evil_minions import fleets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from evil_minions.fleet.settings import FleetSettings

SECONDS = 300.0
COUNTS = [field.name for field in fields(Status) if field.type == "int"]


def worker(minions: int = 1, **counts: int) -> Status:
    """Return the status of a worker."""
    process = ProcessStatus(1, minions, 300, 100, 0.5)
    return Status(**{**dict.fromkeys(COUNTS, 1), **counts}, processes=(process,), counters=Counters())


def settings(tmp_path: Path, **values: Any) -> FleetSettings:
    """Return settings that can be used."""
    return fleets.settings(tmp_path, **{"minions": 10, **values})


def test_status_of_all_workers() -> None:
    """A fleet's status adds its workers up."""
    status = Status.of([worker(ready=3, minions=5), worker(ready=4, minions=5)])
    assert (status.minions, status.ready, status.base_rss_kb, len(status.processes)) == (10, 7, 100, 2)
    assert status.kb_per_minion == 40.0
    assert Status.from_dict(json.loads(json.dumps(status.to_dict()))) == status


def test_publications_are_not_added_up() -> None:
    """Every worker sees every publication, so the fleet has seen the most that any has seen."""
    assert total([Counters(returns=2, publications=3), Counters(returns=5, publications=2)]) == Counters(
        returns=7, publications=3
    )


@pytest.mark.parametrize("data", [{}, {"format": 1}, {"format": 2}, {"format": 2, "minions": "x"}])
def test_status_of_another_format(data: dict[str, Any]) -> None:
    """A status that isn't one is the one error."""
    with pytest.raises(ControlError):
        Status.from_dict(data)


def test_shares_of_workers(tmp_path: Path) -> None:
    """Workers get equal shares of minions and of the rate, without gaps."""
    shares = list(settings(tmp_path, minions=7001, first=5, per_process=2500, auth_rate=300.0).workers())
    assert [(share.first, share.minions) for share in shares] == [(5, 2334), (2339, 2334), (4673, 2333)]
    assert {share.auth_rate for share in shares} == {100.0}
    assert [name for share in shares for name in share.ids()] == settings(tmp_path, minions=7001, first=5).ids()


@pytest.mark.parametrize(
    "values",
    [
        {"minions": 0},
        {"per_process": 0},
        {"first": -1},
        {"request_port": 70_000},
        {"auth_rate": 0.0},
        {"id_format": "minion"},
        {"id_format": "minion-{name}"},
        {"id_format": "minion-{"},
    ],
)
def test_settings_that_can_not_be(tmp_path: Path, values: dict[str, Any]) -> None:
    """Settings that make no sense are usage errors."""
    with pytest.raises(UsageError):
        settings(tmp_path, **values).check()


def test_long_folder(tmp_path: Path) -> None:
    """A folder too long for a socket is a usage error that says so."""
    with pytest.raises(UsageError, match="shorter --folder"):
        socket_path(tmp_path / ("x" * 100))


def test_no_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asking where no fleet runs ends with 1 and one sentence."""
    assert command.main(["status", "--folder", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("evil_minions: No fleet answers on ")


@pytest.mark.parametrize("name", [[], ["run"], ["status"], ["stop"]])
def test_help_has_an_example(name: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command's help shows how it is used."""
    with pytest.raises(SystemExit) as caught:
        command.main([*name, "--help"])
    assert caught.value.code == 0
    assert f"python -m evil_minions {name[0] if name else 'run'}" in capsys.readouterr().out


def test_line_of_a_status() -> None:
    """A person reads the state in one line."""
    status = Status.of([worker(minions=10, connected=8, ready=7, pending=2, rejected=0, denied=0, partitioned=0)])
    assert line(status) == (
        "10 minions: 8 connected, 7 ready, 2 pending, 1 dead · 0 jobs, 0 returns, 0 acknowledged · 20.0 KB each"
    )


class Fleet:
    """A fleet whose master's port takes connections and never answers."""

    def __init__(self, folder: Path, *options: str) -> None:
        """Begin with nothing noted."""
        self.folder = folder
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        arguments = ["--master", "127.0.0.1", "--request-port", str(self.listener.getsockname()[1])]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "evil_minions",
                "run",
                *arguments,
                "--minions",
                "6",
                "--per-process",
                "3",
                "--folder",
                str(folder),
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def connect(self) -> Control:
        """Return a client once the fleet's workers answer."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                client = connect(self.folder)
                client.status()
            except ControlError:
                assert time.monotonic() < deadline
                assert self.process.poll() is None, self.process.communicate()[0]
                time.sleep(0.05)
            else:
                return client

    def end(self) -> tuple[int, str]:
        """Wait for the end; return exit code and output."""
        output, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, output

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing behind."""
        with self.listener, self.process:
            if self.process.poll() is None:
                self.process.kill()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Run a fleet without a master."""
    with Fleet(tmp_path) as running:
        yield running


@pytest.mark.slow
def test_control_socket(fleet: Fleet) -> None:
    """The socket is the owner's only, and answers status, match, flush and stop; then the fleet ends with 0."""
    with fleet.connect() as client:
        assert stat.S_IMODE((fleet.folder / "control.sock").stat().st_mode) == 0o600
        status = client.status()
        assert (status.minions, status.ready, len(status.processes)) == (6, 0, 2)
        assert client.match("minion-0000[24]") == ["minion-00002", "minion-00004"]
        assert client.match(["minion-00005"], "list") == ["minion-00005"]
        client.flush()
        for wrong in ({"do": "dance"}, {"do": "match"}):
            with pytest.raises(ControlError):
                client.ask(**wrong)
        client.stop()
    assert fleet.end()[0] == 0
    assert not (fleet.folder / "control.sock").exists()


@pytest.mark.slow
def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    """A folder that a fleet makes is closed to others, and no file in it is readable to them."""
    with Fleet(tmp_path / "made") as fleet, fleet.connect() as client:
        client.flush()
        assert [path for path in (fleet.folder, *fleet.folder.rglob("*")) if path.stat().st_mode & 0o077] == []


def test_folder_of_everybody(tmp_path: Path) -> None:
    """A folder into which others may write is refused: they could put a socket of theirs there."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with Fleet(tmp_path / "open") as fleet:
        code, output = fleet.end()
    sentence = f"evil_minions: Other users may write into {tmp_path / 'open'}: give a --folder of your own.\n"
    assert (code, output) == (2, sentence)


@pytest.mark.needs_root
def test_folder_behind_a_link_of_another_user(tmp_path: Path) -> None:
    """A link of another user is refused, wherever it leads: it could lead elsewhere a moment later."""
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "own")
    os.lchown(tmp_path / "link", 54_321, 54_321)
    with Fleet(tmp_path / "link") as fleet:
        code, output = fleet.end()
    sentence = f"evil_minions: Other users may write into {tmp_path / 'link'}: give a --folder of your own.\n"
    assert (code, output) == (2, sentence)
    assert not list((tmp_path / "own").iterdir())


@pytest.mark.slow
def test_orders_over_several_workers(fleet: Fleet) -> None:
    """Shares, targets and sizes are divided over the workers, and each order answers how many it changed."""
    with fleet.connect() as client:
        assert client.order("kill", Selection(0.5)) == 3
        assert (client.status().dead, client.status().expected) == (3, 3)
        assert client.order("revive") == 3
        assert client.order("scale", minions=8) == 2
        assert [process.minions for process in client.status().processes] == [3, 3, 2]
        assert client.order("scale", minions=2) == 6
        assert client.match("*") == ["minion-00000", "minion-00001"]
        assert client.order("partition", Selection(tgt=["minion-00001"], tgt_type="list")) == 1
        assert client.order("heal") == client.order("behaviour", Selection(tgt="minion-00001"), behaviour="silent") == 1
        wrong: list[dict[str, object]] = [
            {"do": "kill", "tgt": "*", "tgt_type": "nose"},
            {"do": "scale", "minions": -1},
            {"do": "behaviour"},
            {"do": "behaviour", "behaviour": "no-such"},
        ]
        for request in wrong:
            with pytest.raises(ControlError):
                client.ask(**request)
        assert client.status().minions == 2


@pytest.mark.slow
def test_lines_that_are_no_requests(fleet: Fleet) -> None:
    """A line that isn't a JSON object is answered with an error, and the socket goes on."""
    with fleet.connect() as client:
        for line in (b"nonsense\n", b"[1]\n"):
            client._line._socket.sendall(line)
            assert "error" in client._line.receive(SECONDS)
        assert client.status().minions == 6


@pytest.mark.slow
def test_sigterm_ends_with_0(fleet: Fleet) -> None:
    """SIGTERM ends the fleet and its workers, with exit code 0."""
    with fleet.connect() as client:
        workers = [process.pid for process in client.status().processes]
    fleet.process.send_signal(signal.SIGTERM)
    assert fleet.end()[0] == 0
    assert gone(workers)


@pytest.mark.slow
def test_kill_leaves_no_worker(fleet: Fleet) -> None:
    """A supervisor that is killed takes its workers with it, and its folder can be used again."""
    with fleet.connect() as client:
        workers = [process.pid for process in client.status().processes]
    fleet.process.kill()
    fleet.end()
    assert gone(workers)
    with Fleet(fleet.folder) as again, again.connect() as client:
        assert client.status().minions == 6


@pytest.mark.slow
def test_one_fleet_for_each_folder(fleet: Fleet) -> None:
    """A second fleet in the same folder is refused with 2, and the first one goes on."""
    with fleet.connect() as client, Fleet(fleet.folder) as second:
        code, output = second.end()
        assert (code, "Another fleet runs in" in output) == (2, True)
        assert client.status().minions == 6


@pytest.mark.slow
def test_dead_worker_ends_the_fleet(fleet: Fleet) -> None:
    """A fleet that has lost a worker ends with 1 and says so."""
    with fleet.connect() as client:
        os.kill(client.status().processes[0].pid, signal.SIGKILL)
    code, output = fleet.end()
    assert code == 1
    assert re.search(r"The worker with the minions 0 to \d+ \(process \d+\) ended with exit code", output)


@pytest.mark.slow
def test_not_ready_in_time(tmp_path: Path) -> None:
    """A fleet that isn't ready in time ends with 3 and says so."""
    with Fleet(tmp_path, "--until-ready", "0.5", "--json") as fleet:
        code, output = fleet.end()
    expected = "Only 0 of 6 minions got ready in 0.5 s: 127.0.0.1:"
    assert (code, expected in output, "answers, but signs no minion in: see the master's log" in output) == (
        3,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"pending": 5}, "5 keys wait for acceptance: salt-key -A"),
        ({"rejected": 3, "denied": 2}, "the master rejected or denied 5 keys: salt-key -L shows them"),
        ({"authenticated": 4}, "4 are signed in: give them more time, or see the master's log"),
        ({}, "nothing answers on 127.0.0.1:{}"),
    ],
)
def test_why_a_fleet_is_not_ready(tmp_path: Path, counts: dict[str, int], expected: str) -> None:
    """A fleet that isn't ready says what keeps it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    status = Status.of([worker(**dict.fromkeys(COUNTS, 0) | {"minions": 5, "expected": 5} | counts)])
    fleet = Supervisor(settings(tmp_path, request_port=port))
    assert asyncio.run(fleet._why(status)) == expected.format(port)


def test_keys_that_are_to_wait_are_no_reason(tmp_path: Path) -> None:
    """Minions whose keys are meant to stay unaccepted keep nobody waiting."""
    counts = {"minions": 5, "expected": 3, "pending": 2, "authenticated": 1}
    status = Status.of([worker(**dict.fromkeys(COUNTS, 0) | counts)])
    fleet = Supervisor(settings(tmp_path, keys=parts_of("pending=40%")))
    assert asyncio.run(fleet._why(status)).startswith("1 are signed in")


def test_address_that_can_not_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A master without an address is a usage error."""
    options = ["run", "--master", "nosuch.invalid", "--minions", "1", "--folder", str(tmp_path)]
    assert command.main(options) == 2
    assert "has no address" in capsys.readouterr().err


def gone(pids: list[int]) -> bool:
    """Return whether processes have ended, after waiting for them."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):  # noqa: PTH110 - as short as can be
            return True
        time.sleep(0.05)
    return False
