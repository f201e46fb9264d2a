"""Checks the subjects of commits: at most 72 characters, so that `git log --oneline` and a changelog can show them.

Example: `python tests/subjects.py [BASE]`; checks what came after BASE, else after the newest release tag,
else after the commit that added this check. Exit code 1 when a subject is too long.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 72
# evidence names the commits after it, so it is not reworded
PUBLISHED = frozenset({"f30cfb8ce798ad6c"})


def git(folder: Path, *words: str) -> list[str]:
    """Return the lines that git prints; raise SystemExit with its message when it fails."""
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout.splitlines()


def default_base(folder: Path) -> str:
    """Return the newest release tag, or the commit that added this file; empty when there is neither."""
    tags = git(folder, "tag", "--merged", "HEAD", "--sort=-creatordate")
    added = git(folder, "log", "--diff-filter=A", "--format=%H", "--", "tests/subjects.py")
    return next(iter([*tags, *added]), "")


def too_long(folder: Path, base: str) -> list[str]:
    """Return the commits after the base, or all of them, whose subject is too long, newest first."""
    span = [f"{base}..HEAD"] if base else ["HEAD"]
    lines = git(folder, "log", "--format=%H %h %s", *span, "--")
    found = []
    for line in lines:
        commit, _, rest = line.partition(" ")
        if len(rest.partition(" ")[2]) > LONGEST and commit[:16] not in PUBLISHED:
            found.append(rest)
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the subjects that are too long; return the exit code."""
    base = arguments[0] if arguments else default_base(ROOT)
    found = too_long(ROOT, base)
    for line in found:
        commit, _, subject = line.partition(" ")
        print(f"{commit}: the subject has {len(subject)} characters; shorten it to {LONGEST}: {subject}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
