"""What a master of masters keeps of the returns that a syndic sends it, on stock and patched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.bed import Bed, BedSettings
from harness.errors import StartError
from harness.processes.deadline import Deadline, until
from tests.live import syndic
from tests.live.returning import kept, publish

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]

MINIONS = 10
READY_S = 120
WAIT_S = 180
RETURN_S = 15
JID = "2030010100000000{:04}"


@pytest.mark.parametrize("kind", ["stock", "patched"])
def test_returns_of_a_syndic(kind: str, root: Path, stock: Path, tmp_path: Path) -> None:
    """All returns are there once, beside the list of the minions that the syndic knows."""
    tree = stock if kind == "stock" else root / "salt"
    upper = BedSettings(
        tree=tree,
        folder=tmp_path / "upper",
        master_options={"order_masters": True},
        pillar="none",
        postgres="none",
        api=False,
    )
    with Bed(upper) as above:
        lower = BedSettings(
            tree=tree,
            folder=tmp_path / "lower",
            minions=MINIONS,
            master_options=syndic.options(above),
            pillar="none",
            postgres="none",
            api=False,
        )
        with Bed(lower) as below:
            fleet = below.start_fleet()
            fleet.wait_ready(READY_S)
            syndic.start(above, below, "zeromq")
            ids = lower.minion_ids()
            returns = {f"{one}/return.p": {"return": True, "retcode": 0, "success": True} for one in ids}
            jids = iter(range(100))
            found: dict[str, Any] = {}

            def whole() -> bool:
                """Whether all return a job; one that comes before the syndic is there reaches nobody."""
                jid = JID.format(next(jids))
                publish(above, jid)
                try:
                    until(
                        lambda: returns.items() <= kept(above, jid).items(),
                        Deadline(RETURN_S),
                        lambda: "returns are missing",
                    )
                except StartError:
                    return False
                found.update(kept(above, jid))
                return True

            until(whole, Deadline(WAIT_S), lambda: "the returns do not come")
            fleet.stop()
    assert set(found) == {"jid", ".load.p", ".minions.p", f".minions.{syndic.NAME}.p", *returns}
    assert sorted(found[f".minions.{syndic.NAME}.p"]) == ids
