"""The command: write docs/results.md from the files of benchmarks and load runs.

Exit codes: 0 the page is written, or is as it should be; 1 `--check` found that it is not; 2 wrong use; 3 a file is
damaged or of another format, and the page was not touched; 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

try:
    from benchmarks.errors import BenchmarkError
    from benchmarks.registry import ALL
    from benchmarks.results import files, loads, page
    from evil_minions import pipe
    from harness.results import runs
except ModuleNotFoundError as error:
    if str(error.name).startswith(("benchmarks", "harness", "evil_minions")):
        raise
    print(f"results: {error.name} is missing: use `nox -s results`, which makes it.", file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = 1
CODES = (
    "exit codes: 0 the page is written, or as it should be; 1 --check found that it is not; 2 wrong use; 3 a file is "
    "damaged or of another format, and the page was not touched"
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nox -s results --",
        description="Write the page of results from the files of benchmarks and of load runs.",
        epilog=f"{CODES}\n\nexample: nox -s bench -- pillar && nox -s results",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bench", type=Path, default=Path("build/bench"), help="folder of NAME.json (build/bench)")
    parser.add_argument("--runs", type=Path, default=runs.FOLDER, help="folder of load runs (build/runs)")
    parser.add_argument("--output", type=Path, default=Path("docs/results.md"), help="the page (docs/results.md)")
    parser.add_argument("--check", action="store_true", help="write nothing; tell whether the page is as it should be")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    try:
        sections = [*loads.sections(options.runs), *files.sections(options.bench, ALL)]
    except BenchmarkError as error:
        print(f"results: {error}", file=sys.stderr)
        return error.exit_code
    before = options.output.read_text(encoding="utf-8") if options.output.is_file() else None
    text = page.write(sections, before or "")
    if before != text and not options.check:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text, encoding="utf-8")
    rows = [row for section in sections for row in section.rows]
    missing = [section.name for section in sections if all(row.source is None for row in section.rows)]
    if options.json:
        told = [
            {"section": section.name, "figures": [{**dataclasses.asdict(row), "met": row.met} for row in section.rows]}
            for section in sections
        ]
        print(json.dumps({"format": FORMAT, "changed": before != text, "sections": told}, indent=1))
    else:
        state = "as it was" if before == text else "not as it should be" if options.check else "written"
        measured = sum(row.source is not None for row in rows)
        print(f"{options.output}: {state}; {measured} of {len(rows)} figures measured")
        if missing:
            print(f"not measured: {', '.join(missing)}")
    return 1 if options.check and before != text else 0


if __name__ == "__main__":
    sys.exit(pipe.run(main))
