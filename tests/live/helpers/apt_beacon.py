"""A minion's beacons without the minion: each line of input is a number of ticks, answered by their events' tags."""

from __future__ import annotations

import json
import os
import sys

import salt.beacons
import salt.config
import salt.loader


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    opts = salt.config.minion_config("/etc/salt/minion")
    opts["grains"] = {"id": opts["id"]}
    beacons = salt.beacons.Beacon(opts, {})
    for line in sys.stdin:
        ticks = [beacons.process(opts["beacons"], opts["grains"]) for _ in range(int(line))]
        found = [[event["tag"] for event in events] for events in ticks]
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
