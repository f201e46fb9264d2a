"""
States that minions refuse to run.
"""

import saltext.query.locks


def locks(context):
    """
    Yield the states that minions refuse to run, as ``state.disable`` told them.
    """
    grains = saltext.query.locks.grains(context, "state_runs_disabled")
    for minion, found, when in grains:
        for name in found if isinstance(found, list) else ():
            if isinstance(name, str):
                yield saltext.query.locks.of_minion(
                    minion,
                    name,
                    fun="state.apply",
                    mode="disabled",
                    told_ts=when,
                    reason="The state is disabled on the minion",
                )
