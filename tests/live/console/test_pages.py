"""The page in a real Chromium: fleet, package states, rights, hostile data, lost sessions, accessibility."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from patches import wheels
from patches.layout import Layout
from tests.live.helpers import real_minion
from tests.live.helpers.console_bed import USERS, ConsoleBed, console_bed, page_folder, without_browser
from tests.live.helpers.console_browser import Browser, browser, expect, settle, sign_in
from tests.live.helpers.query_rows import grains_are_cached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(without_browser()), reason=without_browser()),
]
MINIONS = 1000
REAL = "real-1"
UNAUTHORIZED = 401
PAGES = ["queue", "fleet", "states", "states/web", "package/nginx", "minion/minion-00001"]
HOSTILE = ["<img src=x onerror=alert(1)>", "</td><script>alert(1)</script>", "\u202egnp.exe", "\x1b[31mred", "=1+1"]


@pytest.fixture(scope="module")
def console(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleBed]:
    """Yield a patched master with a package state, and grains of a thousand simulated minions and a real one."""
    with console_bed(root / "salt", tmp_path_factory.mktemp("pages"), page_folder(), MINIONS) as made:
        real_minion.start(made.bed, REAL)
        made.bed.salt(["*", "saltutil.refresh_pillar"])
        grains_are_cached(made.bed, MINIONS + 1)
        made.run("package_states.set", "web")
        made.run("package_states.set", "web", "nginx", "installed", "<1.22")
        made.run("package_states.set", "web", "vim", "latest")
        made.run("package_states.assign", "web", "group", "Webservers")
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Yield a browser."""
    with browser() as made:
        yield made


@pytest.fixture
def page(chromium: Browser, console: ConsoleBed) -> Iterator[Page]:
    """Yield the page of the bed's own user."""
    with chromium.page(console, "saltbed") as page:
        yield page


def test_fleet_filter_sort_and_csv(page: Page, console: ConsoleBed) -> None:
    """A filter chooses on the master, its error stands below it, and the CSV has what the table has."""
    page.goto(f"{console.url}#/fleet")
    names = page.get_by_role("table", name="Fleet").get_by_role("link")
    expect(names.first).to_have_text("minion-00000", timeout=30_000)
    page.get_by_role("combobox", name="Filter").fill("nope ==")
    page.keyboard.press("Enter")
    expect(page.locator("#filter-error")).to_contain_text("Correct the filter at character 8", timeout=30_000)
    page.get_by_role("combobox", name="Filter").fill('name =* "minion-0000[12]"')
    page.keyboard.press("Enter")
    expect(names).to_have_text(["minion-00001", "minion-00002"], timeout=30_000)
    for _ in range(2):
        page.get_by_role("button", name="Node").click()
    expect(names).to_have_text(["minion-00002", "minion-00001"])
    with page.expect_download() as got:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(got.value.path()).read_text())))
    assert [row["name"] for row in rows] == ["minion-00002", "minion-00001"]


def test_fleet_counts(page: Page, console: ConsoleBed) -> None:
    """The bars show what the master counts, which is asked for the list of all fields when the menu is opened."""
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.post_data or ""))
    page.goto(f"{console.url}#/fleet")
    expect(page.get_by_role("meter").first).to_be_visible(timeout=30_000)
    assert any("query.items" in one for one in asked)
    assert not any("query.fields" in one for one in asked)
    page.get_by_label("By").focus()
    expect(page.get_by_label("By").locator("option").nth(20)).to_be_attached(timeout=30_000)
    page.get_by_label("By").select_option("os", timeout=30_000)
    expect(page.get_by_role("meter").first).to_be_visible(timeout=30_000)
    total = sum(int(one.get_attribute("value") or 0) for one in page.get_by_role("meter").all())
    assert total == MINIONS + 1


def test_a_bar_filters(page: Page, console: ConsoleBed) -> None:
    """A click on a counted value shows the minions that have it."""
    page.goto(f"{console.url}#/fleet")
    bar = page.get_by_role("button", name="Debian", exact=True)
    bar.click(timeout=30_000)
    expect(page.get_by_role("combobox", name="Filter")).to_have_value('os == "Debian"')
    expect(page.get_by_role("meter")).to_have_count(1, timeout=30_000)
    wanted = len(console.run("query.items", "node", "name", "filter=os == Debian")["data"])
    expect(page.get_by_text(re.compile(rf"^{wanted} rows?$"))).to_be_visible(timeout=30_000)


