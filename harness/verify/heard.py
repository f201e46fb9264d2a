"""What the fleet heard of a load, from the samples as they are in the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.verify.store import Store


def figures(store: Store, start: float, settled: float, executions: float | None) -> dict[str, float | None]:
    """Return the figures of what came to minions between the last samples up to two moments.

    executions: of the requested functions; None where a gap at an edge of the load hides what was heard
    """
    query = "SELECT max({}) FROM fleet WHERE time <= :until"
    many, much = (
        (store.value(query.format(name), until=settled) or 0) - (store.value(query.format(name), until=start) or 0)
        for name in ("heard", "heard_bytes")
    )
    if executions is None:
        return {"heard_mb": None, "heard_per_execution": None}
    return {"heard_mb": much / 1e6, "heard_per_execution": many / executions if executions else None}
