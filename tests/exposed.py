"""Finds the secrets of a bed, and what another user of the machine could read of them."""

from __future__ import annotations

import contextlib
import re
import secrets as standard
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PROC = Path("/proc")
# of a session's leftovers only that is known which has a form of its own
FORMS = re.compile(
    rb"^-----BEGIN (?:RSA |EC )?PRIVATE KEY-----\n[A-Za-z0-9+/]{64}\n|^sharedsecret: *[0-9a-f]{32}", re.MULTILINE
)
# names of files whose whole content is a secret: keys of commands and of the master, and what minions have of it
KEY_FILES = re.compile(r"\..+_key|\.aes|.+\.pgpass|.+\.password|password|saltbed")
# folders each of whose files is one; a token is the name of its file as well
KEY_FOLDERS = ("sessions", "tokens")
SHORTEST = 12
# what of build/ comes from elsewhere: Salt's own tests have keys in them
PUBLIC = ("venv", "nox", "releases", "stock", "sdists", "wheels", "export", "keep", "fits", "pycache", "mypy")
# packages have keys for their own tests as well
PACKAGES = "site-packages"
WORKER = "drawn secrets"


def may_enter(folder: Path) -> bool:
    """Say whether other users may reach what lies in a folder: they need to pass it and all above it."""
    return all(place.stat().st_mode & stat.S_IXOTH for place in (folder, *folder.parents))


def readable(folder: Path) -> Iterator[Path]:
    """Yield the files at and below a folder that other users may read; a name may be known or guessed."""
    with contextlib.suppress(OSError):
        if folder.is_dir() and may_enter(folder.resolve()):
            yield from _readable(folder)
        elif folder.is_file() and not folder.is_symlink() and folder.stat().st_mode & stat.S_IROTH:
            yield folder


def _readable(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        # files come and go while a bed is at work
        with contextlib.suppress(OSError):
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                yield from _readable(path) if mode & stat.S_IXOTH else ()
            elif stat.S_ISREG(mode) and mode & stat.S_IROTH:
                yield path


def secrets(folders: Iterable[Path]) -> dict[bytes, str]:
    """Return the secrets in all files below the folders, each with where it was found."""
    found: dict[bytes, str] = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                with contextlib.suppress(OSError):
                    found |= dict.fromkeys(_of(path, path.read_bytes()), str(path))
    return found


def _of(path: Path, content: bytes) -> Iterator[bytes]:
    """Yield the secrets in one file."""
    if b"PRIVATE KEY-----" in content:
        # a line out of its middle
        yield content.splitlines()[5]
    if path.name == "master" and path.suffix == "":
        yield from (secret.encode() for secret in _configured(yaml.safe_load(content)))
    if path.parent.name in KEY_FOLDERS or KEY_FILES.fullmatch(path.name):
        names = [path.name.encode()] if path.parent.name == "tokens" else []
        yield from (text.strip() for text in (content, *names) if len(text.strip()) >= SHORTEST)


def _configured(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the secrets in a master's configuration."""
    if "sharedsecret" in options:
        yield str(options["sharedsecret"])
    if "postgres" in options:
        yield str(options["postgres"]["pass"])


def in_files(known: Mapping[bytes, str], files: Iterable[Path]) -> list[str]:
    """Return which of the files hold one of the known secrets, with where else that is."""
    found = []
    for path in files:
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            found += [f"{path} holds what is in {known[secret]}" for secret in known if secret in content]
    return found


def new(build: Path, temporary: Path, since: float) -> Iterator[Path]:
    """Yield the files that others may read and that came since a time into `build` or among temporary ones."""
    made = (path for path in build.iterdir() if path.name not in PUBLIC)
    for place in (*made, *temporary.iterdir()):
        with contextlib.suppress(OSError):
            if place.lstat().st_ctime >= since or place.parent == build:
                yield from (path for path in readable(place) if path.lstat().st_mtime >= since)


def in_command_lines(known: Mapping[bytes, str]) -> list[str]:
    """Return which processes have one of the known secrets in their command line, which everybody can read."""
    found = []
    for path in PROC.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes()
            found += [f"{path} holds what is in {known[secret]}" for secret in known if secret in line]
    return found


class Exposed:
    """A plugin of pytest: a session fails that leaves a secret in a file that other users may read.

    Which secrets the tests' own process has drawn is known. Those of other processes are found by their forms.
    """

    def __init__(self, build: Path, temporary: Path) -> None:
        """Take the folder of all that is made, and the one for temporary files."""
        self._build = build
        self._temporary = temporary
        self._drawn: set[str] = set()
        self._left: list[str] = []
        self._start = time.time()

    def pytest_sessionstart(self) -> None:
        """Note what is drawn from now on."""
        draw = standard.token_hex

        def noted(nbytes: int | None = None) -> str:
            found = draw(nbytes)
            self._drawn.add(found)
            return found

        standard.token_hex = noted

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker has drawn; one that was killed has told nothing."""
        self._drawn.update(getattr(node, "workeroutput", {}).get(WORKER, ()))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Look at what the session has left, or leave that to the controller."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[WORKER] = sorted(self._drawn)
            return
        known = {secret.encode() for secret in self._drawn}
        for path in new(self._build, self._temporary, self._start):
            with contextlib.suppress(OSError):
                content = path.read_bytes()
                ours = path.is_relative_to(self._build) and PACKAGES not in path.parts
                if (ours and FORMS.search(content)) or any(secret in content for secret in known):
                    self._left.append(str(path))
        if self._left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell which files hold a secret."""
        for path in self._left:
            terminalreporter.line(f"Every user of this machine may read {path}, which holds a secret of these tests.")
