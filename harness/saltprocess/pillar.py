"""One fetch of a minion's pillar through Salt's `postgres` ext_pillar, as a compile does it."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import TYPE_CHECKING, Any

import salt.config
import salt.loader

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare(settings: dict[str, Any]) -> Callable[[str], Callable[[], str]]:
    """Return the fetch; `settings` has `postgres` (connection options) and `queries` (as in the master's file)."""
    opts = salt.config.master_config(None)
    opts.update({"postgres": settings["postgres"], "optimization_order": [0]})
    fetch = salt.loader.pillars(opts, {})["postgres"]
    # as in a master; without it Salt keeps all log lines in memory until logging is set up
    logging.getLogger().setLevel(logging.WARNING)

    def compile_one(minion_id: str) -> Callable[[], str]:
        """Fetch, and return what gives the digest of the pillar in canonical JSON."""
        pillar = fetch(minion_id, {}, *settings["queries"])
        return lambda: hashlib.sha256(json.dumps(pillar, sort_keys=True).encode()).hexdigest()

    return compile_one
