"""
Packages that package states keep, hold at a version, or keep away.
"""

import logging

import saltext.query.locks

log = logging.getLogger(__name__)


def locks(context):
    """
    Yield the packages that package states hold at a version, keep, or keep away, if
    there are package states on this master.
    """
    if "package_states" not in context.opts:
        return
    try:
        # pylint: disable-next=import-outside-toplevel
        from salt.package_states import errors, refresh
    except ImportError:
        return
    for minion in saltext.query.locks.accepted(context):
        try:
            rows = refresh.rows(context.opts, minion)
        except errors.NotThere:
            # it has not sent its packages
            continue
        except errors.PackageStateError as exc:
            log.error("Could not ask for package states: %s", exc)
            return
        for row in rows:
            if row.state.startswith("Absent"):
                mode = "absent"
            elif "kept" in row.state:
                mode = "kept"
            elif row.condition:
                mode = "version"
            else:
                continue
            yield saltext.query.locks.of_minion(
                minion,
                row.package,
                package=row.package,
                version=row.version or None,
                mode=mode,
                owner=[row.source],
                reason=row.verdict,
            )