def test_which_minions_lack_a_package(page: Page, console: ConsoleBed) -> None:
    """One package on all minions, from the page of package states."""
    page.goto(f"{console.url}#/states")
    page.get_by_label("Which minions have a package, or lack it").fill("nginx", timeout=30_000)
    page.get_by_role("button", name="Show", exact=True).click()
    table = page.get_by_role("table", name="Minions with the package")
    expect(table.get_by_role("link")).to_have_text([f"minion-0000{number}" for number in range(5)], timeout=30_000)
    expect(table.get_by_text("not known: it never sent its packages")).to_have_count(5)
    expect(page.get_by_text("want it", exact=True)).to_be_visible()
    counts = console.run("package_states.where", "nginx")["counts"]
    expect(page.get_by_text(f"{counts['not known']:,} minions never sent their packages")).to_be_visible()
    page.get_by_label("Only minions that lack it").check()
    lacking = console.run("package_states.where", "nginx", "lacking=True")["minions"]
    assert len(lacking) == counts["lack it"] == 0
    rest = f"of {counts['not known']:,} it is not known."
    expect(table.locator("tbody tr")).to_contain_text([rest], timeout=30_000)
    page.get_by_role("link", name="Which minions").click()
    button = page.get_by_role("button", name=f"{counts['not known']:,} never sent packages", exact=True)
    expect(button).to_have_attribute("aria-pressed", "true", timeout=30_000)


def test_all_minions_are_asked(page: Page, console: ConsoleBed) -> None:
    """The question says how many; what came of it stands where it was asked, also after a look at another page."""
    held: list[Any] = []

    def hold(route: Any) -> None:
        if "pkgset.refresh" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/", hold)
    page.goto(f"{console.url}#/package/nginx")
    button = page.get_by_role("button", name="Ask all minions for their packages…")
    button.click(timeout=30_000)
    expect(page.get_by_role("dialog")).to_contain_text(f"{MINIONS + 1:,} minions will run package_state.inventory")
    page.get_by_role("dialog").get_by_role("button", name="Do nothing").click()
    expect(page.get_by_text("Asked at")).to_have_count(0)
    button.click()
    page.get_by_role("dialog").get_by_role("button", name="Ask all").click()
    expect(page.get_by_text("waits for the answer")).to_be_visible()
    expect(button).to_be_disabled()
    page.goto(f"{console.url}#/fleet")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    (route,) = held
    answer = {"stored": ["a", "b"], "failed": {"c": "no such function"}, "silent": ["d"]}
    route.fulfill(json={"return": [answer]})
    settle(page)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto(f"{console.url}#/package/nginx")
    expect(page.get_by_text("1 minion did not answer in time: busy or down.")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("2 minions sent their packages.")).to_be_visible()
    expect(page.get_by_text("1 minion failed: no such function")).to_be_visible()
    expect(button).to_be_enabled()


def test_another_version_is_typed_at_once(page: Page, console: ConsoleBed) -> None:
    """The field has the focus, and what is typed counts before the field is left."""
    page.goto(f"{console.url}#/states/web")
    page.get_by_label("Version of nginx").select_option("…", timeout=30_000)
    page.keyboard.type("1.22")
    expect(page.get_by_role("button", name="Review 1 change…")).to_be_enabled()
    page.get_by_role("button", name="Discard changes…").click()
    page.get_by_role("button", name="Discard", exact=True).click()
    expect(page.get_by_role("button", name="Review 0 changes…")).to_be_disabled()


def test_minions_of_a_verdict(page: Page, console: ConsoleBed) -> None:
    """The verdicts are counted, and a click shows the minions of one."""
    page.goto(f"{console.url}#/states")
    counts = console.run("package_states.status", "table=False")["counts"]
    counts["never sent packages"], counts["sent none for long"] = counts.pop("never heard"), counts.pop("silent")
    for name, number in counts.items():
        page.get_by_role("button", name=f"{number:,} {name}", exact=True).click(timeout=30_000)
        shown = page.get_by_role("table", name="Minions").locator("tbody tr")
        # an empty table says so in a row
        expect(shown).to_have_count(max(1, min(number, 100)), timeout=30_000)


