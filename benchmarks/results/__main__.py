"""The command: write docs/results.md, and the figures in the other pages, from the files in docs/evidence.

Exit codes: 0 the pages are written, or are as they should be; 2 wrong use; 3 a file is damaged or of another format, or
a page names a figure that is none, and no page was touched; 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from benchmarks.benchmark import BenchmarkError
    from benchmarks.registry import subjects
    from benchmarks.results import evidence, page
    from benchmarks.results.evidence import collect
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

CODES = (
    "exit codes: 0 the pages are written, or as they should be; 2 wrong use; 3 a file is damaged or of another format, "
    "or a page names a figure that is none, and no page was touched"
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
    return parser


def code() -> dict[str, dict[str, Any]]:
    """Return the hashes of each tree as it is now."""
    return {name: trees.hashes(folder) for name, folder in TREES.items()}


def pages(docs: Path, sections: Sequence[Section]) -> dict[Path, str]:
    """Return each page as it should be: the one of results, and those that have a marker.

    Raises:
        BenchmarkError: if a marker names no figure.
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
        if options.collect:
            collect(options.bench, options.runs, options.docs / "evidence")
        sections = evidence.sections(options.docs / "evidence", subjects(), code())
        found = pages(options.docs, sections)
    except BenchmarkError as error:
        print(f"results: {error}", file=sys.stderr)
        return error.exit_code
    changed = {path: text for path, text in found.items() if not path.is_file() or path.read_text("utf-8") != text}
    for path, text in changed.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    missing = [section.subject.name for section in sections if section.source is None]
    print("\n".join(f"{path}: written" for path in changed) or f"{options.docs}: as it was")
    if missing:
        print(f"not measured: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(pipe.run(main))
