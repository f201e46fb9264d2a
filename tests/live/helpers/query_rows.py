"""What the live tests of queries share: the rows of an answer, and a master that knows its minions' grains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from harness.bed import Bed


def query(bed: Bed, what: str, fields: str, rule: str = "") -> list[list[list[Any]]]:
    """Return the rows that the runner gives, page after page."""
    rows: list[list[list[Any]]] = []
    offset: int | None = 0
    while offset is not None:
        more = [f"filter={rule}"] if rule else []
        printed = bed.salt_run(["query.items", what, fields, f"offset={offset}", *more, "--out=json"], 240).stdout
        answer = json.loads(printed)
        rows += answer["data"]
        offset = answer.get("next")
    return rows


def grains_are_cached(bed: Bed, count: int) -> None:
    """Wait until the master has so many minions' grains."""
    folder = bed.master.cache_dir
    # since 3008, and before
    until(
        lambda: len([*folder.glob("grains/*.p"), *folder.glob("minions/*/data.p")]) >= count,
        Deadline(120),
        lambda: "the grains don't come",
    )
