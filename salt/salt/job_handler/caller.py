"""
Whether the process that waits for a job still runs.

A caller is named by the id of its process and the moment at which that was started, in
ticks of the kernel: the id alone may belong to another process later, and the time of
day may be set. Where the system has no ``/proc`` nobody is followed.
"""

import os

import salt.utils.files

#: Fields of ``/proc/<pid>/stat`` after the name of the process, see proc(5).
_STATE = 0
_STARTED = 19

#: It has ended, and its parent has not looked yet.
_ENDED = (b"Z", b"X", b"x")


def me():
    """
    Return the name of this process, or None if the system does not tell.
    """
    pid = os.getpid()
    started = _started(pid)
    return None if started is None else [pid, started]


def runs(caller):
    """
    Return whether a process runs on this machine.

    :param list caller: what :func:`me` returned there
    """
    pid, started = caller
    return _started(pid) == started


def _started(pid):
    try:
        with salt.utils.files.fopen(f"/proc/{pid:d}/stat", "rb") as handle:
            # the name may hold blanks and parentheses
            fields = handle.read().rpartition(b")")[2].split()
        return None if fields[_STATE] in _ENDED else int(fields[_STARTED])
    except (OSError, IndexError, ValueError):
        return None
