"""Whatever comes to a master, its processes stay, it answers, and nobody without a key gets or changes anything.

`SALTBED_FUZZ_SECONDS` says for how long, `SALTBED_FUZZ_SEED` with what. A packet of a failure comes again with its
seed, `SALTBED_FUZZ_FIRST` (its number) and `SALTBED_FUZZ_PACKETS=1`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.bed import Bed, BedSettings
from tests.live.helpers.fuzz.fuzzer import Fuzzer, Plan

if TYPE_CHECKING:
    from pathlib import Path

    from evil_minions import Transport
    from tests.live.helpers.fuzz.fuzzer import Findings

PACKETS = 300
LONG = Plan.of_environment()
MINIONS = 3
TRANSPORTS = ("zeromq", "tcp", "ws")

pytestmark = pytest.mark.live


def fuzz(tree: Path, folder: Path, transport: Transport, plan: Plan) -> Findings:
    """Fuzz a master of a tree, and return what was found; print what is known."""
    options = {"worker_threads": 3, "external_auth": {"sharedsecret": {"saltbed": [".*"]}}, "sharedsecret": "x" * 40}
    # what is on standard error is in no log
    options |= {"log_level": "quiet", "log_level_logfile": "warning"}
    settings = BedSettings(
        tree,
        folder,
        options,
        pillar="none",
        minions=MINIONS,
        api=None,
        postgres="none",
        transport=transport,
    )
    with Bed(settings) as bed:
        bed.start_fleet().wait_ready(120)
        fuzzer = Fuzzer(bed, plan)
        found = fuzzer.run()
        print(f"{transport}: {fuzzer.sent} packets, memory {json.dumps(fuzzer.memory)}")
        print("\n".join(["known:", *fuzzer.notes.lines(), "found:", *found.lines()]))
        if "fatal" not in found.kinds:
            done = bed.salt(["*", "test.ping", "--out=json", "--static"])
            assert json.loads(done.stdout) == {f"minion-{number:05d}": True for number in range(MINIONS)}
        return found


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_packets(root: Path, tmp_path: Path, transport: Transport) -> None:
    """A few hundred packets, always the same."""
    assert list(fuzz(root / "salt", tmp_path, transport, Plan(packets=PACKETS)).lines()) == []


@pytest.mark.long
@pytest.mark.timeout(LONG.seconds + 1500)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_packets_for_long(root: Path, tmp_path: Path, transport: Transport) -> None:
    """As many as come in half an hour."""
    assert list(fuzz(root / "salt", tmp_path, transport, LONG).lines()) == []


@pytest.mark.parametrize("transport", ["zeromq", *(pytest.param(one, marks=pytest.mark.long) for one in ("tcp", "ws"))])
def test_stock(stock: Path, tmp_path: Path, transport: Transport) -> None:
    """The same packets find something on Salt as it is released."""
    assert fuzz(stock, tmp_path, transport, Plan(packets=PACKETS)).kinds - {"memory"}
