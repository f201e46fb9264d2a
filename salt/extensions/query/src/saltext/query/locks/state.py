"""
States that minions refuse to run.
"""

import saltext.query.locks


def needs():
    """
    Return what of each minion's documents it reads.
    """
    return [("grains", "state_runs_disabled")]


def locks(context):
    """
    Yield the states that minions refuse to run, as ``state.disable`` told them.
    """
    for minion in context.accepted():
        grains = context.read("grains", minion) or {}
        found = grains.get("state_runs_disabled")
        if not isinstance(found, list):
            continue
        when = context.documents.updated("grains", minion)
        for name in found:
            if isinstance(name, str):
                yield saltext.query.locks.of_minion(
                    minion,
                    name,
                    fun="state.apply",
                    mode="disabled",
                    told_ts=when,
                    reason="The state is disabled on the minion",
                )
