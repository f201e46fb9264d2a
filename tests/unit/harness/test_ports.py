"""Ports: free, reserved, and apart from those of other beds."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from harness.errors import PortError
from harness.paths import ROOT
from harness.processes.ports import FIRST, HOST, LAST, Ports, candidates, is_free, listens

if TYPE_CHECKING:
    from pathlib import Path


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
        with pytest.raises(PortError) as caught:
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
