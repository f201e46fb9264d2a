"""Ports: free, reserved, and apart from those of other beds."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from harness.errors import SettingsError
from harness.paths import ROOT
from harness.processes import ports
from harness.processes.ports import FIRST, HOST, LAST, Ports, as_listed, candidates, is_free, is_ours, listens


def rng(seed: int) -> Random:
    """Return a random generator whose numbers come again."""
    return Random(seed)  # noqa: S311 - nothing secret


def test_port_is_free_and_below_outgoing_ones() -> None:
    """A port of the bed's choice is free and none that the kernel gives to connections."""
    with Ports(rng(1)) as ports:
        port = ports.take("test")
        assert is_free(port)
        assert FIRST <= port <= LAST


def test_two_beds_choose_apart() -> None:
    """Two beds with the same random generator get different ports."""
    with Ports(rng(1)) as ours, Ports(rng(1)) as theirs:
        assert ours.take("test") != theirs.take("test")


def test_other_process_chooses_apart() -> None:
    """A reservation holds against other processes."""
    with Ports(rng(1)) as ports:
        ours = ports.take("test")
        program = "import random, harness.processes.ports as p; print(p.Ports(random.Random(1)).take('test'))"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        theirs = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        assert int(theirs.stdout) != ours


def test_reservation_ends_with_the_context() -> None:
    """A port can be had again after its bed's end."""
    with Ports(rng(1)) as ports:
        port = ports.take("test")
    with Ports(rng(2)) as ports:
        assert ports.take("test", port) == port


def test_taken_port_is_not_chosen() -> None:
    """A port that a server has is passed over."""
    with Ports(rng(1)) as ports:
        first = ports.take("test")
    with socket.create_server((HOST, first)), Ports(rng(1)) as ports:
        assert ports.take("test") != first


def test_wanted_port_that_is_taken() -> None:
    """A port that the user wants but a server has is an error of one sentence."""
    with socket.create_server((HOST, 0)) as server, Ports(rng(1)) as ports:
        port = server.getsockname()[1]
        with pytest.raises(SettingsError) as caught:
            ports.take("request", port)
        assert str(caught.value) == (
            f"Port {port} on 127.0.0.1, asked for as the request port, is taken: stop the server that has it, "
            "or leave the port out and let the bed choose."
        )


def test_outgoing_range_is_left_out() -> None:
    """Ports that the kernel gives to connections are left out, unless that leaves none."""
    assert candidates((FIRST + 1, 65_535)) == [FIRST]
    assert candidates((1024, 65_535)) == range(FIRST, LAST + 1)


def test_listens(tmp_path: Path) -> None:
    """A server is found by port and by path, its absence too."""
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert listens(socket.AF_INET, (HOST, port))
    assert not listens(socket.AF_INET, (HOST, port))
    assert not listens(socket.AF_UNIX, str(tmp_path / "none"))


def test_server_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of this user is told from none, and from one that another user is to have."""
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert is_ours(port)
        taken = rf"^Port {port} on {HOST} was taken by a server of another user \(number "
        with pytest.raises(SettingsError, match=taken):
            is_ours(port, os.geteuid() + 1)
    assert not is_ours(port)
    monkeypatch.setattr(ports, "TABLES", (Path("/no/such/table"),))
    assert not is_ours(port)


@pytest.mark.parametrize(
    ("address", "state", "seen"),
    [
        (as_listed(HOST), "0A", True),
        ("0" * 8, "0A", True),
        ("0" * 32, "0A", True),
        (f"{'0' * 16}FFFF0000{as_listed(HOST)}", "0A", True),
        (as_listed(HOST), "01", False),
        ("0A0A0A0A", "0A", False),
    ],
)
def test_servers_that_take_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, state: str, *, seen: bool
) -> None:
    """Others at the loopback interface or at all addresses are noticed, not connections or other interfaces."""
    row = f"   0: {address}:4E20 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  4321        0 1 1"
    (tmp_path / "table").write_text(f"  sl  local_address\n{row}\n")
    monkeypatch.setattr(ports, "TABLES", (tmp_path / "table",))
    if seen:
        with pytest.raises(SettingsError, match=r"another user \(number 4321\)"):
            is_ours(20_000)
    assert not is_ours(20_001)
    assert seen or not is_ours(20_000)
