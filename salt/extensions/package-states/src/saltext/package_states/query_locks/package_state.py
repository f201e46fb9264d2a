"""
Packages that package states keep, hold at a version, or keep away: locks for queries of
the extension saltext-query.
"""

import logging

try:
    import saltext.query.errors as errors
    import saltext.query.locks as query
except ImportError:
    errors = query = None

import saltext.package_states.refresh as refresh
import saltext.package_states.store as store
from saltext.package_states.errors import PackageStateError
from saltext.package_states.fleet import Fleet

log = logging.getLogger(__name__)


def __virtual__():
    if query is None:
        return False, "these locks need the extension saltext-query"
    return True


def needs():
    """
    Return what of each minion's documents it reads: nothing
    """
    return ()


def locks(context):
    """
    Yield the packages that package states hold at a version, keep, or keep away, if
    there are package states on this master
    """
    if "package_states" not in context.opts:
        return
    try:
        with store.reading(context.opts) as connection:
            fleet = Fleet(context.opts, connection)
            found = list(refresh.every(fleet, query.accepted(context)))
    except PackageStateError as exc:
        # without them the answer would look whole
        raise errors.QueryStoreError(
            f"The locks of package states can't be read: {exc}"
        ) from exc
    for minion, rows in found:
        if isinstance(rows, PackageStateError):
            log.error("Could not ask for package states: %s", rows)
            continue
        for row in rows:
            if row.state.startswith("Absent"):
                mode = "absent"
            elif "kept" in row.state:
                mode = "kept"
            elif row.condition:
                mode = "version"
            else:
                continue
            yield query.of_minion(
                minion,
                row.package,
                package=row.package,
                version=row.version or None,
                mode=mode,
                owner=[row.source],
                reason=row.verdict,
            )
