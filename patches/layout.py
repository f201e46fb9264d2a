"""Where everything lies below the project's root.

One place for names, so that every command works as well on a copy of the project (``--root``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
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

    Args:
        name: the lock's file, below `build/`; another one than the tree's for what leaves the tree alone.
        patience: seconds to wait for another command to end.

    Raises:
        BusyError: when it did not end in time.
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


class Layout:
    """The folders and files of one checkout of the project."""

    def __init__(self, root: Path) -> None:
        """Name everything below the project's root; nothing is made."""
        self.root = root
        #: folder of the committed patches
        self.patches = root / "patches"
        #: the base's version and hash, in pip's requirements format
        self.pin = self.patches / "base.txt"
        #: the topics, in the order in which they apply
        self.series = self.patches / "series"
        #: folder of the series that are kept for other releases than the base, a folder for each
        self.releases = self.patches / "releases"
        #: the patched tree
        self.salt = root / "salt"
        #: the Salt extensions, a folder for each
        self.extensions = self.salt / EXTENSIONS
        #: everything that can be made again
        self.build = root / "build"
        #: the extensions as they are installed
        self.wheels = self.build / "wheels"
        #: downloaded source distributions
        self.sdists = self.build / "sdists"
        #: the pristine base, for comparison runs
        self.stock = self.build / "stock"
        #: the second git directory, whose work tree is ``salt/``
        self.git_dir = self.build / "salt.git"
        #: what the tree was last made from
        self.state = self.git_dir / "saltbed.json"
        #: where edits go that the user asked to drop
        self.discarded = self.build / "discarded"
        #: the environment's interpreter, whose pip downloads and whose pytest runs upstream's tests
        self.python = self.build / "venv" / "bin" / "python"

    def carrying(self, command: str) -> Path:
        """Name the work tree in which `bump` or `keep` carries topics over to another release."""
        return self.build / command

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
