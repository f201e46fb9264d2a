"""
Minions that run nothing.
"""

import saltext.query.locks


def needs():
    """
    Return what of each minion's documents it reads.
    """
    return [("grains", "minion_blackout")]


def locks(context):
    """
    Yield the minions that run nothing, by a grain.
    """
    for minion in context.accepted():
        grains = context.read("grains", minion) or {}
        if grains.get("minion_blackout") is True:
            yield saltext.query.locks.of_minion(
                minion,
                "minion",
                mode="exclusive",
                told_ts=context.documents.updated("grains", minion),
                reason="The minion is blacked out by its grain minion_blackout",
            )
