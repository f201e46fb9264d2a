"""
What an earlier job handler has left where it is turned off now. Nothing of it is published
any more, not even if it is turned on again some day: each job ends, with a reason.
"""

import logging
import os
import sqlite3
import time

import salt.job_handler.claims
import salt.job_handler.database
import salt.job_handler.journal
import salt.job_handler.left_out
import salt.job_handler.vocabulary as vocabulary

log = logging.getLogger(__name__)


def _path(opts):
    return os.path.join(
        salt.job_handler.claims.folder(opts), salt.job_handler.database.NAME
    )


def settle(opts):
    """
    End the jobs that wait and forget what is charged.

    :param dict opts: the master's options
    :return: how many jobs waited
    """
    if not os.path.exists(_path(opts)):
        return 0
    try:
        journal = salt.job_handler.journal.Journal(salt.job_handler.claims.folder(opts))
    except SystemExit as exc:
        # it is off, so the master starts without it
        log.error("%s", exc)
        return 0
    except (OSError, sqlite3.Error):
        log.exception("What waited in the job handler's queue can't be read")
        return 0
    try:
        return _settle(journal)
    except (OSError, sqlite3.Error):
        log.exception("What waited in the job handler's queue could not be ended")
        return 0
    finally:
        journal.close()


def _settle(journal):
    sentence = vocabulary.SENTENCES[vocabulary.OFF]
    jobs = [job for _, job in journal.jobs()]
    for job in jobs:
        excluded = dict.fromkeys(journal.minions_of(job), sentence)
        log.warning(
            "Job %s is not published to %d minions: %s",
            job.jid,
            len(excluded),
            sentence,
        )
        journal.remove(job, excluded, time.time())
    with journal.writing():
        for table in ("waves", "returns"):
            journal.db.execute(f"DELETE FROM {table}")
    for name in ("orders", "silent"):
        journal.put_snapshot(name, None)
    return len(jobs)


def left_out(opts, jid):
    """
    Return the minions that did not get a job when there was a job handler, and why.

    :param dict opts: the master's options
    :param str jid: the job id
    """
    if not os.path.exists(_path(opts)):
        return {}
    try:
        db = sqlite3.connect(f"file:{_path(opts)}?mode=ro", uri=True)
        try:
            return salt.job_handler.left_out.of(db, jid)
        finally:
            db.close()
    except sqlite3.Error as exc:
        log.info("It can't be read who was left out of job %s: %s", jid, exc)
        return {}
