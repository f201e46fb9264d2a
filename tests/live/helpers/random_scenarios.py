"""Scenarios drawn from a seed: functions, durations, limits of the queue, kills, restarts, each transport in turn."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from evil_minions import TRANSPORTS
from harness.choices import WITHOUT_API

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = {name: ("cli",) if name in WITHOUT_API else ("api", "api", "api", "cli") for name in TRANSPORTS}
# name, arguments: what fleets are asked, quick and slow
FUNCTIONS: tuple[tuple[str, list[int | str]], ...] = (
    ("test.ping", []),
    ("test.sleep", [1]),
    ("test.sleep", [3]),
    ("test.sleep", [6]),
    ("grains.items", []),
    ("pillar.items", []),
    ("cmd.run", ["uptime"]),
)


def scenario(seed: int) -> str:
    """Return the text of a scenario's file; transports take turns, so that three scenarios have all."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable test is no secret
    minions = rng.randint(20, 50)
    transport = TRANSPORTS[seed % len(TRANSPORTS)]
    lines = [
        f'description = "Drawn from seed {seed}"',
        f"minions = {minions}",
        'pillar = "none"',
        f'transport = "{transport}"',
        "settle_s = 90",
        f"seed = {seed + 1}",
        # every publication is a line of the log
        'master = { log_level_logfile = "info" }',
    ]
    if rng.random() < 0.7:
        # stock has no queue; the patched tree keeps what is beyond the limit
        queue = {"criteria": "capacity", "max_master_jobs": rng.randint(minions, 3 * minions), "exempt": []}
        queue["sync_wait"] = rng.choice(["extend", "timeout"])
        lines += ["[trees.patched.master]", f"rate_limiting = {_table(queue)}"]
    for number in range(rng.randint(1, 3)):
        lines += _clients(number, minions, KINDS[transport], rng)
    lines += _timeline(rng)
    return "\n".join(lines) + "\n"


def _clients(number: int, minions: int, kinds: Sequence[str], rng: random.Random) -> list[str]:
    function, args = rng.choice(FUNCTIONS)
    kind = rng.choice(kinds)
    targets = [f'tgt = "minion-{rng.randrange(minions):05d}"', 'tgt = "minion-0000*"', *['tgt = "*"'] * 3]
    names = ",".join(f"minion-{minion:05d}" for minion in sorted(rng.sample(range(minions), 5)))
    targets.append(f'tgt = "{names}"\ntgt_type = "list"')
    arrival = f"burst = {rng.randint(1, 5)}\nstart_s = {rng.randint(0, 4)}"
    if kind == "api" and rng.random() < 0.6:
        arrival = f'rate = {rng.choice((0.5, 1))}\nduration_s = {rng.randint(4, 8)}\narrival = "constant"'
    return [
        "[[clients]]",
        f'name = "clients {number}"',
        f'kind = "{kind}"',
        f'function = "{function}"',
        f"args = {json.dumps(args)}",
        f'mode = "{rng.choice(("sync", "async", "async"))}"',
        "timeout_s = 15",
        "give_up_s = 60",
        rng.choice(targets),
        arrival,
    ]


def _timeline(rng: random.Random) -> list[str]:
    """Return what goes wrong in half of the scenarios: minions die, come back or are cut off, the master restarts."""
    lines = []
    if rng.random() < 0.5:
        lines += ["[[timeline]]", f"at_s = {rng.randint(1, 4)}", 'do = "kill"', f"share = {rng.choice((0.1, 0.3))}"]
        if rng.random() < 0.5:
            lines += ["[[timeline]]", f"at_s = {rng.randint(5, 8)}", 'do = "revive"']
    if rng.random() < 0.2:
        lines += ["[[timeline]]", f"at_s = {rng.randint(2, 5)}", 'do = "partition"', "share = 0.2", "for_s = 4"]
    if rng.random() < 0.25:
        lines += ["[[timeline]]", f"at_s = {rng.randint(2, 6)}", 'do = "restart-master"']
    return lines


def _table(values: dict[str, object]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items()) + " }"
