"""Minions whose machine vanishes without a word: both trees drop their connections in the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.bed import Bed, BedSettings, fleet
from harness.paths import ROOT
from harness.processes.deadline import Deadline, until
from tests.live.helpers.cut_network import cut_network

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.helpers.cut_network import CutNetwork

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(300)]

MINIONS = 5
SIGN_IN_S = 60
# a heartbeat every 10 s and 30 s for its answer, and some more where the machine is busy; the kernel's own
# keepalive of the request socket alone would take 105 s, and what was sent to the dead 15 minutes
DROP_S = 60


def connections(bed: Bed, network: CutNetwork) -> dict[int, int]:
    """Return how many connections the master has to the minions, by its port."""
    found = {bed.master.request_port: 0, bed.master.publish_port: 0}
    for process in psutil.Process(bed.master_pid).children(recursive=True):
        for each in process.net_connections("tcp"):
            if each.raddr and each.raddr[0].removeprefix("::ffff:") == network.minions:
                found[each.laddr[1]] += 1
    return found


def start_minions(bed: Bed, network: CutNetwork) -> None:
    """Start simulated minions behind the router, and wait until they have signed in and subscribed."""
    folder = bed.temporary / "far"
    folder.mkdir()
    extra = fleet.shared_options("zeromq", {}, bed.master.word_file)
    spec = fleet.FleetSpec(MINIONS, id_format="far-{:02d}", master=network.master, extra=extra)
    argv = [sys.executable, "-m", "evil_minions", *spec.arguments(folder, bed.master.request_port)]
    bed.spawn("far", [*network.inside(), *argv], env={"PYTHONPATH": str(ROOT)})

    def answered() -> bool:
        done = bed.salt(["far-*", "test.ping", "--out=json", "--static", "--timeout=5"])
        return done.stdout.startswith("{") and len(json.loads(done.stdout)) == MINIONS

    until(answered, Deadline(SIGN_IN_S), lambda: f"The minions behind the router are not there: see {bed.logs}.")


def dropped(name: str, bed: Bed, network: CutNetwork, limit: Deadline) -> None:
    """Wait until a master has no connection to the minions any more."""
    until(
        lambda: not any(connections(bed, network).values()),
        limit,
        lambda: f"{name} still has connections to the vanished: {connections(bed, network)}.",
    )


@pytest.fixture
def network() -> Iterator[CutNetwork]:
    """Return a network that can be cut."""
    try:
        with cut_network() as made:
            yield made
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs network namespaces: {error}")


def test_minions_that_vanish_are_dropped(root: Path, stock: Path, tmp_path: Path, network: CutNetwork) -> None:
    """The publish socket has something to send to them, the request socket has not: neither keeps them."""
    with ExitStack() as stack:
        beds = {}
        for name, tree in (("stock", stock), ("patched", root / "salt")):
            options = {"interface": "0.0.0.0", "zmq_kernel_keepalive": True}  # noqa: S104 - minions are elsewhere
            settings = BedSettings(
                tree, tmp_path / name, master_options=options, pillar="none", postgres="none", api=None
            )
            beds[name] = stack.enter_context(Bed(settings))
            start_minions(beds[name], network)
        for name, bed in beds.items():
            assert connections(bed, network) == {
                bed.master.request_port: MINIONS,
                bed.master.publish_port: MINIONS,
            }, name
        network.cut()
        limit = Deadline(DROP_S)
        for bed in beds.values():
            bed.salt(["--async", "*", "test.ping"])
        for name, bed in beds.items():
            dropped(name, bed, network, limit)
