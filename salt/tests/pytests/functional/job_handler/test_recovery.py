"""
Recovery at each point at which a job handler may be killed, against what a second and
simple reading of the journal's calls says, and against the job handler that was not killed.
"""

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3

import pytest

import salt.job_criteria.capacity
import salt.job_handler.config
import salt.job_handler.process
import salt.payload
from tests.pytests.functional.job_handler.conftest import Bus

#: Set this to 10000 for a long run.
JOURNALS = int(os.environ.get("SALT_JOB_HANDLER_JOURNALS", "60"))
SEEDS = 2
EVENTS = 30
MINIONS = [f"m{number}" for number in range(8)]


class Written:
    """
    What the journal was told, in dictionaries, with a copy of the database and of these
    after each of its transactions.
    """

    def __init__(self, journal):
        self.journal = journal
        self.queue = {}
        self.waves = {}
        self.returns = set()
        self.prefixes = []
        for name in ("add", "dispatch", "sent", "failed", "returned", "settled"):
            self._follow(name, getattr(self, f"_{name}"))
        self._follow("remove", self._remove)

    def _follow(self, name, note):
        tell = getattr(self.journal, name)

        def told(*args, **kwargs):
            result = tell(*args, **kwargs)
            note(result, *args)
            self.prefixes.append((self.copy(), self.recovered()))
            return result

        setattr(self.journal, name, told)

    def _add(self, new, submission, job, ids, load):
        assert new
        self.queue[job.seq] = (job.jid, salt.payload.loads(ids), job.forced)

    def _remove(self, _, job, *args):
        del self.queue[job.seq]

    def _dispatch(self, wave, action, load, cost, now):
        job = action.job
        jid, minions, forced = self.queue.pop(job.seq)
        gone = [*action.minions, *action.excluded]
        assert set(gone) <= set(minions)
        if wave is not None:
            self.waves[wave] = (jid, set(action.minions), False)
        rest = [minion for minion in minions if minion not in gone]
        if rest:
            self.queue[job.seq] = (jid, rest, forced)

    def _sent(self, _, waves):
        for wave in waves:
            if wave in self.waves:
                self.waves[wave] = (*self.waves[wave][:2], True)

    def _failed(self, _, wave, submission, job, load, minions):
        self.waves.pop(wave)
        self.queue[job.seq] = (job.jid, minions, job.forced)

    def _returned(self, _, pairs):
        self.returns.update(pairs)

    def _settled(self, _, jids):
        for wave, (jid, _, sent) in list(self.waves.items()):
            if jid in jids and sent:
                del self.waves[wave]

    def copy(self):
        """
        Return a copy of the database.
        """
        copy = sqlite3.connect(":memory:")
        self.journal.db.backup(copy)
        return copy

    def state(self):
        """
        Return the jobs that wait, what is charged, and what may not have been sent.
        """
        charges, unsent = set(), []
        for jid, minions, sent in self.waves.values():
            owing = {minion for minion in minions if (jid, minion) not in self.returns}
            charges.update((jid, minion) for minion in owing)
            if owing and not sent:
                unsent.append((jid, sorted(owing)))
        queue = [
            (seq, jid, sorted(minions))
            for seq, (jid, minions, _) in sorted(self.queue.items())
        ]
        return queue, charges, sorted(unsent)

    def recovered(self):
        """
        Return the same as it is after recovery, which publishes at once what has to be.
        """
        queue, charges, unsent = self.state()
        for seq, (jid, minions, forced) in self.queue.items():
            if forced:
                queue.remove((seq, jid, sorted(minions)))
                charges.update((jid, minion) for minion in minions)
                unsent.append((jid, sorted(minions)))
        return queue, charges, sorted(unsent)


def _state(handler):
    """
    Return the same of a job handler.
    """
    queue = []
    for job in handler.manager.queue:
        minions = job.minions
        if minions is None:
            minions = handler.journal.minions_of(job)
        queue.append((job.seq, job.jid, sorted(minions)))
    rows = handler.criteria.ledger.rows()
    return sorted(queue), {(jid, minion) for minion, jid, *_ in rows}


async def _publish(setup, number, jid, minions, **request):
    """
    Hand a job over as a worker of the master does.
    """
    submission = f"s{number}"
    handle = setup.handler.commands.handle
    reply = await handle({"cmd": "reserve", "submission": submission, "size": 10})
    assert reply["state"] == "reserved"
    load = {"jid": jid, "fun": "f", "arg": [], "tgt": minions, "tgt_type": "list"}
    load.update({"ret": "", "user": "root"})
    reply = await handle(
        {
            "cmd": "submit",
            "submission": submission,
            "load": load,
            "ids": salt.payload.dumps(minions, use_bin_type=True),
            "count": len(minions),
            "fixed": False,
            "sync": False,
            "timeout": None,
            "forced": False,
            **request,
        }
    )
    assert reply["state"] == "accepted"


