"""A criteria module of a newcomer's own: the one in the documentation, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.processes.deadline import Deadline, until
from tests.live.helpers.docs_page import blocks
from tests.live.helpers.handler_bed import handler_bed

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(300)]

PAGE = "docs/job-handler-reference.md"
CALM = 2


def example(root: Path) -> tuple[str, str]:
    """Return the page's module, and its file's name."""
    (found,) = [block for block in blocks(root / PAGE) if block.language == "python"]
    assert found.file
    return found.text, Path(found.file).name


def test_module_of_ones_own(root: Path, tmp_path: Path) -> None:
    """It has twenty lines at most below its path, lies in a folder of its own, and decides from the next start on."""
    module, name = example(root)
    assert len(module.splitlines()) <= 21
    place = tmp_path / "criteria"
    place.mkdir()
    (place / name).write_text(module)
    with handler_bed(root, tmp_path, 10, {"criteria": "capacity"}) as setup:
        config = setup.bed.master.config_dir / "master"
        options = yaml.safe_load(config.read_text())
        options["rate_limiting"] = {"criteria": name.removesuffix(".py"), "calm_jobs": CALM}
        options["job_criteria_dirs"] = [str(place)]
        config.write_text(yaml.safe_dump(options))
        setup.bed.restart_master()
        setup.fleet.wait_ready(60)
        setup.pid()
        assert setup.ask("status")["criteria"] == "calm"
        jids = setup.submit("*", "test.sleep", ["600"], 3)
        until(lambda: setup.arrivals(jids) == jids[:CALM], Deadline(60), lambda: "the jobs do not arrive")
        status = setup.ask("status")
        assert (status["queued"], status["capacity"]["used"]) == (1, 10 * CALM)
        assert setup.ask("show", jid=jids[-1])["waiting"][0]["reason"] == "enough jobs run"
