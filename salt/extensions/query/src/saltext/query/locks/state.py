"""States that minions refuse to run."""

from saltext.query.locks import grains, of_minion


def locks(context):
    """Yield the states that minions refuse to run, as ``state.disable`` told them."""
    for minion, found, when in grains(context, "state_runs_disabled"):
        for name in found if isinstance(found, list) else ():
            if isinstance(name, str):
                yield of_minion(
                    minion,
                    name,
                    fun="state.apply",
                    mode="disabled",
                    told_ts=when,
                    reason="The state is disabled on the minion",
                )
