"""Package states: what compiling a fleet, saving one state, and a long status cost a master.

Stock Salt has nothing to be divided by, so the ratios are of what must not grow with the fleet: saving one minion's
state, against compiling all. Each time is that of the whole runner: queries, verdicts, files.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, interleave
from harness.database import sources
from harness.saltprocess.patched import patched

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.benchmark import Options
    from harness.database.sources import Database
    from harness.saltprocess.patched import Salt

ENTRIES, ROWS = 200, 10_000
WANTED = ("installed", "latest", "removed", "installed")
# puts minions' own states and their package lists into the tables
FLEET = """
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


def run(options: Options) -> dict[Figure, Samples]:
    """Compile `options.minions` minions, save one of their states, and ask for a long status, `rounds` times each."""
    with (
        TemporaryDirectory(prefix="saltbed-") as name,
        sources.served(Path(name)) as server,
        patched(Path(name)) as salt,
    ):
        database = sources.make(server, "states")
        root = Path(name) / "sls"
        keys = Path(name) / "pki" / "minions"
        keys.mkdir(parents=True)
        for number in range(1, options.minions + 2):
            (keys / f"minion-{number}").write_text("key")
        caller(salt, database, root)("setup")
        _fill(database, options.minions)
        found = _measure(salt, database, root, options)
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
    database.run(FLEET.format(minions=minions))
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


def caller(salt: Salt, database: Database, root: Path) -> Callable[..., tuple[float, Any]]:
    """Return what calls a function of the runner, and returns the seconds that it takes, and its result."""
    changes = {
        "postgres": database.server.salt_options(),
        "package_states": {"sls_root": str(root)},
        "pki_dir": str(root.with_name("pki")),
    }

    def call(function: str, **arguments: object) -> tuple[float, Any]:
        seconds, found = salt.process.run("run", changes, f"package_states.{function}", arguments)
        if "error" in found:
            raise BenchmarkError(f"package_states.{function} failed: {found['error']}")
        return seconds, found["result"]

    return call


def _measure(salt: Salt, database: Database, root: Path, options: Options) -> list[dict[str, float]]:
    """Return the seconds of each, turn by turn."""
    do = caller(salt, database, root)

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
    run=run,
    figures=(COMPILE, UNCHANGED, SAVE, SHARE, STATUS, SIZE),
    minions=1000,
    rounds=3,
    minutes=1,
)
