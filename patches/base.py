"""The base: which release of Salt the patches are for.

The pin is a line in pip's requirements format, so that pip itself verifies what it downloads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.errors import UsageError
from patches.layout import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from patches.layout import Layout

PIN = re.compile(r"^salt==(?P<version>[0-9][0-9A-Za-z.+!-]*)\s+--hash=sha256:(?P<sha256>[0-9a-f]{64})$")


@dataclass(frozen=True)
class Base:
    """A release of Salt, pinned by the SHA-256 of its source distribution."""

    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        """The line that pip reads with ``--require-hashes``."""
        return f"salt=={self.version} --hash=sha256:{self.sha256}"

    @property
    def sdist(self) -> str:
        """File name of the source distribution."""
        return f"salt-{self.version}.tar.gz"


def read_base(layout: Layout) -> Base:
    """Read the pin.

    :raises UsageError: when the file is missing or is not one pinned requirement.
    """
    return parse_base(layout.pin)


def parse_base(path: Path) -> Base:
    """Read a file that pins a release.

    :raises UsageError: when the file is missing or is not one pinned requirement.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: restore it with git, it pins the release of Salt.") from None
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    match = PIN.match(lines[0]) if len(lines) == 1 else None
    if match is None:
        raise UsageError(f"{path} must hold one line like 'salt==3008.5 --hash=sha256:<64 digits>'.")
    return Base(match["version"], match["sha256"])


def write_base(layout: Layout, base: Base) -> None:
    """Write the pin."""
    write_atomically(layout.pin, f"{base.requirement}\n".encode())
