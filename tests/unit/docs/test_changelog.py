"""The changelog: one entry for each release, named as its tag, newest first."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from patches.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = re.compile(r"(\d{4})\.(\d+)-(\d+)")


def headings(root: Path) -> list[str]:
    """Return the names of the entries, in their order."""
    return re.findall(r"^## (.*)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_releases_are_named_after_their_base(root: Path) -> None:
    """What is not released comes first, then the releases, newest first; none is newer than the pinned base."""
    first, *releases = headings(root)
    assert first == "Unreleased"
    assert all(map(RELEASE.fullmatch, releases))
    numbers = [tuple(map(int, RELEASE.findall(name)[0])) for name in releases]
    assert numbers == sorted(numbers, reverse=True)
    pinned = re.findall(r"==(\d+)\.(\d+)", Layout(root).pin.read_text())[0]
    assert all(number[:2] <= tuple(map(int, pinned)) for number in numbers)


def test_every_tag_has_an_entry(root: Path) -> None:
    """A release that is tagged is described."""
    done = subprocess.run(["git", "-C", str(root), "tag"], capture_output=True, text=True, check=True)
    tags = {tag for tag in done.stdout.split() if RELEASE.fullmatch(tag)}
    assert tags <= set(headings(root))
