"""A syndic between two beds: the master of one is the master of the other's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST

if TYPE_CHECKING:
    from harness.bed import Bed

NAME = "syndic-1"
COME_S = 180


def options(above: Bed) -> dict[str, object]:
    """Return the options of the lower bed's master."""
    return {"syndic_master": HOST, "syndic_master_port": above.master.request_port}


def start(above: Bed, below: Bed, transport: str) -> None:
    """Start it on the lower bed, and wait until the upper master has its key."""
    home = below.temporary / "syndic"
    minion: dict[str, object] = {"id": NAME, "transport": transport, "user": "root"}
    minion |= {name: str(home / name) for name in ("root_dir", "sock_dir", "pki_dir", "cachedir")}
    # 3008.5 sends the events of a syndic's start before it can: each try costs it a minute without a job
    minion |= {"return_retry_tries": 1, "enable_legacy_startup_events": False}
    minion |= above.master.minion_options()
    # a syndic subscribes where its own master publishes, unless that is the port of always
    minion |= {"publish_port": above.master.publish_port}
    (below.master.config_dir / "minion").write_text(yaml.safe_dump(minion))
    below.spawn("salt-syndic", below.command("salt-syndic"), env=below.environment)
    key = above.master.pki_dir / "minions" / NAME
    until(key.exists, Deadline(COME_S), lambda: "the syndic does not come")
