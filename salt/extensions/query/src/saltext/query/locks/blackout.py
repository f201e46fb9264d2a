"""Minions that run nothing."""

from saltext.query.locks import grains, of_minion


def locks(context):
    """Yield the minions that run nothing, by a grain."""
    for minion, grain, when in grains(context, "minion_blackout"):
        if grain is True:
            yield of_minion(
                minion,
                "minion",
                mode="exclusive",
                told_ts=when,
                reason="The minion is blacked out by its grain minion_blackout",
            )
