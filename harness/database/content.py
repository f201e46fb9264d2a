"""The content of the pillars in the bed's database.

What matters for the load is their number, their size and their shape: about two dozen for a minion, a few kilobytes
each, nested, and overlapping between scopes, so that merging has something to decide. Each is a function of the seed,
its owner and its category.
"""

from __future__ import annotations

import json
from functools import lru_cache
from random import Random
from typing import Any

# Uyuni's own generators and the usual formulas go by these names
GLOBAL = ("gpgkeys", "manager", "images", "proxies")
ORGANISATION = ("organisation", "images", "channels", "contact")
GROUP = ("formula-users", "formula-ntp", "formula-packages", "formula-monitoring")
MINION = ("general", "group-memberships", "custom-info", "formula-system")
WORDS = ("alpha", "bravo", "delta", "echo", "golf", "hotel", "india", "kilo", "lima", "mike", "oscar", "papa", "tango")
ROLES = ("web", "database", "proxy", "build", "desktop")
ENTRIES = 16
# making the content is most of the time that seeding takes, so minions share it: every 97th has the same
VARIANTS = 97


def entry(random: Random) -> dict[str, Any]:
    """Return one of a document's nested values, about a hundred bytes."""
    return {
        "label": f"{random.choice(WORDS)}-{random.choice(WORDS)}-{random.randrange(10_000)}",
        "enabled": random.random() < 0.5,  # noqa: PLR2004 - even odds
        "checksum": f"{random.getrandbits(128):032x}",
        "weight": random.randrange(100),
    }


@lru_cache(maxsize=4096)
def body(seed: int, scope: str, owner: int, category: str) -> str:
    """Return the members of a document that take most of its room, as JSON without the braces around it."""
    random = Random(f"{seed}/{scope}/{owner}/{category}")  # noqa: S311 - made-up content, nothing secret
    name = category.replace("-", "_")
    document = {
        name: {f"{random.choice(WORDS)}_{number}": entry(random) for number in range(ENTRIES)},
        # the same keys in every scope: the narrowest has to win
        "saltbed": {"scope": scope, scope: owner, "categories": {f"{scope}/{category}": random.randrange(1000)}},
    }
    if scope == "minion" and category == "custom-info":
        document["role"] = ROLES[owner % len(ROLES)]
        document["room"] = {"rack": owner % 12, "site": WORDS[owner % len(WORDS)]}
    return json.dumps(document)[1:-1]


def shared(seed: int, scope: str, owner: int, category: str) -> str:
    """Return a pillar of the whole server, an organisation or a group as JSON."""
    return f"{{{body(seed, scope, owner, category)}}}"


def of_minion(seed: int, server: int, category: str, facts: dict[str, Any]) -> str:
    """Return a pillar of a minion as JSON: what it shares with others, and its own facts."""
    return f"{{{json.dumps(facts)[1:-1]}, {body(seed, 'minion', server % VARIANTS, category)}}}"
