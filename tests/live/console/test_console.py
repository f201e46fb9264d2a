"""The page in a real Chromium, quick part: signing in, the queue, and one edit of a package state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.console_bed import ConsoleBed, console_bed, page_folder, without_browser
from tests.live.helpers.console_browser import Browser, browser, expect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(without_browser()), reason=without_browser()),
]
MINIONS = 20
WAITING = "table[aria-label='Waiting jobs'] tbody tr"
# less than the minute after which a page without events looks again
EVENTS_MS = 45_000


@pytest.fixture(scope="module")
def console(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleBed]:
    """Yield a patched master with the job handler and package states."""
    with console_bed(root / "salt", tmp_path_factory.mktemp("console"), page_folder(), MINIONS) as made:
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Yield a browser."""
    with browser() as made:
        yield made


@pytest.fixture
def page(chromium: Browser, console: ConsoleBed) -> Iterator[Page]:
    """Yield the page of the bed's own user; the policy of its content must report nothing."""
    with chromium.page(console, "saltbed") as page:
        yield page


@pytest.fixture
def job(console: ConsoleBed) -> Iterator[str]:
    """Yield a job that waits for all minions in a paused queue."""
    console.run("job_handler.pause", "seconds=600")
    jid = console.sleep("*", 1)
    yield jid
    console.run("job_handler.cancel", jid)
    console.run("job_handler.resume")


def confirm(page: Page, name: str) -> None:
    """Confirm the dialog, and wait until it is gone."""
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)


@pytest.mark.parametrize(
    ("user", "password"), [("saltbed", "wrong"), ("nobody-of-that-name", ""), ("saltbed", "' or 1=1")]
)
def test_wrong_password(chromium: Browser, console: ConsoleBed, user: str, password: str) -> None:
    """Whoever gives the wrong name or password stays outside, and is told."""
    with chromium.page(console, user, password or "x", inside=False) as page:
        expect(page.get_by_role("alert")).to_contain_text("does not let you in")
        expect(page.get_by_role("navigation")).to_have_count(0)


def test_sign_out(page: Page, console: ConsoleBed) -> None:
    """After signing out, and after a reload, nothing is shown."""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Salt")).to_be_visible()
    page.goto(console.url)
    expect(page.get_by_role("heading", name="Sign in to Salt")).to_be_visible()


def test_reload_keeps_the_session(page: Page) -> None:
    """A reload of the page needs no password."""
    page.reload()
    expect(page.get_by_role("navigation")).to_be_visible()


