"""What a load run writes down before and beside its samples."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from harness import campaign
from harness.errors import RunError
from harness.load import run as load
from harness.progress import Progress
from harness.results import runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_facts_of_a_run_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tree and PostgreSQL are in `environment.json`, also of a run that fails later."""
    tree = tmp_path / "tree"
    (tree / "scripts").mkdir(parents=True)
    (tree / "scripts" / "salt-master").write_text("")

    def failing(*arguments: object) -> None:
        told: Callable[[str], None] = arguments[3]  # type: ignore[assignment]
        told("binaries of this machine")
        raise RunError("no luck")

    monkeypatch.setattr(load, "run", failing)
    order = campaign.Order("quick", (str(tree),), tmp_path / "runs", "python -m harness load")
    with pytest.raises(RunError):
        campaign.run(order, Progress(io.StringIO()), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    folder = tmp_path / "runs" / "20260102T030405Z-quick"
    facts = json.loads((folder / "environment.json").read_text())
    assert facts["bed"] == {"made_of": "processes", "postgresql": {"other": "binaries of this machine"}}
    assert (len(facts["trees"]["other"]["hash"]), facts["trees"]["other"]["edited"]) == (64, None)
    assert runs.read(folder).status == "failed"
