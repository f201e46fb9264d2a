"""
Criteria modules of a site, which may be wrong in any way.
"""

import asyncio

import pytest

import salt.payload
import salt.utils.files

MINIONS = [f"m{number:02}" for number in range(20)]

HEAD = """
import salt.job_criteria

class Site(salt.job_criteria.Criteria):
    options = ()

    def decide(self, job, now):
        minions = job.minions[:4]
        self.charge(job, minions, now)
        return salt.job_criteria.publish(minions)

def criteria(settings):
    return Site(settings)
"""


@pytest.fixture
def site(setup, tmp_path):
    """
    A function that makes a criteria module of a site, with methods of its own.
    """
    setup.opts["job_criteria_dirs"] = [str(tmp_path)]

    def write(name, *methods):
        head, tail = HEAD.split("\ndef criteria")
        body = "".join(f"\n    {line}" for line in methods)
        with salt.utils.files.fopen(tmp_path / f"{name}.py", "w") as handle:
            handle.write(f"{head}{body}\n\ndef criteria{tail}")
        setup.config(criteria=name)

    return write


async def _submit(handler, jid, minions):
    load = {"jid": jid, "fun": "state.apply", "arg": [], "tgt": "*"}
    load.update({"tgt_type": "glob", "ret": "", "user": "root"})
    await handler.commands.handle(
        {
            "cmd": "submit",
            "submission": jid,
            "load": load,
            "count": len(minions),
            "ids": salt.payload.dumps(minions, use_bin_type=True),
            "sync": False,
            "timeout": None,
            "forced": False,
            "fixed": False,
        }
    )


def test_minions_in_an_order_of_its_own(setup, site):
    """
    Each minion gets the job once, whichever are chosen first.
    """
    site(
        "shuffled",
        "def decide(self, job, now):",
        "    wave = job.minions[:50]",
        "    minions = [*wave[25:], *wave[:25]]",
        "    self.charge(job, minions, now)",
        "    return salt.job_criteria.publish(minions)",
    )

    fleet = [f"web{number:03}.example.com" for number in range(200)]

    async def run():
        handler = await setup.start()
        await _submit(handler, "1", fleet)

    asyncio.run(run())
    waves = setup.bus.reached("1", fleet)
    assert [len(wave) for wave in waves] == [50, 50, 50, 50]
    assert sorted(sum(waves, [])) == fleet


def test_snapshot_that_it_can_not_use(setup, site):
    """
    It is that of another module, or of an older version: the jobs that wait are not lost
    for that.
    """
    site("old", "def snapshot(self):", "    return {'limit': 3}")

    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        await _submit(handler, "1", MINIONS[:4])
        await handler.clean()
        await setup.stop()
        site("new", "def restore(self, snapshot, now):", "    self.x = snapshot['x']")
        handler = await setup.start()
        handler.manager.orders.paused = False
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.reached("1", MINIONS[:4]) == [MINIONS[:4]]


@pytest.mark.parametrize("snapshot", ["1 / 0", "{'lock': object()}"])
def test_snapshot_that_it_can_not_give(setup, site, snapshot):
    """
    What else is tidied up is tidied up all the same.
    """
    site("forgetful", "def snapshot(self):", f"    return {snapshot}")

    async def run():
        handler = await setup.start()
        handler.manager.counters["submitted"] = 7
        await handler.clean()
        assert handler.journal.get_snapshot("criteria") is None
        assert handler.journal.get_snapshot("counters") == {"submitted": 7}

    asyncio.run(run())


def test_cost_that_fails_when_the_job_is_on_its_way(setup, site):
    """
    The job would be in no queue any more, and not be published until the next start.
    """
    site("priceless", "def cost(self, job):", "    return {}[job.fun]")

    async def run():
        handler = await setup.start()
        await _submit(handler, "1", MINIONS[:4])
        for _ in range(4):
            setup.clock.now += 1
            await handler.tick()

    asyncio.run(run())
    assert setup.bus.reached("1", MINIONS[:4]) == [MINIONS[:4]]
