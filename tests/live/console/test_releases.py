"""The page on the Salt that people have: unpatched releases with nothing but the wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers import salt_release
from tests.live.helpers.console_bed import console_bed, page_folder, without_browser
from tests.live.helpers.console_browser import browser, expect
from tests.live.helpers.query_rows import grains_are_cached
from tests.live.helpers.salt_release import RELEASES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(without_browser()), reason=without_browser()),
]
MINIONS = 5


@pytest.mark.parametrize("release", RELEASES)
def test_release(release: str, root: Path, tmp_path: Path) -> None:
    """Fleet and package states work, and the queue's page says what is missing."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    made = salt_release.with_extensions(
        salt_release.release(root, release), tmp_path / "salt", salt_release.wheels(root, wheels)
    )
    folder = page_folder(str(made / "bin" / "python"))
    with console_bed(made, tmp_path / "console", folder, MINIONS, patched=False) as console, browser() as chromium:
        console.bed.salt(["*", "saltutil.refresh_pillar"])
        grains_are_cached(console.bed, MINIONS)
        console.run("package_states.set", "minion-00001", "nginx", "latest")
        with chromium.page(console, "saltbed") as page:
            expect(page.get_by_role("alert")).to_contain_text("no job handler", timeout=60_000)
            page.goto(f"{console.url}#/fleet")
            expect(page.get_by_role("table", name="Fleet").get_by_role("link")).to_have_count(MINIONS, timeout=60_000)
            page.goto(f"{console.url}#/states/minion-00001")
            page.get_by_label("State of nginx").select_option("Absent", timeout=60_000)
            page.get_by_role("button", name="Review 1 change").click()
            page.get_by_role("dialog").get_by_role("button", name="Save").click(timeout=60_000)
            expect(page.get_by_role("dialog")).to_have_count(0, timeout=60_000)
        assert console.run("package_states.show", "minion-00001")["packages"] == {"nginx": "removed"}
