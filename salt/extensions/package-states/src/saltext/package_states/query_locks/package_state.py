"""Packages that package states keep, hold at a version, or keep away: locks for saltext-query."""

import logging

try:
    import saltext.query.errors as errors
    import saltext.query.locks as query
except ImportError:
    errors = query = None

import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import PackageStateError
from saltext.package_states.model.item import ABSENT, INSTALLED, KEPT, show

log = logging.getLogger(__name__)

MODES = {INSTALLED: "version", KEPT: "kept"}


def __virtual__():
    if query is None:
        return False, "these locks need the extension saltext-query"
    return True


def locks(context):
    """Yield the packages that package states, if there are any, hold at a version or keep, or keep away"""
    if "package_states" not in context.opts:
        return
    try:
        with store.reading(context.opts) as connection:
            fleet = Fleet(context.opts, connection)
            minions = fleet.minions(context.accepted())
            found = [
                (name, *fleet.possible(minions[name], sources))
                for name, sources in fleet.sources(minions).items()
            ]
    except PackageStateError as exc:
        # without them the answer would look whole
        raise errors.QueryStoreError(
            f"The locks of package states can't be read: {exc}"
        ) from exc
    for minion, verdicts, trouble in found:
        for problem in trouble.values():
            log.error("Could not ask for package states of %s: %s", minion, problem)
        for verdict in verdicts:
            item = verdict.item
            mode = "absent" if item.wanted in ABSENT else MODES.get(item.wanted)
            if mode is None or (mode == "version" and not item.condition):
                continue
            yield query.of_minion(
                minion,
                item.key,
                package=item.key,
                version=", ".join(part[1] for part in item.condition) or None,
                mode=mode,
                owner=[verdict.source.label],
                reason=show(item),
            )
