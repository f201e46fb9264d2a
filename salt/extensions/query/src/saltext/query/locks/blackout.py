"""
Minions that run nothing.
"""

import saltext.query.locks


def locks(context):
    """
    Yield the minions that run nothing, by a grain.
    """
    for minion, grain, when in saltext.query.locks.grains(context, "minion_blackout"):
        if grain is True:
            yield saltext.query.locks.of_minion(
                minion,
                "minion",
                mode="exclusive",
                told_ts=when,
                reason="The minion is blacked out by its grain minion_blackout",
            )
