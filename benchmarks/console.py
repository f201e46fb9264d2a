"""The console in a real Chromium, with the grains of 10,000 minions and 60,000 packages that repositories offer.

Nobody is connected. An action's time begins with the click and ends with the frame that shows its result; the time in
which the page waits for salt-api is taken off, so what is left is the page's own.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psutil

from benchmarks import package_states
from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_least, at_most, interleave
from harness.bed import Bed, BedSettings
from harness.bed.made_up import fill
from harness.bed.settings import ApiSettings
from harness.database import sources
from harness.paths import TREES

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from benchmarks.benchmark import Options

WINDOW_S = 60
FRAMES = 300
# how long the page itself takes, in ms
ACT = """async () => {
  performance.setResourceTimingBufferSize(10000);
  const frame = () => new Promise(requestAnimationFrame);
  const begin = () => { %s; };
  let start = performance.now();
  const last = start + 60000;
  // what is clicked may not be there yet
  for (let begun = false; !begun; ) {
    start = performance.now();
    try { begin(); begun = true; } catch (error) { if (start > last) throw error; await frame(); }
  }
  do {
    await frame();
    if (performance.now() > last) throw new Error("not done in a minute");
  } while (!(%s));
  const end = performance.now();
  const waits = performance.getEntriesByType("resource").filter((one) => one.startTime >= start)
    .map((one) => [one.startTime, Math.min(one.responseEnd, end)]).sort(([one], [two]) => one - two);
  let waited = 0, until = start;
  for (const [from, to] of waits) { waited += Math.max(0, to - Math.max(from, until)); until = Math.max(until, to); }
  return end - start - waited;
}"""
SCROLL = """async () => {
  const grid = document.querySelector("[role=table]"), frame = () => new Promise(requestAnimationFrame);
  const start = await frame();
  let end = start;
  for (let number = 0; number < %d; number++) { grid.scrollTop += 90; end = await frame(); }
  return Math.round(10 * %d * 1000 / (end - start)) / 10;
}"""
HEADS = "document.querySelectorAll('[role=columnheader]')"
# what begins an action, and how the page shows that it is done
FLEET = ("location.hash = '#/fleet'", "document.querySelectorAll('[role=table] .row').length >= 20")
STATES = ("location.hash = '#/states'", "document.querySelectorAll('[aria-label=Minions] tbody tr').length === 100")
SEARCH = (
    "document.querySelector('main form button:not([type])').click()",
    "document.querySelectorAll('main ul button').length >= 20",
)
ON_FLEET = (
    (f"{HEADS}[2].querySelector('button').click()", f"{HEADS}[2].ariaSort === 'ascending'"),
    (f"{HEADS}[2].querySelector('button').click()", f"{HEADS}[2].ariaSort === 'descending'"),
    (f"{HEADS}[4].querySelector('button').click()", f"{HEADS}[4].ariaSort === 'ascending'"),
    ("document.querySelector('details').open = true", "document.querySelectorAll('fieldset label').length > 50"),
    (
        "[...document.querySelectorAll('fieldset label')].find((one) => one.textContent.trim() === 'fqdn').click()",
        f"{HEADS}.length === 7",
    ),
    ("document.querySelector('.bars button').click()", "document.querySelectorAll('.bars meter').length === 1"),
    ("location.hash = '#/minion/minion-00001'", "document.querySelector('[aria-label=Grains] tr')"),
)
ON_STATES = (
    (
        "document.querySelectorAll('.tile')[2].click()",
        "document.querySelector('[aria-label=Minions] tbody tr')?.cells[1].textContent === 'drifting'",
    ),
    ("[...document.querySelectorAll('main button')].at(-1).click()", "document.body.innerText.includes('Page 2 of')"),
    ("location.hash = '#/package/package-7'", "document.querySelectorAll('tbody tr').length === 100"),
    ("location.hash = '#/states/web'", "document.querySelector('[aria-label^=Packages] tbody tr')"),
)

VIEW = {
    "fleet": Figure("fleet", "first view of {minions} minions", "s", "max", at_most(2)),
    "states": Figure("states", "first view of {minions} minions' verdicts", "s", "max", at_most(2)),
    "search": Figure("search", f"packages found in {package_states.OFFERED:,}", "s", "max", at_most(2)),
}
ACTION = Figure("action", "an action, beside salt-api's answer, p95", "s", "p95", at_most(0.3))
SCROLLED = Figure("scrolled", "frames while {minions} rows scroll", "/s", aim=at_least(60))
MEMORY = Figure("memory", "memory of the tab", "MB", "max", at_most(150))
SHIPPED = Figure("shipped", "the page with its libraries, compressed", "KB", aim=at_most(300))
OPEN = Figure("open", "CPU with the page Queue open, less without it", "cores", aim=at_most(0.02))


def run(options: Options) -> dict[Figure, Samples]:
    """Open each page `options.rounds` times and do everything there."""
    with TemporaryDirectory(prefix="saltbed-") as name, sources.served(Path(name)) as server:
        database = sources.make(server, "console")
        command = [sys.executable, "-m", "saltext.console", "--folder"]
        folder = Path(subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip())
        settings = BedSettings(
            tree=TREES["patched"],
            folder=Path(name) / "bed",
            master_options={
                "netapi_enable_clients": ["runner", "local", "local_async"],
                "rate_limiting": {"criteria": "capacity"},
                "postgres": database.server.salt_options() | {"db": "console"},
                "package_states": {"sls_root": f"{name}/sls"},
            },
            pillar="none",
            postgres="none",
            api=ApiSettings(options={"app": str(folder / "index.html"), "static": str(folder)}),
        )
        with Bed(settings) as bed:
            fill(bed.master.cache_dir, bed.master.pki_dir, options.minions)
            bed.salt_run(["package_states.setup"])
            # minions are counted from 0
            rows = package_states.FLEET.replace("'minion-' || n", "'minion-' || to_char(n - 1, 'FM00000')")
            sizes = {"minions": options.minions, "offered": package_states.OFFERED}
            database.alone(rows.format(**sizes, main="a" * 64, more="b" * 64))
            bed.salt_run(["package_states.set", "web", "nginx", "latest"])
            return {SHIPPED: Samples([_shipped(folder)]), **_browse(bed, options)}


def _shipped(folder: Path) -> float:
    """Return the size (KB) of what the browser loads."""
    files = [one for one in folder.rglob("*") if one.suffix in {".js", ".css", ".html"}]
    return sum(len(gzip.compress(one.read_bytes())) for one in files) / 1000


def _browse(bed: Bed, options: Options) -> dict[Figure, Samples]:
    """Open the page in a Chromium, and return the samples of what happens there."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only this benchmark needs it

    chromium = shutil.which("chromium")
    if chromium is None:
        raise BenchmarkError("The benchmark of the console needs a Chromium: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])

        def turn(_: int) -> dict[Figure, list[float]]:
            page = browser.new_page()
            _sign_in(page, bed)
            samples = _everything(page)
            page.close()
            return samples

        turns = interleave({"ours": turn}, options)["ours"]
        # the master still tidies up after what the pages asked for
        time.sleep(WINDOW_S)
        before = _used(bed)
        page = browser.new_page()
        _sign_in(page, bed)
        page.goto(f"{page.url.partition('#')[0]}#/queue")
        page.get_by_text("No job waits.").wait_for()
        opened = _used(bed)
        page.close()
        more = opened - (before + _used(bed)) / 2
        browser.close()
    return {
        OPEN: Samples([more]),
        **{figure: Samples([x for one in turns for x in one[figure]]) for figure in turns[0]},
    }


def _sign_in(page: Page, bed: Bed) -> None:
    """Sign in as the bed's user, who may do everything."""
    page.goto(f"{bed.api.url}/app#/load")
    page.get_by_label("User").fill(bed.api.user)
    page.get_by_label("Password").fill(bed.api.password)
    page.get_by_label("Kind of account").fill(bed.api.eauth)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("navigation").wait_for()


def _everything(page: Page) -> dict[Figure, list[float]]:
    """Do everything once, and return the samples."""
    from playwright.sync_api import Error  # noqa: PLC0415 - only this benchmark needs it

    def act(action: tuple[str, str]) -> float:
        try:
            return float(page.evaluate(ACT % action)) / 1000
        except Error as error:
            raise BenchmarkError(
                f"The page did not do {action[0]}: {error.message}; see whether its parts have other names."
            ) from error

    fleet = act(FLEET)
    # the master answers this on the cores that draw
    page.locator(".bars button").first.wait_for()
    scrolled = float(page.evaluate(SCROLL % (FRAMES, FRAMES)))
    actions = [act(one) for one in ON_FLEET]
    states = act(STATES)
    actions += [act(one) for one in ON_STATES]
    page.get_by_label("Package", exact=True).fill("9")
    return {
        VIEW["fleet"]: [fleet],
        VIEW["states"]: [states],
        VIEW["search"]: [act(SEARCH)],
        ACTION: actions,
        SCROLLED: [scrolled],
        MEMORY: [_largest_tab()],
    }


def _largest_tab() -> float:
    """Return the private memory (MB) of the browser's largest tab."""
    sizes = [0.0]
    for one in psutil.Process().children(recursive=True):
        # processes of others end meanwhile
        with suppress(psutil.Error):
            if "--type=renderer" in one.cmdline():
                sizes.append(one.memory_full_info().uss / 1e6)
    return max(sizes)


def _used(bed: Bed) -> float:
    """Return the cores that the master and salt-api use within a minute."""
    asked = [one for one in psutil.process_iter(["cmdline"]) if str(bed.master.config_dir) in str(one.info["cmdline"])]

    def seconds() -> float:
        times = [one.cpu_times() for one in asked if one.is_running()]
        return sum(one.user + one.system for one in times)

    start, before = time.monotonic(), seconds()
    time.sleep(WINDOW_S)
    return (seconds() - before) / (time.monotonic() - start)


CONSOLE = Benchmark(
    name="console",
    about="the page in a Chromium with 10,000 minions and 60,000 packages",
    run=run,
    figures=(*VIEW.values(), ACTION, SCROLLED, MEMORY, SHIPPED, OPEN),
    minions=10_000,
    rounds=5,
    minutes=9,
    extensions=("console", "package-states", "query"),
)
