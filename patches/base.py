"""The base: which release of Salt the patches are for.

The pin is a line in pip's requirements format, so that pip itself verifies what it downloads.

pip downloads it, because pip knows the user's index, proxy and certificates.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from patches.errors import FetchError, UsageError
from patches.layout import write_atomically

if TYPE_CHECKING:
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

    Raises:
        UsageError: when the file is missing or is not one pinned requirement.
    """
    return parse_base(layout.pin)


def parse_base(path: Path) -> Base:
    """Read a file that pins a release.

    Raises:
        UsageError: when the file is missing or is not one pinned requirement.
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


ATTEMPTS = 3
READABLE, EXECUTABLE = 0o644, 0o755


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch(layout: Layout, base: Base) -> Path:
    """Return the pinned source distribution, from the cache or from the index.

    Raises:
        FetchError: when it cannot be downloaded, or when its hash is another.
    """
    path = layout.sdists / base.sdist
    if path.exists() and digest(path) == base.sha256:
        return path
    return _download(layout, base.version, base.requirement, expected=base.sha256)


def learn(layout: Layout, version: str) -> Base:
    """Pin a release whose hash is not known yet: download it, or trust the copy in the cache.

    Raises:
        FetchError: when it cannot be downloaded.
    """
    path = layout.sdists / f"salt-{version}.tar.gz"
    if not path.exists():
        path = _download(layout, version, f"salt=={version}", expected=None)
    return Base(version, digest(path))


def unpack(layout: Layout, base: Base, target: Path) -> None:
    """Unpack the pinned source distribution into ``target``, which appears whole or not at all.

    Raises:
        FetchError: when the archive is not the pinned one, or is not laid out like one.
    """
    archive = fetch(layout, base)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
        with archive.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != base.sha256:
                raise FetchError(f"{archive} changed while it was read: delete it and try again.")
            stream.seek(0)
            with tarfile.open(fileobj=stream) as members:
                _extract(members, Path(name))
        top = Path(name) / f"salt-{base.version}"
        if not top.is_dir():
            raise FetchError(f"{archive} does not hold the folder salt-{base.version}: pin another release.")
        old = Path(name) / "old"
        if target.exists():
            os.replace(target, old)  # noqa: PTH105 - in the words of the system call
        os.replace(top, target)  # noqa: PTH105 - in the words of the system call


def _extract(archive: tarfile.TarFile, target: Path) -> None:
    """Unpack folders and regular files below ``target``, owned by the current user.

    The filter ``data`` of the standard library came with Python 3.11.4 and Debian 12 has 3.11.2, so what it promises
    is kept here for every Python: nothing outside of the folder, no links, no devices, no set-user-id.

    Raises:
        FetchError: when a member is anything else, or would land elsewhere.
    """
    members = archive.getmembers()
    for member in members:
        path = PurePosixPath(member.name)
        if not (member.isreg() or member.isdir()) or path.is_absolute() or ".." in path.parts:
            raise FetchError(
                f"The archive holds '{member.name}', which is no file or folder of Salt's: do not trust it."
            )
        # root would make the files belong to whoever packed them
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode = EXECUTABLE if member.isdir() or member.mode & stat.S_IXUSR else READABLE
    # the way that the documentation gives for Pythons with and without filters
    archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
    archive.extractall(target, members)  # noqa: S202 - checked above


def _download(layout: Layout, version: str, requirement: str, *, expected: str | None) -> Path:
    """Let pip download a release; a failed attempt is repeated, as an index may be briefly unavailable."""
    python = layout.python if layout.python.exists() else Path(sys.executable)
    layout.sdists.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.sdists, prefix=".download.") as name:
        folder = Path(name)
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{requirement}\n", encoding="utf-8")
        # pip builds the metadata of what it downloads, with the build requirements of the environment
        command = [str(python), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        command += ["--no-deps", "--no-build-isolation", "--no-binary", "salt", "--dest", name, "-r", str(wanted)]
        if expected is not None:
            command.append("--require-hashes")
        for _ in range(ATTEMPTS):
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode == 0:
                break
            if "DO NOT MATCH THE HASHES" in run.stderr:
                raise FetchError(
                    f"The index has another salt-{version}.tar.gz than {layout.pin} pins: do not trust it."
                )
        else:
            # pip's last line names the reason
            reason = (run.stderr.strip() or run.stdout.strip() or "no message").splitlines()[-1]
            raise FetchError(f"pip could not download salt=={version} in {ATTEMPTS} attempts: {reason}")
        got = folder / f"salt-{version}.tar.gz"
        if not got.exists():
            raise FetchError(f"pip downloaded something else than salt-{version}.tar.gz: check the version.")
        if expected is not None and digest(got) != expected:
            raise FetchError(f"salt-{version}.tar.gz has another SHA-256 than {layout.pin}: do not trust this index.")
        path = layout.sdists / got.name
        shutil.move(got, path)
    return path
