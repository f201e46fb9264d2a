"""
What a worker of the master does with a job, and what minions do with it.
"""

import salt.job_handler.gate
import salt.job_handler.waves

MINIONS = [f"m{number}" for number in range(25)]


async def enter(setup, fun="state.apply", user="root", request=None, forced=False):
    return await salt.job_handler.gate.enter(
        setup.opts, setup.bus, {"fun": fun, "user": user}, request, forced=forced
    )


async def publish(setup, jid, minions, request=None, fun="state.apply", **kwargs):
    """
    Do what ClearFuncs.publish does; return the answer, and None if it has to publish
    by itself.
    """
    gate = await enter(setup, fun, request=request, **kwargs)
    if gate is None:
        return None
    if gate.answer is not None:
        return gate.answer
    load = {"jid": jid, "fun": fun, "arg": [], "tgt": "*", "tgt_type": "glob"}
    load.update({"ret": "", "user": "root"})
    return await gate.submit(load, list(minions), [])


def request(name="1", **kwargs):
    return {"id": name, "sync": False, "timeout": 5, "extend": False, **kwargs}


def give_back(setup, jid, *minions):
    for minion in minions:
        setup.handler.maintenance.returned(jid, minion)


async def land(setup, handler):
    """
    Let time pass until what was published is certain to be on its way.
    """
    setup.clock.now += salt.job_handler.waves.FLIGHT_SECONDS
    await handler.tick()