def test_minion(page: Page, console: ConsoleBed) -> None:
    """The page of a minion has its grains, and which source of a package state wins."""
    page.goto(f"{console.url}#/minion/minion-00001")
    expect(page.get_by_role("table", name="Grains")).to_contain_text("grain.os", timeout=30_000)
    expect(page.get_by_role("table", name="Packages")).to_contain_text("group Webservers: web", timeout=30_000)
    expect(page.get_by_text("Never sent its packages")).to_be_visible()


def test_real_minion(page: Page, console: ConsoleBed) -> None:
    """A real minion is asked for its packages, and for what a run would do."""
    console.run("package_states.set", REAL, "bash", "present")
    page.goto(f"{console.url}#/minion/{REAL}")
    button = page.get_by_role("button", name="Ask it for its packages")
    button.click(timeout=30_000)
    expect(page.get_by_text("waits for the answer")).to_be_visible()
    expect(button).to_be_disabled()
    expect(page.get_by_text("Consistent.")).to_be_visible(timeout=90_000)
    expect(button).to_be_enabled()
    installed = json.loads(console.bed.salt([REAL, "pkg.version", "bash", "--out=json", "--static"]).stdout)[REAL]
    expect(page.get_by_role("table", name="Packages")).to_contain_text(installed)
    page.get_by_role("button", name="Ask it what a run would do").click()
    expect(page.get_by_text("Nothing: what is wanted is there.")).to_be_visible(timeout=90_000)
    console.run("package_states.set", REAL, "passwd", "removed")
    page.get_by_role("button", name="Ask it what a run would do").click()
    row = page.get_by_role("table", name="Plan").get_by_role("row").nth(1)
    expect(row).to_contain_text("passwd", timeout=90_000)
    expect(row).to_contain_text(re.compile("refused|remove"))
    console.run("package_states.unset", REAL, "passwd")


def test_two_editors(chromium: Browser, page: Page, console: ConsoleBed) -> None:
    """The second one is told who saved, sees the difference, and loses nothing."""
    page.goto(f"{console.url}#/states/web")
    page.get_by_label("State of vim").select_option("Absent", timeout=30_000)
    with chromium.page(console, "editor") as other:
        other.goto(f"{console.url}#/states/web")
        other.get_by_label("Version of nginx").select_option("Latest", timeout=30_000)
        other.get_by_role("button", name="Review 1 change").click()
        other.get_by_role("dialog").get_by_role("button", name="Save").click(timeout=30_000)
        expect(other.get_by_role("dialog")).to_have_count(0, timeout=30_000)
    page.get_by_role("button", name="Review 1 change").click()
    expect(page.get_by_role("dialog")).to_contain_text("editor saved revision", timeout=30_000)
    page.get_by_role("button", name="Take the new revision").click()
    expect(page.get_by_label("State of vim")).to_have_value("removed", timeout=30_000)
    page.get_by_role("button", name="Review 1 change").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click(timeout=30_000)
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
    assert console.run("package_states.show", "web")["packages"] == {"nginx": "latest", "vim": "removed"}


CHOICES = {
    (version, condition, state): entry
    for state, word in (("Installed", "installed"), ("Absent", "removed"))
    for version, condition, entry in [
        ("Latest", "", "latest" if word == "installed" else word),
        ("1.0", "Equal", f"{word} =1.0"),
        ("1.0", "More than", f"{word} >1.0"),
        ("1.0", "Less than", f"{word} <1.0"),
        ("1.0", "Less or equal", f"{word} <=1.0"),
        ("2.0", "More or equal", f"{word} >=2.0"),
    ]
}


