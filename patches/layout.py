"""Where everything lies below the project's root.

One place for names, so that every command works as well on a copy of the project (``--root``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TREE = "patches.state"


PATIENCE_S = 120.0


PAUSE_S = 0.05


@contextlib.contextmanager
def locked(
    layout: Layout,
    name: str = TREE,
    *,
    patience: float = PATIENCE_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Hold a lock, by default the tree's; the kernel lets go of it when the process ends, however it ends.

    A git command that we started holds it as well: if we are killed, it may outlive us and still be at work.

    :param name: the lock's file, below `build/`; another one than the tree's for what leaves the tree alone.
    :param patience: seconds to wait for another command to end.
    :raises BusyError: when it did not end in time.
    """
    layout.build.mkdir(parents=True, exist_ok=True)
    path = layout.build / name
    deadline = clock() + patience
    with path.open("a") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock() >= deadline:
                    raise BusyError(f"Another patches command holds {path}: let it end, then try again.") from None
                pause(PAUSE_S)
        os.set_inheritable(stream.fileno(), True)
        yield


#: Folder below ``salt/`` of what is installed beside Salt and goes into no patch.
EXTENSIONS = "extensions"


@dataclass(frozen=True)
class Layout:
    """The folders and files of one checkout of the project."""

    root: Path

    @property
    def patches(self) -> Path:
        """Folder of the committed patches."""
        return self.root / "patches"

    @property
    def pin(self) -> Path:
        """The base's version and hash, in pip's requirements format."""
        return self.patches / "base.txt"

    @property
    def series(self) -> Path:
        """The topics, in the order in which they apply."""
        return self.patches / "series"

    @property
    def releases(self) -> Path:
        """Folder of the series that are kept for other releases than the base, a folder for each."""
        return self.patches / "releases"

    @property
    def salt(self) -> Path:
        """The patched tree."""
        return self.root / "salt"

    @property
    def extensions(self) -> Path:
        """The Salt extensions, a folder for each."""
        return self.salt / EXTENSIONS

    @property
    def wheels(self) -> Path:
        """The extensions as they are installed."""
        return self.build / "wheels"

    @property
    def build(self) -> Path:
        """Everything that can be made again."""
        return self.root / "build"

    @property
    def sdists(self) -> Path:
        """Downloaded source distributions."""
        return self.build / "sdists"

    @property
    def stock(self) -> Path:
        """The pristine base, for comparison runs."""
        return self.build / "stock"

    @property
    def git_dir(self) -> Path:
        """The second git directory, whose work tree is ``salt/``."""
        return self.build / "salt.git"

    @property
    def state(self) -> Path:
        """What the tree was last made from."""
        return self.git_dir / "saltbed.json"

    @property
    def discarded(self) -> Path:
        """Where edits go that the user asked to drop."""
        return self.build / "discarded"

    @property
    def bump(self) -> Path:
        """Work tree of a bump that stopped at a conflict and was told to stay."""
        return self.build / "bump"

    @property
    def keeping(self) -> Path:
        """Work tree in which topics are carried over to a release that a series is kept for."""
        return self.build / "keep"

    @property
    def python(self) -> Path:
        """The environment's interpreter, whose pip downloads and whose pytest runs upstream's tests."""
        return self.build / "venv" / "bin" / "python"

    def patch(self, topic: str) -> Path:
        """Name the file of a topic's patch."""
        return self.patches / f"{topic}.patch"


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file as a whole, or not at all when interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        os.chmod(name, 0o644)  # noqa: PTH101 - mkstemp gives a name, and makes it private
        os.replace(name, path)  # noqa: PTH105 - in the words of the system call
    except BaseException:
        os.unlink(name)  # noqa: PTH108 - in the words of the system call
        raise
