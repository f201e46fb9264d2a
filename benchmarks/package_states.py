"""Package states: what compiling a fleet, saving one state, a status, and questions of a large fleet cost a master.

Stock Salt has nothing to be divided by, so the ratios are of what must not grow with the fleet: saving one minion's
state, against compiling all. Each time is that of the whole runner: queries, verdicts, files.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from harness.database import sources
from harness.saltprocess.patched import patched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.benchmark import Options
    from harness.database.sources import Database

    # calls a function of the runner, and returns the seconds that it takes, and its result
    Call = Callable[..., tuple[float, Any]]

ENTRIES, ROWS = 200, 10_000
WANTED = ("installed", "latest", "removed", "installed")
# puts minions' own states and their package lists into the tables
STATES = """
INSERT INTO package_states.state (name, own) SELECT 'minion-' || n, TRUE FROM generate_series(1, {minions} + 1) AS n;
INSERT INTO package_states.package_list SELECT name, 'apt', 'x', '{{}}' FROM package_states.state;
"""


COMPILE = Figure("compile", f"compile {{minions}} minions of {ENTRIES} entries", "s")
UNCHANGED = Figure("compile-unchanged", "the same again, nothing changed", "s")
SAVE = Figure("save", "save one minion's state", "s")
SHARE = Figure("save-share", "save one minion's state / compile all", "x")
STATUS = Figure("status", f"a status of {ROWS:,} rows", "s")
SIZE = Figure("size", "files of {minions} minions", "MB")
MEASURED = {"compile": COMPILE, "compile_unchanged": UNCHANGED, "save": SAVE, "status": STATUS}


@contextmanager
def _runner(name: str, minions: int) -> Iterator[tuple[Call, Database, Path]]:
    """Yield what calls the runner with the keys of so many minions, its database, and the folder of its files."""
    with (
        TemporaryDirectory(prefix="saltbed-") as folder,
        sources.served(Path(folder)) as server,
        patched(Path(folder)) as salt,
    ):
        keys = Path(folder) / "pki" / "minions"
        keys.mkdir(parents=True)
        for number in range(1, minions + 1):
            (keys / f"minion-{number}").write_text("key")
        database, root = sources.make(server, name), Path(folder) / "sls"
        changes = {
            "postgres": database.server.salt_options(),
            "package_states": {"sls_root": str(root)},
            "pki_dir": str(keys.parent),
        }

        def call(function: str, **arguments: object) -> tuple[float, Any]:
            seconds, found = salt.process.run("run", changes, f"package_states.{function}", arguments)
            if "error" in found:
                raise BenchmarkError(f"package_states.{function} failed: {found['error']}")
            return seconds, found["result"]

        call("setup")
        yield call, database, root


def run_states(options: Options) -> dict[Figure, Samples]:
    """Compile `options.minions` minions, save one of their states, and ask for a long status, `rounds` times each."""
    with _runner("states", options.minions + 1) as (do, database, root):
        _fill(database, options.minions)
        found = _measure(do, root, options)
        size = sum(path.stat().st_size for path in root.rglob("*.sls"))
    return {
        **{figure: Samples([turn[name] for turn in found]) for name, figure in MEASURED.items()},
        SHARE: Samples([turn["save"] / turn["compile"] for turn in found]),
        SIZE: Samples([size / 1e6]),
    }


def _entries(minion: int, count: int) -> list[dict[str, str]]:
    """Return entries that no other minion has: versions differ."""
    found = []
    for number in range(count):
        entry = {"package": f"package-{number:05d}", "wanted": WANTED[number % len(WANTED)]}
        if entry["wanted"] == "installed":
            entry["version"] = f">=1.{minion}-{number},<2.{number}"
        found.append(entry)
    return found


def _fill(database: Database, minions: int) -> None:
    """Give each minion its own state; the last one has many entries, and has sent as many packages."""
    database.run(STATES.format(minions=minions))
    columns = "state_id, number, contents, author, items"
    insert = f"INSERT INTO package_states.revision ({columns}) VALUES (%s, 1, 1, 'x', %s::jsonb)"  # noqa: S608 - ours
    for minion in range(1, minions + 1):
        database.run(insert, minion, json.dumps(_entries(minion, ENTRIES)))
    database.run(insert, minions + 1, json.dumps(_entries(1, ROWS)))
    there = {
        f"package-{number:05d}": {"versions": [f"1.5-{number}"], "available": ["1.0", f"1.5-{number}", "3.0"]}
        for number in range(ROWS)
    }
    update = "UPDATE package_states.package_list SET packages = %s::jsonb WHERE minion_id = %s"
    database.run(update, json.dumps(there), f"minion-{minions + 1}")


def _measure(do: Call, root: Path, options: Options) -> list[dict[str, float]]:
    """Return the seconds of each, turn by turn."""

    def turn(number: int) -> dict[str, float]:
        samples = {}
        for path in root.rglob("packages-*.sls"):
            path.unlink()
        for key in ("compile", "compile_unchanged"):
            seconds, found = do("refresh")
            expected = options.minions + 1 if key == "compile" else 0
            if found["errors"] or len(found["files"]) != expected:
                raise BenchmarkError(f"{key} wrote {len(found['files'])} files instead of {expected}.")
            samples[key] = seconds
        seconds, found = do("set", name="minion-1", package="one-more", wanted="installed", version=f"1.{number}")
        if found["files"] != ["minion-1"]:
            raise BenchmarkError(f"saving the state of minion-1 wrote {found['files']}.")
        samples["save"] = seconds
        seconds, found = do("status", minion=f"minion-{options.minions + 1}", table=False)
        if len(found["rows"]) != ROWS:
            raise BenchmarkError(f"the status has {len(found['rows'])} rows instead of {ROWS}.")
        samples["status"] = seconds
        return samples

    return interleave({"ours": turn}, options)["ours"]


PACKAGE_STATES = Benchmark(
    name="package-states",
    about="compiling 1,000 minions of 200 entries, saving one, a long status",
    run=run_states,
    figures=(COMPILE, UNCHANGED, SAVE, SHARE, STATUS, SIZE),
    minions=1000,
    rounds=3,
    minutes=1,
    extensions=("package-states",),
)


# --- a large fleet -----------------------------------------------------------------------------------------------
#
# A third of the minions drifts, and all have sent the same two repositories, one of which is as large as Debian's.

OFFERED = 60_000
# minions with fifty packages and what became of them, and what their repositories have
FLEET = """
INSERT INTO package_states.package_list (minion_id, platform, digest, packages, security)
  SELECT 'minion-' || n, 'apt', 'x',
         (SELECT jsonb_object_agg('package-' || p, jsonb_build_object('versions', jsonb_build_array('1.' || p)))
            FROM generate_series(1, 50) AS p), '{{"package-7": ["2.0"]}}'
    FROM generate_series(1, {minions}) AS n;
