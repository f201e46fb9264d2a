"""States that minions refuse to run."""

from saltext.query.locks import of_minion

_GRAIN = "state_runs_disabled"


def locks(context):
    """Yield the states that minions refuse to run, as ``state.disable`` told them."""
    context.want([f"grains:{_GRAIN}"])
    for minion in context.accepted():
        found = (context.read("grains", minion) or {}).get(_GRAIN)
        for name in found if isinstance(found, list) else ():
            if isinstance(name, str):
                yield of_minion(
                    minion,
                    name,
                    fun="state.apply",
                    mode="disabled",
                    told_ts=context.documents.updated("grains", minion),
                    reason="The state is disabled on the minion",
                )
