"""Package states of a large fleet: the status of all minions, who has a package, and what there is for a group.

Each time is that of the whole runner. A third of the minions drifts, and all have told of the same two repositories,
one of which is as large as Debian's.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from benchmarks.package_states import caller
from harness.database import sources
from harness.saltprocess.patched import patched

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

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

STATUS = Figure("status", "status of {minions} minions, on one page", "s", aim=at_most(1))
SIZE = Figure("status-size", "the same as JSON", "MB", aim=at_most(5))
PAGE = Figure("status-page", "counts of {minions} minions, and a page of 100", "s")
WHO = Figure("who", "who of {minions} minions has a package, a page of 100", "s")
AVAILABLE = Figure("available", f"a search in {OFFERED:,} packages for {{minions}} minions", "s")
# function, arguments, and the name of the list that is checked with its length
CALLS: dict[Figure, tuple[str, dict[str, Any], str, int]] = {
    STATUS: ("status", {"table": False, "size": 10_000}, "minions", 10_000),
    PAGE: ("status", {"table": False, "only": "drifting"}, "minions", 100),
    WHO: ("where", {"package": "package-7"}, "minions", 100),
    AVAILABLE: ("available", {"search": "*9*"}, "packages", 100),
}


def run(options: Options) -> dict[Figure, Samples]:
    """Ask for each of them in turn; raises BenchmarkError when an answer is not of all minions."""
    with (
        TemporaryDirectory(prefix="saltbed-") as name,
        sources.served(Path(name)) as server,
        patched(Path(name)) as salt,
    ):
        database = sources.make(server, "fleet")
        keys = Path(name) / "pki" / "minions"
        keys.mkdir(parents=True)
        for number in range(1, options.minions + 1):
            (keys / f"minion-{number}").write_text("key")
        do = caller(salt, database, Path(name) / "sls")

        def turn(_: int) -> dict[Figure, float]:
            samples = {}
            for figure, (function, arguments, rows, most) in CALLS.items():
                seconds, found = do(function, **arguments)
                if (
                    len(found[rows]) != min(most, options.minions // (3 if "only" in arguments else 1))
                    and rows != "packages"
                ):
                    raise BenchmarkError(f"{figure.key} has {len(found[rows])} rows of {options.minions} minions.")
                samples[figure] = seconds
                if figure is STATUS:
                    samples[SIZE] = len(json.dumps(found)) / 1e6
            return samples

        do("setup")
        text = FLEET.format(minions=options.minions, offered=OFFERED, main="a" * 64, more="b" * 64)
        database.alone(text)
        turns = interleave({"ours": turn}, options, warm=1)["ours"]
    return {figure: Samples([one[figure] for one in turns]) for figure in FIGURES}


FIGURES = (STATUS, SIZE, PAGE, WHO, AVAILABLE)
PACKAGE_FLEET = Benchmark(
    name="package-fleet",
    about="status, who and available of 10,000 minions with package states",
    run=run,
    figures=FIGURES,
    minions=10_000,
    rounds=5,
    minutes=1,
)