def test_every_choice_of_the_drawings(page: Page, console: ConsoleBed) -> None:
    """Each choice that the specification's drawings offer is saved as chosen; Latest has no condition."""
    console.run("package_states.set", "drawn")
    for (version, condition, state), entry in CHOICES.items():
        page.goto(f"{console.url}#/states/drawn")
        name = re.sub("[^a-z]", "", f"{condition}{state}".lower()) + version.replace(".", "")
        page.get_by_label("Package", exact=True).fill(name)
        page.get_by_role("button", name="Add", exact=True).click()
        chosen = page.get_by_label(f"Version of {name}", exact=True)
        expect(chosen).to_have_value("Latest")
        expect(page.get_by_label(f"Condition of {name}", exact=True)).to_have_count(0)
        if condition:
            chosen.select_option("…")
            page.get_by_role("textbox", name=f"Version of {name}", exact=True).fill(version)
            page.keyboard.press("Tab")
            page.get_by_label(f"Condition of {name}", exact=True).select_option(condition)
            chosen.select_option("Latest")
            expect(page.get_by_label(f"Condition of {name}", exact=True)).to_have_count(0)
            chosen.select_option("…")
            page.get_by_role("textbox", name=f"Version of {name}", exact=True).fill(version)
            page.keyboard.press("Tab")
            page.get_by_label(f"Condition of {name}", exact=True).select_option(condition)
        states = page.get_by_label(f"State of {name}", exact=True)
        assert states.locator("option").all_inner_texts() == ["Installed", "Absent"]
        states.select_option(state)
        page.get_by_role("button", name="Review 1 change").click()
        page.get_by_role("dialog").get_by_role("button", name="Save").click(timeout=30_000)
        expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
        assert console.run("package_states.show", "drawn")["packages"][name] == entry


def test_roll_back(page: Page, console: ConsoleBed) -> None:
    """An old revision comes back as a new one, after the page has shown what would change."""
    page.goto(f"{console.url}#/states/web")
    page.get_by_role("button", name="Roll back to 2", exact=True).click(timeout=30_000)
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click(timeout=30_000)
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
    assert console.run("package_states.show", "web")["packages"] == {"nginx": "installed <1.22", "vim": "latest"}


