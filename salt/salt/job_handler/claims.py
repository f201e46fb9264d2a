"""
Who publishes a job when the master's worker and the job handler lose sight of each
other: both, one or none might otherwise.

A worker that gets no reply in time publishes by itself (``fail_mode: open``), but the
job handler may have the request already, or get it later, for a stopped process goes
on some day. Whoever creates the file of a submission first publishes it. The job
handler creates it after the job is safe and before it replies, so a worker that finds
the file there may count on the job.
"""

import os
import time

import salt.job_handler.database

HANDLER = "handler"
WORKER = "worker"

#: How long the claim of a submission is kept, in seconds. Longer than any worker waits.
KEEP_SECONDS = 3600


def folder(opts):
    """
    Return the folder of everything that the job handler keeps.
    """
    return os.path.join(opts["cachedir"], "job_handler")


def prepare(opts):
    """
    Make the folder of the claims, or see to it that only the user of this process may
    open it.

    :raises SystemExit: if it belongs to somebody else, or is a link
    """
    salt.job_handler.database.private(os.path.dirname(_path(opts, "x")))


def _path(opts, submission):
    return os.path.join(folder(opts), "claims", submission)


def claim(opts, submission, owner):
    """
    Claim a submission. A symbolic link is made in one step with what it says.

    :param str owner: HANDLER or WORKER
    :return: whether it is this owner's, now or since before
    """
    path = _path(opts, submission)
    for _ in range(2):
        try:
            os.symlink(owner, path)
            return True
        except FileExistsError:
            return os.readlink(path) == owner
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return False


def drop(opts, submission):
    """
    Remove the claim of a submission that both sides are done with.
    """
    try:
        os.unlink(_path(opts, submission))
    except FileNotFoundError:
        pass


def clean(opts):
    """
    Remove old claims that neither side came back for.
    """
    before = time.time() - KEEP_SECONDS
    try:
        with os.scandir(os.path.dirname(_path(opts, "x"))) as entries:
            old = [
                entry.name
                for entry in entries
                if entry.stat(follow_symlinks=False).st_mtime < before
            ]
    except FileNotFoundError:
        return
    for submission in old:
        drop(opts, submission)
