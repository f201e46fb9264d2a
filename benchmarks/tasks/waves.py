"""Run a highstate on simulated minions in waves: `waves.py MASTER_CONFIG MINIONS SIZE`.

A script of its own, so that it runs on the Salt of the bed. Prints for each minion that answered the durations of its
states in milliseconds, in JSON. Waves, because a master that is flooded would be what is measured.
"""

from __future__ import annotations

import json
import sys

import salt.client

TIMEOUT_S = 120


def main() -> None:
    """Print what all waves returned."""
    client = salt.client.LocalClient(c_path=sys.argv[1])
    minions, size = int(sys.argv[2]), int(sys.argv[3])
    ids = [f"minion-{number:05d}" for number in range(minions)]
    found: dict[str, list[float]] = {}
    for start in range(0, minions, size):
        wave = ids[start : start + size]
        returns = client.cmd(wave, "state.highstate", tgt_type="list", timeout=TIMEOUT_S)
        for minion, states in returns.items():
            if isinstance(states, dict):
                in_order = sorted(states.values(), key=lambda state: int(state["__run_num__"]))
                found[minion] = [float(state["duration"]) for state in in_order]
        print(json.dumps({"done": start + len(wave)}), flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
