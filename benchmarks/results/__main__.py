"""The command: write docs/results.md, and the figures in the other pages, from the files in docs/evidence.

Exit codes: 0 the pages are written, or are as they should be; 1 `--check` found that they are not; 2 wrong use; 3 a
file is damaged or of another format, or a page names a figure that is none, and no page was touched; 141 nobody reads
the output.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

try:
    from benchmarks.benchmark import BenchmarkError
    from benchmarks.results import evidence, page
    from benchmarks.results.evidence import collect
    from benchmarks.results.subjects import subjects
    from evil_minions import pipe
    from harness.paths import TREES
    from harness.results import runs, trees
except ModuleNotFoundError as error:
    if str(error.name).startswith(("benchmarks", "harness", "evil_minions")):
        raise
    print(f"results: {error.name} is missing: use `nox -s results`, which makes it.", file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results.page import Section

FORMAT = 2
CODES = (
    "exit codes: 0 the pages are written, or as they should be; 1 --check found that they are not; 2 wrong use; 3 a "
    "file is damaged or of another format, or a page names a figure that is none, and no page was touched"
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nox -s results --",
        description="Write docs/results.md, and the figures in the other pages, from the files in docs/evidence.",
        epilog=f"{CODES}\n\nexample: nox -s bench -- pillar && nox -s results -- --collect",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--collect", action="store_true", help="first copy what was measured since to docs/evidence")
    parser.add_argument("--bench", type=Path, default=Path("build/bench"), help="folder of NAME.json (build/bench)")
    parser.add_argument("--runs", type=Path, default=runs.FOLDER, help="folder of load runs (build/runs)")
    parser.add_argument(
        "--docs", type=Path, default=Path("docs"), help="folder of the pages, README.md beside it (docs)"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; tell whether the pages are as they should be"
    )
    parser.add_argument("--json", action="store_true", help="print what changed and what is not measured as JSON")
    return parser


def code() -> dict[str, str]:
    """Return the hash of each tree as it is now."""
    return {name: trees.content_hash(folder) for name, folder in TREES.items()}


def pages(docs: Path, sections: Sequence[Section]) -> dict[Path, str]:
    """Return each page as it should be: the one of results, and those that have a marker.

    Raises UnknownFigure if a marker names no figure.
    """
    output = docs / "results.md"
    others = [path for path in (docs.parent / "README.md", *sorted(docs.glob("*.md"))) if path != output]
    texts = {path: path.read_text(encoding="utf-8") for path in others if path.is_file()}
    filled = {path: page.fill(text, sections) for path, text in texts.items() if page.MARKER.search(text)}
    return {output: page.write(sections), **filled}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    try:
        if options.collect and not options.check:
            collect(options.bench, options.runs, options.docs / "evidence")
        sections = evidence.sections(options.docs / "evidence", subjects(), code())
        found = pages(options.docs, sections)
    except BenchmarkError as error:
        print(f"results: {error}", file=sys.stderr)
        return error.exit_code
    changed = {path: text for path, text in found.items() if not path.is_file() or path.read_text("utf-8") != text}
    if not options.check:
        for path, text in changed.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    missing = [section.subject.name for section in sections if section.source is None]
    if options.json:
        print(json.dumps({"format": FORMAT, "changed": [str(path) for path in changed], "not_measured": missing}))
    else:
        state = "not as it should be" if options.check else "written"
        print("\n".join(f"{path}: {state}" for path in changed) or f"{options.docs}: as it was")
        if missing:
            print(f"not measured: {', '.join(missing)}")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(pipe.run(main))