INSERT INTO package_states.minion_status (minion_id, managed, drifted)
  SELECT 'minion-' || n, 50, CASE WHEN n % 3 = 0 THEN 1 ELSE 0 END FROM generate_series(1, {minions}) AS n;
INSERT INTO package_states.repository (digest, name, platform)
  VALUES ('{main}', 'main', 'apt'), ('{more}', 'more', 'apt');
INSERT INTO package_states.offer
  SELECT '{main}', 'package-' || n, ARRAY['1.' || n] FROM generate_series(1, {offered}) AS n;
INSERT INTO package_states.offer
  SELECT '{more}', 'package-' || n, ARRAY['2.' || n] FROM generate_series(1, 1000) AS n;
INSERT INTO package_states.minion_repository
  SELECT 'minion-' || n, r.digest, r.name FROM generate_series(1, {minions}) AS n, package_states.repository AS r;
ANALYZE;
"""

FLEET_STATUS = Figure("status", "status of {minions} minions, on one page", "s", aim=at_most(1))
FLEET_SIZE = Figure("status-size", "the same as JSON", "MB", aim=at_most(5))
PAGE = Figure("status-page", "counts of {minions} minions, and a page of 100", "s")
WHO = Figure("who", "who of {minions} minions has a package, a page of 100", "s")
AVAILABLE = Figure("available", f"a search in {OFFERED:,} packages for {{minions}} minions", "s")
# function, arguments, and the name of the list that is checked with its length
FLEET_CALLS: dict[Figure, tuple[str, dict[str, Any], str, int]] = {
    FLEET_STATUS: ("status", {"table": False, "size": 10_000}, "minions", 10_000),
    PAGE: ("status", {"table": False, "only": "drifting"}, "minions", 100),
    WHO: ("where", {"package": "package-7"}, "minions", 100),
    AVAILABLE: ("available", {"search": "*9*"}, "packages", 100),
}


def run_fleet(options: Options) -> dict[Figure, Samples]:
    """Ask for each of them in turn; raises BenchmarkError when an answer is not of all minions."""
    with _runner("fleet", options.minions) as (do, database, _):

        def turn(_: int) -> dict[Figure, float]:
            samples = {}
            for figure, (function, arguments, rows, most) in FLEET_CALLS.items():
                seconds, found = do(function, **arguments)
                expected = min(most, options.minions // (3 if "only" in arguments else 1))
                if rows != "packages" and len(found[rows]) != expected:
                    raise BenchmarkError(f"{figure.key} has {len(found[rows])} rows of {options.minions} minions.")
                samples[figure] = seconds
                if figure is FLEET_STATUS:
                    samples[FLEET_SIZE] = len(json.dumps(found)) / 1e6
            return samples

        database.alone(FLEET.format(minions=options.minions, offered=OFFERED, main="a" * 64, more="b" * 64))
        turns = interleave({"ours": turn}, options, warm=1)["ours"]
    return {figure: Samples([one[figure] for one in turns]) for figure in FLEET_FIGURES}


FLEET_FIGURES = (FLEET_STATUS, FLEET_SIZE, PAGE, WHO, AVAILABLE)
PACKAGE_FLEET = Benchmark(
    name="package-fleet",
    about="status, who and available of 10,000 minions with package states",
    run=run_fleet,
    figures=FLEET_FIGURES,
    minions=10_000,
    rounds=5,
    minutes=1,
    extensions=("package-states",),
)
