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


def test_ten_thousand_minions_in_few_waves(setup):
    """
    At most ten waves, of at most ten times the bytes of one plain publication; each minion
    has it once, and never more than the limit wait for an answer.
    """
    setup.config(criteria="adaptive", min_master_jobs=500, return_seconds=3)
    jid = "20261123180000000000"
    load = {"jid": jid, "fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob"}
    load.update({"ret": "", "user": "root"})

    async def run():
        handler = await setup.start()
        request = {
            "cmd": "submit",
            "submission": "1",
            "load": load,
            "count": len(MINIONS),
            "ids": salt.payload.dumps(MINIONS, use_bin_type=True),
            "sync": False,
            "timeout": None,
            "forced": False,
            "fixed": False,
        }
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