def test_job_that_waits(page: Page, job: str) -> None:
    """The queue shows the job and why it waits; events bring it into the open page."""
    expect(page.locator(WAITING)).to_contain_text([job], timeout=30_000)
    expect(page.locator(WAITING)).to_contain_text(["the queue is paused until"])
    expect(page.locator(WAITING)).to_contain_text(["20 wait"])
    expect(page.locator(WAITING)).to_contain_text(["when the pause ends"])
    page.get_by_role("button", name=job, exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("test.sleep on * for 20 minions")


def test_live_through_events(page: Page, console: ConsoleBed) -> None:
    """A job of another one comes into the open page, and leaves it."""
    expect(page.get_by_text("No job waits.")).to_be_visible(timeout=30_000)
    console.run("job_handler.pause", "seconds=600")
    jid = console.sleep("*", 1)
    expect(page.locator(WAITING)).to_contain_text([jid], timeout=EVENTS_MS)
    console.run("job_handler.resume")
    expect(page.get_by_text("No job waits.")).to_be_visible(timeout=EVENTS_MS)


def test_hold_and_release(page: Page, console: ConsoleBed, job: str) -> None:
    """Hold and release change the job on the master."""
    page.get_by_role("button", name=f"Hold {job}").click()
    expect(page.get_by_role("dialog")).to_contain_text("20 minions will not get it until it is released")
    confirm(page, "Hold")
    console.run("job_handler.resume")
    (line,) = console.run("job_handler.list")
    assert line["jid"] == job
    assert line["reason"] == "an administrator holds it"
    page.get_by_role("button", name="Refresh").click()
    page.get_by_role("button", name=f"Release {job}").click(timeout=30_000)
    confirm(page, "Release")
    expect(page.locator(WAITING)).to_have_count(0, timeout=EVENTS_MS)


def test_priority(page: Page, console: ConsoleBed, job: str) -> None:
    """A priority that is typed is the job's on the master; one that is out of range is refused in place."""
    page.get_by_role("button", name=f"Priority {job}").click()
    page.get_by_label("Priority", exact=True).fill("7")
    confirm(page, "Set")
    assert [line["priority"] for line in console.run("job_handler.list")] == [7]


def test_cancel(page: Page, console: ConsoleBed, job: str) -> None:
    """Cancel says how many minions, asks, and takes the job out of the master's queue."""
    page.get_by_role("button", name=f"Cancel {job}").click()
    expect(page.get_by_role("dialog")).to_contain_text("20 minions will not get it")
    page.get_by_role("button", name="Do nothing").click()
    assert len(console.run("job_handler.list")) == 1
    page.get_by_role("button", name=f"Cancel {job}").click()
    confirm(page, "Cancel the job")
    assert console.run("job_handler.list") == []
    expect(page.get_by_label("Cancelled or discarded jobs")).to_contain_text(job)


def test_pause_and_resume(page: Page, console: ConsoleBed) -> None:
    """Pause and resume change the queue on the master."""
    page.get_by_role("button", name="Pause…").click()
    confirm(page, "Pause")
    assert console.run("job_handler.status")["paused"]
    page.get_by_role("button", name="Resume…").click()
    confirm(page, "Resume")
    assert not console.run("job_handler.status")["paused"]


def test_pause_of_some(page: Page, console: ConsoleBed) -> None:
    """A pause for one function leaves the others alone."""
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Only functions").fill("state.*")
    page.get_by_label("Seconds").fill("600")
    confirm(page, "Pause")
    found = console.run("job_handler.status")
    (pause,) = found["pauses"]
    assert (pause["function"], "until" in pause, found["paused"]) == ("state.*", True, False)
    expect(page.locator("p.note")).to_contain_text("Paused until ")
    page.get_by_role("button", name="Resume…").click()
    confirm(page, "Resume")
    assert not console.run("job_handler.status")["pauses"]


def test_edit_of_a_state(page: Page, console: ConsoleBed) -> None:
    """A row of the specification's table is chosen, reviewed and saved; Latest has no condition to choose."""
    console.run("package_states.set", "web")
    console.run("package_states.assign", "web", "group", "Webservers")
    page.goto(f"{console.url}#/states/web")
    page.get_by_label("Package", exact=True).fill("nginx")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_label("Version of nginx")).to_have_value("Latest")
    expect(page.get_by_label("Condition of nginx")).to_have_count(0)
    page.get_by_label("Version of nginx").select_option("…")
    page.get_by_role("textbox", name="Version of nginx").fill("1.22")
    page.keyboard.press("Tab")
    page.get_by_label("Condition of nginx").select_option("Less than")
    page.get_by_role("button", name="Review 1 change").click()
    expect(page.get_by_role("dialog")).to_contain_text("5 minions get a new rule", timeout=30_000)
    expect(page.get_by_role("dialog")).to_contain_text("installed <1.22")
    there = page.get_by_role("table", name="Installed now").locator("tbody tr")
    expect(there).to_have_count(5, timeout=30_000)
    expect(there.first).to_contain_text("effect not known: it has not sent its packages")
    assert console.run("package_states.show", "web")["revision"] == 0
    page.get_by_label("Why").fill("as tested")
    confirm(page, "Save")
    found = console.run("package_states.show", "web")
    assert found["packages"] == {"nginx": "installed <1.22"}
    assert found["comment"] == "as tested"
    assert found["author"] == "saltbed"


def test_jobs_behind_others(page: Page, console: ConsoleBed) -> None:
    """A job that is partly sent says on how many minions it is, and the next one which job is in front."""
    first = str(console.bed.salt(["--async", "*", "test.sleep", "20"]).stdout).strip().rsplit(" ", 1)[-1]
    second = console.sleep("*", 1)
    try:
        rows = page.locator(WAITING)
        expect(rows).to_have_count(2, timeout=30_000)
        expect(rows.nth(0)).to_contain_text(re.compile(r"5 of 20 sent, 15 wait"))
        expect(rows.nth(0)).to_contain_text("already on 5 of 20; the next ")
        expect(rows.nth(1)).to_contain_text(f"the next in front is {first} (test.sleep)", timeout=30_000)
        page.get_by_role("button", name=first, exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text("publishing")
    finally:
        for jid in (first, second):
            console.run("job_handler.cancel", jid)
