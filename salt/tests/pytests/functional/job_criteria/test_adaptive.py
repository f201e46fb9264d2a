"""
What a job of ten thousand minions costs the master and the network.
"""

import asyncio

import salt.crypt
import salt.payload

MINIONS = [f"minion-{number:05}.example.com" for number in range(10000)]

#: Returns a second, as a master on two cores serves them.
RATE = 900


def _wire(load, crypticle):
    """
    Return the bytes of a publication: encrypted and signed, as the publisher sends it.
    """
    payload = {
        "enc": "aes",
        "load": crypticle.dumps(load),
        "sig": b"x" * 256,
        "sig_algo": "PKCS1v15-SHA224",
    }
    return len(salt.payload.dumps(payload))


def _submission(jid, minions, **load):
    """
    Return what a worker of the master hands over.
    """
    return {
        "cmd": "submit",
        "submission": jid,
        "load": {
            "jid": jid,
            "fun": "state.apply",
            "arg": [],
            "tgt": "*",
            "tgt_type": "glob",
            "ret": "",
            "user": "root",
            **load,
        },
        "count": len(minions),
        "ids": salt.payload.dumps(minions, use_bin_type=True),
        "sync": False,
        "timeout": None,
        "forced": False,
        "fixed": False,
    }


def test_short_jobs_beside_those_that_take_long(setup):
    """
    A state of minutes on as many minions as the limit begins with: nothing comes back that
    the limit could grow by, so everybody else would wait until it is over.
    """
    setup.config(criteria="adaptive")
    minutes = [f"long-{number:02}" for number in range(50)]
    short = [f"short-{number:02}" for number in range(60)]

    async def run():
        handler = await setup.start()
        await handler.commands.handle(_submission("1", minutes))
        await handler.commands.handle(_submission("2", short))
        seconds, heard = 0, 0
        while len(handler.manager.queue) and seconds < 120:
            seconds += 1
            setup.clock.now += 1
            await handler.tick()
            for minion in handler.criteria.ledger.of_job("2"):
                handler.maintenance.returned("2", minion)
            for load in setup.bus.published[heard:]:
                if load["fun"] == "saltutil.running":
                    for minion in load["tgt"]:
                        handler.maintenance.answered(
                            load["jid"], minion, [{"jid": "1"}]
                        )
            heard = len(setup.bus.published)
        assert handler.criteria.ledger.of_job("1") == set(minutes)
        return seconds

    assert asyncio.run(run()) < 30
    assert sum(setup.bus.reached("2", short), []) == short


def test_ten_thousand_minions_in_few_waves(setup):
    """
    At most ten waves, of at most ten times the bytes of one plain publication; each minion
    has it once, and never more than the limit wait for an answer.
    """
    setup.config(criteria="adaptive", min_master_jobs=500, return_seconds=3)
    jid = "20261123180000000000"
    request = _submission(jid, MINIONS, fun="test.ping")
    load = request["load"]

    async def run():
        handler = await setup.start()
        await handler.commands.handle(request)
        ledger, most = handler.criteria.ledger, 0
        for _ in range(300):
            most = max(most, ledger.used)
            running = sorted(ledger.of_job(jid))
            if not running and not len(handler.manager.queue):
                break
            setup.clock.now += 0.1
            for minion in running[: RATE // 10]:
                handler.maintenance.returned(jid, minion)
            await handler.dispatcher.pump()
        return most

    assert asyncio.run(run()) <= 2000
    waves = setup.bus.reached(jid, MINIONS)
    assert sum(waves, []) == MINIONS
    assert len(waves) <= 10
    crypticle = salt.crypt.Crypticle({}, salt.crypt.Crypticle.generate_key_string())
    published = [each for each in setup.bus.published if each["jid"] == jid]
    sizes = [_wire(each, crypticle) for each in published]
    assert sum(sizes) <= 10 * _wire(load, crypticle)