def test_assign_and_take_back(page: Page, console: ConsoleBed) -> None:
    """Before an assignment, and before it is taken back, the page says on how many minions files change."""
    page.goto(f"{console.url}#/states/web")
    page.get_by_role("button", name="Assign…", exact=True).click(timeout=30_000)
    page.get_by_role("dialog").get_by_label("Kind").select_option("minion")
    page.get_by_role("dialog").get_by_label("Target").fill("nobody")
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("nobody", timeout=30_000)
    page.get_by_role("dialog").get_by_label("Target").fill("minion-00001")
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 minion gets a new rule", timeout=30_000)
    assert "minion minion-00001" not in str(console.run("package_states.show", "web")["assigned"])
    page.get_by_role("dialog").get_by_role("button", name="Assign", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
    assert "minion minion-00001" in str(console.run("package_states.show", "web")["assigned"])
    page.get_by_role("button", name="Unassign minion minion-00001").click(timeout=30_000)
    expect(page.get_by_role("dialog")).to_contain_text("1 minion gets a new rule", timeout=30_000)
    page.get_by_role("dialog").get_by_role("button", name="Unassign", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
    assert "minion minion-00001" not in str(console.run("package_states.show", "web")["assigned"])


def test_session_that_ends_in_an_edit(page: Page, console: ConsoleBed) -> None:
    """Nothing typed is lost when the session ends: the form to sign in lies over the page."""
    page.goto(f"{console.url}#/states/web")
    page.get_by_label("State of vim").select_option("Absent", timeout=30_000)
    token = page.evaluate("JSON.parse(sessionStorage.getItem('salt-console')).token")
    page.request.post(
        f"{console.url.rpartition('/')[0]}/logout", headers={"X-Auth-Token": token, "Accept": "application/json"}
    )
    # another request may have shown the form already, which lies over the button
    page.get_by_role("button", name="Review 1 change").dispatch_event("click")
    expect(page.get_by_role("dialog", name="Sign in again")).to_be_visible(timeout=30_000)
    sign_in(page, "saltbed", console.password)
    expect(page.get_by_role("dialog", name="Sign in again")).to_have_count(0, timeout=30_000)
    expect(page.get_by_label("State of vim")).to_have_value("removed")


# every function that the page calls: with what, so that nothing changes where it is allowed
CALLED: dict[str, dict[str, Any]] = {
    "job_handler.list": {},
    "job_handler.status": {},
    "job_handler.show": {"jid": "20000101000000000000"},
    "job_handler.history": {},
    "job_handler.cancel": {"jid": "20000101000000000000"},
    "job_handler.hold": {"jid": "20000101000000000000"},
    "job_handler.release": {"jid": "20000101000000000000"},
    "job_handler.prioritize": {"jid": "20000101000000000000", "priority": 1},
    "job_handler.pause": {"seconds": "never"},
    "job_handler.resume": {},
    "query.items": {"what": "node", "filter": "name == nobody"},
    "query.fields": {"what": "node"},
    "query.count": {"what": "node", "by": "os"},
    "jobs.lookup_jid": {"jid": "20000101000000000000"},
    "cache.pillar": {"tgt": "nobody"},
    "package_states.show": {},
    "package_states.set": {"name": "web", "package": "nginx", "wanted": "nonsense"},
    "package_states.unset": {"name": "nobody", "package": "nginx"},
    "package_states.assign": {"name": "nobody", "kind": "group", "target": "all"},
    "package_states.unassign": {"name": "nobody", "kind": "group", "target": "all"},
    "package_states.history": {"name": "web"},
    "package_states.restore": {"name": "nobody", "revision": 1},
    "package_states.available": {"search": "nothing"},
    "package_states.status": {},
    "package_states.where": {"package": "nginx"},
    "package_states.refresh": {"minion": "nobody"},
    "package_states.dry_run": {"minion": "nobody"},
    "pkgset.refresh": {"tgt": "nobody"},
}
# what each button of the page does on the master; a label that ends in a space is followed by a name
OFFERED = {
    "Pause…": "job_handler.pause",
    "Resume…": "job_handler.resume",
    "Cancel ": "job_handler.cancel",
    "Hold ": "job_handler.hold",
    "Priority ": "job_handler.prioritize",
    "Make a state…": "package_states.set",
    "Review 0 changes…": "package_states.set",
    "Stop managing ": "package_states.unset",
    "Assign…": "package_states.assign",
    "Unassign ": "package_states.unassign",
    "Difference to ": "package_states.show",
    "Roll back to ": "package_states.restore",
    "Ask it for its packages": "package_states.refresh",
    "Ask it what a run would do": "package_states.dry_run",
    "Ask all minions for their packages…": "pkgset.refresh",
    "Result of ": "jobs.lookup_jid",
}
LABELS = """[...document.querySelectorAll('main button, main select')].map(
  (one) => one.getAttribute('aria-label') ?? one.textContent.trim())"""


def _rights(user: str) -> set[str]:
    """Return the functions that a user may call, by the rules of the bed's configuration."""
    rules = [rule for one in USERS[user] if isinstance(one, dict) for rule in one["@runner"]]
    return {name for name in CALLED if any(re.fullmatch(rule, name) for rule in rules)}


def test_every_call_is_tried(root: Path) -> None:
    """The table has what the page calls, and nothing else."""
    calls = (root / "salt/extensions/console/src/saltext/console/page/js/calls.js").read_text()
    assert set(re.findall(r'^  "[a-z_.]+": "([a-z_.]+)",$', calls, re.MULTILINE)) == set(CALLED)


@pytest.mark.parametrize("user", USERS)
def test_rights_by_hand(console: ConsoleBed, user: str) -> None:
    """By hand, salt-api does for a user what he may do, and refuses the rest of what the page calls."""
    refused = {name for name, keywords in CALLED.items() if console.status(user, name, **keywords) == UNAUTHORIZED}
    assert set(CALLED) - refused == _rights(user)


@pytest.mark.parametrize("user", ["saltbed", *USERS])
def test_rights_in_the_page(chromium: Browser, console: ConsoleBed, user: str) -> None:
    """The page offers a user what he may do; what he may not see it says."""
    console.bed.salt(["minion-00001", "test.version"])
    console.run("job_handler.pause")
    try:
        console.sleep("*")
        with chromium.page(console, user) as page:
            if user in {"saltbed", "reader", "operator", "queuer"}:
                expect(page.get_by_text(re.compile("jobs? waiting"))).to_be_visible(timeout=30_000)
            else:
                expect(page.get_by_role("alert")).to_contain_text("You may not see job handler", timeout=30_000)
            labels: set[str] = set()
            for name in PAGES:
                page.goto(f"{console.url}#/{name}")
                settle(page)
                labels |= set(page.evaluate(LABELS))
    finally:
        console.run("job_handler.cancel", console.run("job_handler.list")[-1]["jid"])
        console.run("job_handler.resume")
    offered = {does for label, does in OFFERED.items() if any(one.startswith(label) for one in labels)}
    if user == "saltbed":
        assert offered == set(OFFERED.values())
    else:
        assert offered <= _rights(user)
    assert ("Pause…" in labels) is (user in {"saltbed", "operator"})
    assert ("Review 0 changes…" in labels) is (user in {"saltbed", "editor"})


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text(page: Page, console: ConsoleBed, text: str) -> None:
    """What a minion chooses is text: a job's function here, as a grain it has the same way into the page."""
    page.route("**/", lambda route: _replace(route, text))
    page.goto(f"{console.url}#/fleet")
    cell = page.get_by_role("table", name="Fleet").get_by_role("link").first
    expect(cell).to_be_visible(timeout=30_000)
    shown = cell.inner_text()
    assert not any(one in shown for one in ("\x1b", "\u202e"))
    assert page.locator("main img, main script").count() == 0
    if not set(text) & {"\x1b", "\u202e"}:
        assert shown == text


def _replace(route: Any, text: str) -> None:
    response = route.fetch()
    found = response.json()
    answer = found["return"][0]
    if isinstance(answer, dict) and "data" in answer:
        for row in answer["data"]:
            row[0][1] = text
    route.fulfill(response=response, json=found)


PIECES = [
    *HOSTILE,
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    '"><a href="javascript:alert(1)">x</a>',
    "&lt;script&gt;",
    "{{7*7}}${7*7}",
    "\u0000\u0007\u009b31m",
    "\ufeff\u2066admin\u2069",
    "\U0001f600" * 9,
    "e\u0301" * 400,
    "a" * 5000,
    "@import url(//x)",
    "]]><!--",
    "\u2028\u2029\r\n",
]
TEXTS = 500
OWN = "[...new Set([...document.querySelectorAll('main *')].map((one) => one.localName))].sort()"


def test_five_hundred_hostile_texts(page: Page, console: ConsoleBed) -> None:
    """Whatever a minion calls itself and whatever its grains are: no element comes of it, and nothing is asked for."""
    texts = [
        PIECES[number % len(PIECES)] + PIECES[number // len(PIECES) % len(PIECES)] + "x" * (number // len(PIECES) ** 2)
        for number in range(TEXTS - 2)
    ]
    texts += ["<b>" * 350_000, "\u202e" * 350_000]
    assert len(set(texts)) == TEXTS
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.goto(f"{console.url}#/fleet")
    grid = page.get_by_role("table", name="Fleet")
    expect(grid).to_contain_text("minion-00001", timeout=30_000)
    before = set(page.evaluate(OWN))
    page.route("**/", lambda route: _multiply(route, texts))
    page.reload()
    expect(grid).to_contain_text("alert(1)", timeout=60_000)
    for top in range(0, TEXTS * 36, 1500):
        grid.evaluate("(one, top) => { one.scrollTop = top; }", top)
        page.wait_for_timeout(50)
        assert set(page.evaluate(OWN)) <= before | {"p"}, top
        assert not any(one in grid.inner_text() for one in ("\x1b", "\u202e", "\u009b", "\u0007"))


def _multiply(route: Any, texts: list[str]) -> None:
    """Answer with a row for each text, which stands in each of its cells that has a text."""
    response = route.fetch()
    found = response.json()
    answer = found["return"][0]
    if isinstance(answer, dict) and answer.get("data"):
        first = answer["data"][0]
        answer["data"] = [
            [[status, text if isinstance(value, str) else value] for status, value in first] for text in texts
        ]
    route.fulfill(response=response, json=found)


@pytest.fixture(scope="module")
def axe(root: Path) -> str:
    """Return the source of axe-core."""
    (package,) = tomllib.loads((root / "salt/extensions/console/vendor.toml").read_text())["test"]
    with tarfile.open(wheels.fetch(Layout(root), package)) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member
        return member.read().decode()


@pytest.mark.parametrize("width", [1300, 380])
@pytest.mark.parametrize("name", PAGES)
def test_accessible(chromium: Browser, console: ConsoleBed, axe: str, name: str, width: int) -> None:
    """axe-core finds nothing, on a wide and on a narrow window."""
    with chromium.page(console, "saltbed", width=width) as page:
        page.goto(f"{console.url}#/{name}")
        settle(page)
        page.evaluate(axe)
        found = page.evaluate(
            "axe.run().then((one) => one.violations.map((v) => [v.id, v.nodes.map((n) => n.html).slice(0, 3)]))"
        )
        assert found == []


WORK = {"*": "test.sleep 8", "minion-000*": "state.apply", "minion-001*": "pkg.list_upgrades", REAL: "grains.items"}


def test_screenshots(page: Page, console: ConsoleBed, root: Path, tmp_path: Path) -> None:
    """Take the pictures of the docs; they go there if they are missing."""
    page.goto(f"{console.url}#/states/web")
    expect(page.get_by_role("table", name="Revisions")).to_be_visible(timeout=30_000)
    settle(page)
    page.screenshot(path=tmp_path / "console-states.png")
    page.goto(f"{console.url}#/fleet")
    expect(page.get_by_role("meter").first).to_be_visible(timeout=30_000)
    settle(page)
    page.screenshot(path=tmp_path / "console-fleet.png")
    page.goto(f"{console.url}#/queue")
    expect(page.get_by_role("button", name="Pause…")).to_be_visible(timeout=30_000)
    for target, work in WORK.items():
        console.bed.salt(["--async", target, *work.split()])
    waiting = page.get_by_role("table", name="Waiting jobs").locator("tbody tr")
    expect(waiting.nth(1)).to_be_visible(timeout=30_000)
    # the plot has some seconds to show
    page.wait_for_timeout(15_000)
    page.screenshot(path=tmp_path / "console-queue.png")
    for job in console.run("job_handler.list"):
        console.run("job_handler.cancel", job["jid"])
    for made in tmp_path.glob("*.png"):
        assert made.stat().st_size
        place = root / "docs" / made.name
        if not place.exists():
            shutil.copyfile(made, place)


# what Tab has to reach
CONTROLS = "a[href]:not([tabindex='-1']), button, input, select, textarea, [tabindex='0']"
UNREACHED = """(controls) => [...document.querySelectorAll(controls)].filter(
  (one) => one.checkVisibility() && !one.disabled && !one.reached).map((one) => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("name", PAGES)
def test_every_control_by_keyboard(page: Page, console: ConsoleBed, name: str) -> None:
    """Tab reaches all that one can click or change."""
    page.goto(f"{console.url}#/{name}")
    settle(page)
    for _ in range(page.locator(CONTROLS).count() + 5):
        page.keyboard.press("Tab")
        page.evaluate("document.activeElement.reached = true")
    assert page.evaluate(UNREACHED, CONTROLS) == []


def test_rows_by_keyboard(page: Page, console: ConsoleBed) -> None:
    """In the table of the fleet, arrows choose a row, wherever it is, and Enter opens it."""
    page.goto(f"{console.url}#/fleet")
    links = page.get_by_role("table", name="Fleet").get_by_role("link")
    expect(links.first).to_have_text("minion-00000", timeout=30_000)
    links.first.focus()
    for key, name in (
        ("ArrowDown", "minion-00001"),
        ("PageDown", "minion-00016"),
        ("End", REAL),
        ("ArrowUp", "minion-00999"),
    ):
        page.keyboard.press(key)
        expect(page.locator(":focus")).to_have_text(name)
        expect(page.locator(":focus")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="minion-00999")).to_be_visible(timeout=30_000)


def go_to(page: Page, name: str) -> None:
    """Press Tab until what has this name has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        focus = "((one) => one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent ?? one.textContent)"
        if str(page.evaluate(f"{focus}(document.activeElement)")).strip().startswith(name):
            return
    raise AssertionError(f"Tab does not reach {name}")


def test_work_by_keyboard(page: Page, console: ConsoleBed) -> None:
    """A pause, its end and an edit of a state need no mouse; Escape leaves a question without an answer."""
    expect(page.get_by_role("button", name="Pause…")).to_be_visible(timeout=30_000)
    for end, paused in (("Escape", False), ("Enter", True)):
        go_to(page, "Pause…")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        go_to(page, "Pause")
        page.keyboard.press(end)
        expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
        assert console.run("job_handler.status")["paused"] is paused
    expect(page.get_by_role("button", name="Resume…")).to_be_visible(timeout=30_000)
    go_to(page, "Resume…")
    page.keyboard.press("Enter")
    go_to(page, "Resume")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
    assert not console.run("job_handler.status")["paused"]
    page.goto(f"{console.url}#/states/web")
    expect(page.get_by_label("State of vim")).to_be_visible(timeout=30_000)
    go_to(page, "State of vim")
    page.keyboard.type("Absent")
    go_to(page, "Review 1 change")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("5 minions get a new rule", timeout=30_000)
    go_to(page, "Save")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
    assert console.run("package_states.show", "web")["packages"]["vim"] == "removed"


def test_salt_api_goes_away_in_an_edit(page: Page, console: ConsoleBed) -> None:
    """The page says that what it shows may be old, and what was typed survives a cut and a restart of salt-api."""
    page.goto(f"{console.url}#/states/web")
    page.get_by_label("State of nginx").select_option("Absent", timeout=30_000)
    page.context.set_offline(True)
    page.get_by_role("button", name="Review 1 change").click()
    expect(page.get_by_role("dialog")).to_contain_text("salt-api does not answer", timeout=30_000)
    expect(page.get_by_role("status").first).to_contain_text("what you see may be old")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.context.set_offline(False)
    page.get_by_role("button", name="Review 1 change").click()
    expect(page.get_by_role("dialog")).to_contain_text("5 minions get a new rule", timeout=30_000)
    expect(page.get_by_text("what you see may be old")).to_have_count(0)
    page.get_by_role("dialog").get_by_role("button", name="Keep editing").click()
    console.restart_api()
    page.get_by_role("button", name="Review 1 change").click()
    answer = page.get_by_role("dialog").filter(has_text=re.compile("get a new rule|Sign in again"))
    expect(answer).to_be_visible(timeout=30_000)
    if "Sign in again" in answer.inner_text():
        sign_in(page, "saltbed", console.password)
        expect(page.get_by_role("dialog", name="Sign in again")).to_have_count(0, timeout=30_000)
    expect(page.get_by_label("State of nginx")).to_have_value("removed")


def test_stream_of_events_is_cut(page: Page, console: ConsoleBed) -> None:
    """The queue says so, connects again by itself, and shows what came meanwhile."""
    expect(page.get_by_text("No job waits.")).to_be_visible(timeout=30_000)
    console.restart_api()
    again = page.get_by_text("what you see may be old").or_(page.get_by_role("dialog", name="Sign in again"))
    expect(again.first).to_be_visible(timeout=60_000)
    console.run("job_handler.pause", "seconds=600")
    jid = console.sleep("*", 1)
    try:
        dialog, table = (
            page.get_by_role("dialog", name="Sign in again"),
            page.get_by_role("table", name="Waiting jobs"),
        )
        # a new salt-api may know the session or not, and the page takes its time to find out
        expect(dialog.or_(table.filter(has_text=jid)).first).to_be_visible(timeout=60_000)
        if dialog.count():
            sign_in(page, "saltbed", console.password)
        expect(table).to_contain_text(jid, timeout=60_000)
        expect(page.get_by_text("what you see may be old")).to_have_count(0)
    finally:
        console.run("job_handler.cancel", jid)
        console.run("job_handler.resume")
