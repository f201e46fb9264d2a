"""
The table of the minions that did not get a job, and why.
"""

import zlib

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
        # the dead minions of a large fleet are left out of each of its jobs
        db.execute(
            "INSERT INTO left_out (jid, since, sentences) VALUES (?, ?, ?)",
            (jid, now, zlib.compress(packed, 1)),
        )


def unpack(sentences):
    """
    Return the sentences of a row.

    :raises ValueError: if the row is damaged
    """
    try:
        return salt.payload.loads(zlib.decompress(sentences))
    except zlib.error as exc:
        raise ValueError(str(exc)) from exc


def of(db, jid):
    """
    Return the minions that did not get a job, and why.

    :param Connection db: the database of the journal
    :param str jid: the job id
    """
    ret = {}
    for (sentences,) in db.execute(
        "SELECT sentences FROM left_out WHERE jid = ? ORDER BY id", (jid,)
    ):
        ret.update(unpack(sentences))
    return ret
