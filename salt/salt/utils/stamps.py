"""
Stamps of files and directories, by which one sees whether they have changed
"""

import os

# The clock that stamps files may be this much behind (FAT counts in steps of 2 s)
SETTLED_NS = 3 * 10**9


def stamp(path):
    """
    Return what changes whenever the file, or a name in the directory, does; None
    without either

    The mtime alone can be set to what it was, as tools do that unpack archives.
    """
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def unchanged(stamps):
    """
    Return whether nothing has changed since its stamp was taken

    :param dict stamps: The stamps by path
    """
    return all(stamp(path) == before for path, before in stamps.items())


def settled(stamps, now):
    """
    Return whether stamps can be trusted: a change within one tick of the clock that
    stamps files leaves no trace

    :param dict stamps: The stamps by path
    :param int now: When the first of them was taken, as ``time.time_ns()`` returns it
    """
    return all(
        before is None or max(before[3:]) < now - SETTLED_NS
        for before in stamps.values()
    )
