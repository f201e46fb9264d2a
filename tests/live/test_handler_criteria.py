"""A criteria module of a newcomer's own: the one in the documentation, word for word."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from harness.processes.deadline import Deadline, until
from tests.live.handler_bed import handler_bed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(300)]

PAGE = "docs/job-handler.md"
CALM = 2


def example(root: Path) -> tuple[str, str, str]:
    """Return the page's module, the folder that it is to be saved in, and its file's name."""
    section = (root / PAGE).read_text().split("### One of your own")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    place = re.search(r"Save it as `/var/cache/salt/master/([a-z_/]+)/(\w+\.py)`", section)
    assert found
    assert place
    return found.group(1), place.group(1), place.group(2)


def test_module_of_ones_own(root: Path, tmp_path: Path) -> None:
    """It has twenty lines at most, lies in the extension directory, and decides from the master's next start on."""
    module, folder, name = example(root)
    assert len(module.splitlines()) <= 20
    with handler_bed(root, tmp_path, 10, {"criteria": "capacity"}) as setup:
        place = setup.bed.master.cache_dir / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(module)
        config = setup.bed.master.config_dir / "master"
        options = yaml.safe_load(config.read_text())
        options["rate_limiting"] = {"criteria": name.removesuffix(".py"), "calm_jobs": CALM}
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