async def _event(setup, rand, number):
    """
    Let something happen.
    """
    handler = setup.handler
    charged = sorted((row[1], row[0]) for row in handler.criteria.ledger.rows())
    waiting = sorted({job.jid for job in handler.manager.queue})
    setup.clock.now += rand.choice((0, 0.1, 1, 4))
    # now and then the publisher is away for a moment
    setup.bus.broken = rand.random() < 0.1
    kind = rand.random()
    if kind < 0.4:
        jid, minions = f"j{number}", rand.sample(MINIONS, rand.choice((1, 2, 5, 8)))
        if waiting and rand.random() < 0.2:
            # another part of a batch
            jid = rand.choice(waiting)
            minions = [f"{number}-{minion}" for minion in minions]
        minions = sorted(minions)
        timeout = rand.choice((None, None, 3))
        forced = rand.random() < 0.1
        request = {"timeout": timeout, "sync": bool(timeout), "forced": forced}
        await _publish(setup, number, jid, minions, **request)
    elif kind < 0.7:
        for jid, minion in rand.sample(charged, min(len(charged), rand.randint(1, 4))):
            handler.maintenance.returned(jid, minion)
    elif kind < 0.75:
        handler.maintenance.started(rand.choice(MINIONS))
    elif kind < 0.85 and waiting:
        request = {"cmd": "cancel", "jid": rand.choice(waiting)}
        if rand.random() < 0.5:
            some = rand.sample(MINIONS, 3)
            request["minions"] = salt.payload.dumps(some, use_bin_type=True)
        await handler.commands.handle(request)
    elif kind < 0.9 and waiting:
        await handler.commands.handle(
            {"cmd": "order", "jid": rand.choice(waiting), "held": rand.random() < 0.5}
        )
    else:
        await handler.tick()


async def _recovered(setup, prefix):
    """
    Return the state of a job handler that finds a copy of the database, and what it
    publishes.
    """
    folder = os.path.join(setup.opts["cachedir"], "copy")
    opts = {**setup.opts, "cachedir": folder}
    place = salt.job_handler.claims.folder(opts)
    os.makedirs(place)
    with contextlib.closing(
        sqlite3.connect(os.path.join(place, salt.job_handler.database.NAME))
    ) as db:
        prefix.backup(db)
    handler = salt.job_handler.process.Handler(opts, "master", setup.clock)
    try:
        bus = handler.bus.event = Bus()
        handler.bus.channels = [bus]
        handler.dispatcher.start()
        handler.report.metrics.register(opts)
        await handler.recovery.run()
        return (*_state(handler), sorted(map(_reached, bus.published)))
    finally:
        handler.journal.close()
        shutil.rmtree(folder)


def _reached(load):
    """
    Return the job id and the minions of a publication.
    """
    numbers = range(1, EVENTS + 1)
    parts = [f"{number}-{minion}" for number in numbers for minion in MINIONS]
    everybody = [*MINIONS, *parts]
    bus = Bus()
    bus.published.append(load)
    return load["jid"], bus.reached(load["jid"], everybody)[0]


async def _journal(setup, rand):
    """
    Let a job handler live for a while, and recover each state it was in.
    """
    handler = await setup.start()
    written = Written(handler.journal)
    for number in range(1, EVENTS + 1):
        await _event(setup, rand, number)
        # what has come back is written down twice a second
        handler.dispatcher.note_returns()
        queue, charges, _ = written.state()
        assert _state(handler) == (queue, charges), number
    for place, (copy, expected) in enumerate(written.prefixes):
        assert await _recovered(setup, copy) == expected, place
        copy.close()
    await setup.stop()
    return len(written.prefixes)


@pytest.mark.timeout_unless_on_windows(90 + JOURNALS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_recovery_at_each_transaction(setup, seed, monkeypatch):
    """
    What is recovered is what the journal was told, and at the end of each event that is
    the state of the job handler that was not killed.
    """

    def criteria(opts):
        ret = salt.job_criteria.capacity.Capacity(
            {"max_master_jobs": 6, "max_minion_jobs": 2}
        )
        ret.ledger.settled = []
        return ret

    # the loader takes longer than all of the rest
    monkeypatch.setattr(salt.job_handler.config, "load_criteria", criteria)
    rand = random.Random(seed)
    prefixes = 0
    for _ in range(JOURNALS // SEEDS):
        folder = os.path.join(setup.opts["cachedir"], "job_handler")
        shutil.rmtree(folder, ignore_errors=True)
        setup.bus.published.clear()
        setup.bus.events.clear()
        prefixes += asyncio.run(_journal(setup, rand))
    assert prefixes > JOURNALS // SEEDS * EVENTS // 2
