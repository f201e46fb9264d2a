"""
The journal: the jobs that were accepted, the waves that went out, what has come back of
these, and which publish requests have been answered. All that has to survive a crash is
here, and recovery only reads it.

A wave is :data:`WRITTEN <salt.job_handler.vocabulary.WRITTEN>` before it is published and
becomes :data:`SENT <salt.job_handler.vocabulary.SENT>` when it has been. One that is still
written after a crash may have been published or not; it is published again, under the same
job id, and minions drop what they have got already. So a job is neither lost nor executed
twice. What a minion has given back is a row of ``returns``.
"""

import hashlib

import salt.job_handler.database
import salt.job_handler.job
import salt.job_handler.left_out
import salt.job_handler.vocabulary
import salt.payload


class Journal(salt.job_handler.database.Database):
    """
    What the job handler has to remember, in one database.
    """

    def read(self):
        """
        Read everything once: what is whole for SQLite may make no sense all the same.
        """
        for job in self.jobs():
            self.minions_of(job[1])
            self.load_of(job[1])
        self.waves()

    # ------------------------------------------------------------------
    # Jobs
    # ------------------------------------------------------------------

    def add(self, submission, job, ids, load):
        """
        Keep a job that is accepted, and set its number.

        :param str submission: names the submission; the same one is kept once
        :param bytes ids: the sorted ids of its minions, packed with msgpack
        :param dict load: what they get
        :return: whether it is a new one
        """
        with self.writing():
            new = self._insert(submission, job, ids, load, job.count)
        return new

    def _insert(self, submission, job, ids, load, count):
        """
        Insert a job that waits for so many minions, with a new number if it has none.
        """
        info = salt.payload.dumps(
            {
                "fun": job.fun,
                "user": job.user,
                "sync": job.sync,
                "deadline": job.deadline,
                "queued": job.queued,
                "forced": job.forced,
                "fixed": job.fixed,
                "ticket": job.ticket,
                "caller": job.caller,
            },
            use_bin_type=True,
        )
        digest = hashlib.blake2b(ids, digest_size=16).digest()
        self.db.execute("INSERT OR IGNORE INTO targets VALUES (?, ?)", (digest, ids))
        cursor = self.db.execute(
            "INSERT OR IGNORE INTO jobs"
            " (seq, submission, jid, digest, count, waves, info)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (job.seq, submission, job.jid, digest, count, job.waves, info),
        )
        if not cursor.rowcount:
            return False
        job.seq, job.ref = cursor.lastrowid, digest
        job.bytes = self._put_load(job.seq, load)
        return True

    def _put_load(self, seq, load):
        packed = salt.payload.dumps(load, use_bin_type=True)
        self.db.execute("INSERT OR REPLACE INTO loads VALUES (?, ?)", (seq, packed))
        return len(packed)

    def load_of(self, job):
        """
        Return what the minions of a job get. It may be large, so nobody keeps it.
        """
        row = self.db.execute(
            "SELECT load FROM loads WHERE seq = ?", (job.seq,)
        ).fetchone()
        return salt.payload.loads(row[0]) if row else {}

    def minions_of(self, job):
        """
        Return the ids of the minions that a job waits for.
        """
        row = self.db.execute(
            "SELECT ids FROM targets WHERE digest = ?", (job.ref,)
        ).fetchone()
        return salt.payload.loads(row[0])

    def jobs(self):
        """
        Return ``(submission, job)`` for all jobs that wait, in their order.
        """
        ret = []
        for seq, submission, jid, digest, count, waves, info, size in self.db.execute(
            "SELECT seq, submission, jid, digest, count, waves, info, length(load)"
            " FROM jobs LEFT JOIN loads USING (seq) ORDER BY seq"
        ).fetchall():
            info = salt.payload.loads(info)
            if "load" in info:
                # as this was kept before
                size = self._put_load(seq, info.pop("load"))
            job = salt.job_handler.job.Job(seq, jid, count=count, ref=digest, **info)
            job.waves, job.bytes = waves, size or 0
            ret.append((submission, job))
        return ret

    def remove(self, job, excluded=None, now=None):
        """
        Forget a job that won't be published.

        :param dict excluded: the minions that did not get it, and why
        """
        with self.writing():
            self._delete(job)
            salt.job_handler.left_out.add(self.db, job.jid, excluded, now)

    def _delete(self, job):
        for table in ("jobs", "loads"):
            self.db.execute(f"DELETE FROM {table} WHERE seq = ?", (job.seq,))

    def left_out(self, jid):
        """
        Return the minions that did not get a job, and why.
        """
        return salt.job_handler.left_out.of(self.db, jid)

    # ------------------------------------------------------------------
    # Waves
    # ------------------------------------------------------------------

    def dispatch(self, action, load, cost, now):
        """
        Write down that a wave is about to be published.

        :param Dispatch action: what is to be done
        :param dict load: what will be published, or None if nobody is left
        :return: the number of the wave, for :meth:`sent`
        """
        job = action.job
        wave = None
        with self.writing():
            salt.job_handler.left_out.add(self.db, job.jid, action.excluded, now)
            if load is not None:
                wave = self.db.execute(
                    "INSERT INTO waves (seq, jid, cost, since, sent, ids, load)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        job.seq,
                        job.jid,
                        cost,
                        now,
                        salt.job_handler.vocabulary.WRITTEN,
                        salt.payload.dumps(action.minions, use_bin_type=True),
                        salt.payload.dumps(load, use_bin_type=True),
                    ),
                ).lastrowid
            if action.last:
                self._delete(job)
            else:
                ids = salt.payload.dumps(job.minions, use_bin_type=True)
                job.ref = hashlib.blake2b(ids, digest_size=16).digest()
                self.db.execute(
                    "INSERT OR IGNORE INTO targets VALUES (?, ?)", (job.ref, ids)
                )
                self.db.execute(
                    "UPDATE jobs SET digest = ?, count = ?, waves = ? WHERE seq = ?",
                    (job.ref, job.count, job.waves, job.seq),
                )
        return wave

    def sent(self, waves):
        """
        Mark waves as published.

        :param list waves: their numbers
        """
        with self.writing():
            self.db.executemany(
                "UPDATE waves SET sent = ?, load = NULL WHERE id = ?",
                [(salt.job_handler.vocabulary.SENT, wave) for wave in waves],
            )

    def failed(self, wave, submission, job, load, minions):
        """
        A wave could not be published: forget it, and keep the job with these minions.
        """
        ids = salt.payload.dumps(minions, use_bin_type=True)
        with self.writing():
            self.db.execute("DELETE FROM waves WHERE id = ?", (wave,))
            self._delete(job)
            self._insert(submission, job, ids, load, len(minions))

    def waves(self):
        """
        Return ``(id, seq, jid, cost, since, minions, owing, load)`` of all waves with
        charges; ``owing`` are the minions that have given nothing back, and ``load`` is
        None if the wave is known to be published.
        """
        returned = {}
        for jid, minion in self.db.execute("SELECT jid, minion FROM returns"):
            returned.setdefault(jid, set()).add(minion)
        ret = []
        for wave, seq, jid, cost, since, ids, load in self.db.execute(
            "SELECT id, seq, jid, cost, since, ids, load FROM waves ORDER BY id"
        ):
            minions, back = salt.payload.loads(ids), returned.get(jid, ())
            ret.append(
                (
                    wave,
                    seq,
                    jid,
                    int(cost) if cost == int(cost) else cost,
                    since,
                    minions,
                    [minion for minion in minions if minion not in back],
                    None if load is None else salt.payload.loads(load),
                )
            )
        return ret

    def waves_since(self, wave):
        """
        Return how many waves have been written down after one.
        """
        last = self.db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'waves'")
        return last.fetchone()[0] - wave

    def returned(self, charges):
        """
        Note what has been given back.

        :param list charges: ``(jid, minion)`` of each
        """
        with self.writing():
            self.db.executemany("INSERT OR IGNORE INTO returns VALUES (?, ?)", charges)

    def settled(self, jids):
        """
        Forget the waves of jobs of which nothing is charged any more.
        """
        rows = [(jid,) for jid in jids]
        with self.writing():
            self.db.executemany(
                "DELETE FROM waves WHERE jid = ? AND sent = ?",
                [(jid, salt.job_handler.vocabulary.SENT) for jid in jids],
            )
            self.db.executemany("DELETE FROM returns WHERE jid = ?", rows)
