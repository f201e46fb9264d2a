"""The checkout as a page's reader has it: what nox has set up is on PATH, and files of the reader's stay out of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.live.helpers.docs_shell import BASH, Shell


class Checkout:
    """A folder that looks like the checkout; see `docs_walk.Place`. What its commands make lies below `build/`."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Take the checkout and an empty folder."""
        self.folder = folder
        for entry in root.iterdir():
            (folder / entry.name).symlink_to(entry)

    def shell(self) -> Shell:
        """Return a terminal in the folder."""
        here = Path(sys.executable).parent
        return Shell(BASH, {**os.environ, "PATH": f"{here}:{os.environ['PATH']}"}, self.folder)

    def write(self, path: str, text: str) -> None:
        """Write a file of the reader's; raise AssertionError if it would change the checkout."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        assert place.parent.resolve().is_relative_to(self.folder.resolve()), f"{path} is no file of the reader's"
        place.write_text(text, encoding="utf-8")
