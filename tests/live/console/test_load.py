"""`load --watch` in a real Chromium: the page of a run shows it while it goes on, and says when it is over."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.console_bed import page_folder, without_browser
from tests.live.helpers.console_browser import browser, expect

if TYPE_CHECKING:
    from typing import IO

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(without_browser()), reason=without_browser()),
]
WATCH = re.compile(
    r"watch it at (?P<url>\S+)#/load as (?P<user>\S+) \(sharedsecret\), with the password in (?P<file>\S+)"
)


@dataclass(frozen=True)
class Served:
    """Where the run is shown."""

    url: str
    password: str


def told(output: IO[str]) -> tuple[Served, str]:
    """Return where the run is shown, and to whom, once it says so."""
    for line in output:
        if found := WATCH.search(line):
            return Served(found["url"], Path(found["file"]).read_text(encoding="utf-8").strip()), found["user"]
    raise AssertionError("the run does not say where it is shown")


def test_run_is_shown(root: Path, tmp_path: Path) -> None:
    """Minions, returns and processes move while it runs; afterwards the page says that it is over."""
    argv = [sys.executable, "-m", "harness", "load", "--scenario", "quick", "--tree", "patched"]
    argv += ["--folder", str(tmp_path), "--watch", str(page_folder())]
    # its progress is on standard error
    with subprocess.Popen(argv, cwd=root, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        assert run.stderr
        served, user = told(run.stderr)
        with browser() as chromium, chromium.page(served, user) as page:
            page.get_by_role("link", name="Load run").click()
            expect(page.get_by_role("heading", name="Load run: patched")).to_be_visible(timeout=60_000)
            role = page.get_by_role("rowheader", name="MWorker", exact=True)
            expect(role).to_be_visible(timeout=60_000)
            expect(page.get_by_text(re.compile(r"[1-9]\d* jobs?, [1-9]\d* returns?"))).to_be_visible(timeout=300_000)
            run.communicate()
            expect(page.get_by_text("This run is over")).to_be_visible(timeout=30_000)
    assert run.returncode == 0
