"""One command at a time on a tree.

Two nox sessions may both want the tree made; the second waits for the first and then finds nothing to do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from patches.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patches.layout import Layout

TREE = "patches.lock"
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
