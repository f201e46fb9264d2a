"""The batches that a master drives by itself: those of `salt --async --batch-size`.

Between two parts of such a batch no minion has anything to do, and a minion whose answer the master missed keeps its
place until Salt's timeouts are over: only the master knows that more will come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgpack

if TYPE_CHECKING:
    from pathlib import Path

_Held = TypeVar("_Held")


def at_work(cache_dir: Path, job_cache: Path) -> list[str]:
    """Return the ids of the batches that have a part left or on its way, of a master with these folders.

    Batches that a client drives are left out: if the client was killed they stay in the index, but never go on.
    Source: salt.utils.batch_state (write_active_index, write_batch_state), which replaces each file whole.
    """
    listed: list[str] = _read(cache_dir / "batch_active.p", [])
    # by their content, as the name of a job's folder depends on the option hash_type
    paths = job_cache.glob("*/*/.batch.p") if listed else ()
    states: list[dict[str, Any]] = [_read(path, {}) for path in paths]
    return sorted(state["jid"] for state in states if state and state["jid"] in listed and _goes_on(state))


def _goes_on(state: dict[str, Any]) -> bool:
    return state["driver"] == "master" and not state["halted"] and bool(state["pending"] or state["active"])


def _read(path: Path, nothing: _Held) -> _Held:
    """Return what a file of Salt's holds, `nothing` if there is none (any more) or Salt can't read it either."""
    try:
        # arguments may be anything that YAML has, and returns any bytes
        held = msgpack.unpackb(path.read_bytes(), strict_map_key=False, unicode_errors="surrogateescape")
        return cast("_Held", held)
    except (FileNotFoundError, ValueError):
        return nothing
