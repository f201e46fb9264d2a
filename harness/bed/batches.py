"""The batches that a master drives by itself: those of `salt --async --batch-size`.

Between two parts of one no minion has anything to do, and a minion whose answer the master missed holds its place until
Salt's timeouts are over: nobody but the master knows that more is to come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from pathlib import Path


def at_work(cache_dir: Path, job_cache: Path) -> list[str]:
    """Return the ids of the batches that have a part left or on its way, of a master with these folders.

    Those that a client drives are the client's: when it was killed nobody goes on with them, and they stay in the
    index. Source: salt.utils.batch_state (write_active_index, write_batch_state), which replaces each file whole.
    """
    listed = set(_read(cache_dir / "batch_active.p") or ())
    # by their content, as the name of a job's folder depends on the option hash_type
    states = [_read(path) for path in job_cache.glob("*/*/.batch.p")] if listed else []
    return sorted(state["jid"] for state in states if state and state["jid"] in listed and _goes_on(state))


def _goes_on(state: dict[str, Any]) -> bool:
    return state["driver"] == "master" and not state["halted"] and bool(state["pending"] or state["active"])


def _read(path: Path) -> Any:
    """Return what a file of Salt's holds, None if there is none (any more) or Salt can't read it either."""
    try:
        return msgpack.unpackb(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
