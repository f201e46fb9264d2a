"""
The table of the minions that did not get a job, and why.
"""

import salt.payload


def add(db, jid, excluded, now):
    """
    Note which minions do not get a job.

    :param Connection db: the database of the journal
    :param str jid: the job id
    :param dict excluded: the sentence that says why, for each minion; or nothing
    """
    if excluded:
        packed = salt.payload.dumps(excluded, use_bin_type=True)
        db.execute(
            "INSERT INTO left_out (jid, since, sentences) VALUES (?, ?, ?)",
            (jid, now, packed),
        )


def of(db, jid):
    """
    Return the minions that did not get a job, and why.

    :param Connection db: the database of the journal
    :param str jid: the job id
    """
    ret = {}
    for (packed,) in db.execute(
        "SELECT sentences FROM left_out WHERE jid = ? ORDER BY id", (jid,)
    ):
        ret.update(salt.payload.loads(packed))
    return ret
