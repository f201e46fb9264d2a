"""
Where locks are found. Each source yields what is known of its locks, as dictionaries
whose keys are names of fields.
"""

import glob
import logging
import os

import salt.query.documents
import salt.query.natural

log = logging.getLogger(__name__)

#: What the mine may have of held packages.
HOLDS = ("pkg.list_holds", "pkg.list_locks", "package_state.inventory")

#: Where the file server and its kin keep their locks, below the cache directory.
_FILES = (
    "gitfs/work/*/*/*.lk",
    "gitfs/work/*/*.lk",
    "gitfs/*/*.lk",
    "gitfs/*.lk",
    "git_pillar/work/*/*/*.lk",
    "git_pillar/*/*.lk",
    "winrepo/work/*/*/*.lk",
    "winrepo/*/*.lk",
    "hgfs/*.lk",
    "hgfs/*/*.lk",
    "svnfs/*.lk",
    "svnfs/*/*.lk",
    "file_lists/*/.*.w",
)


def files(context):
    """
    Yield the locks of file servers on this master.
    """
    root = context.opts["cachedir"]
    for path in sorted(
        {
            one
            for form in _FILES
            for one in glob.glob(os.path.join(glob.escape(root), form))
        }
    ):
        try:
            changed = os.stat(path).st_mtime
            content = (
                b"" if os.path.isdir(path) else salt.query.documents.read_file(path)
            )
        except OSError:
            # it has been given back meanwhile
            continue
        relative = os.path.relpath(path, root)
        parts = relative.split(os.sep)
        backend = parts[1] if parts[0] == "file_lists" else parts[0]
        ret = {
            "object": relative,
            "mode": "exclusive",
            "path": path,
            "backend": backend,
            "acquired_ts": changed,
        }
        if len(parts) > 2 and parts[0] != "file_lists":
            ret["remote"] = os.sep.join(
                parts[2:-1] if parts[1] == "work" else parts[1:-1]
            )
        if content.strip().isdigit() and len(content) < 20:
            ret["pid"] = int(content)
            ret["owner"] = [f"process {ret['pid']}"]
        yield ret


def pauses(context):
    """
    Yield the pause of the job handler, if it is paused.
    """
    queue = context.queue
    if queue.enabled and queue.status and queue.status.get("paused"):
        yield {
            "object": "job_handler",
            "mode": "exclusive",
            "pending": sorted(queue.waiting or ()),
            "pid": queue.status.get("pid"),
            "reason": "The job handler's queue is paused",
        }


def holds(context):
    """
    Yield the packages that minions hold, as far as they have told the mine.
    """
    for minion in _accepted(context):
        found = {}
        for entry in context.instances.mine(minion, *HOLDS):
            for package, version in _held(entry):
                if package not in found or version:
                    found[package] = version
        when = context.documents.updated("mine", minion) if found else None
        for package in sorted(found, key=salt.query.natural.key):
            yield _of_minion(
                minion,
                package,
                package=package,
                version=found[package],
                mode="hold",
                told_ts=when,
                reason="The package is held",
            )


def _held(found):
    """
    Yield the name and the version of each package that is held, whichever form the
    function has.
    """
    if isinstance(found, dict) and isinstance(found.get("packages"), dict):
        # of package_state.inventory
        for name, entry in found["packages"].items():
            if isinstance(name, str) and isinstance(entry, dict) and entry.get("held"):
                versions = entry.get("versions")
                yield name, (
                    versions[-1] if isinstance(versions, list) and versions else None
                )
    elif isinstance(found, (dict, list)):
        for name in found:
            if isinstance(name, str):
                yield name, None


def states(context):
    """
    Yield the states that minions refuse to run, as ``state.disable`` told them.
    """
    for minion in _accepted(context):
        grains = context.read("grains", minion, minion) or {}
        found = grains.get("state_runs_disabled")
        if not isinstance(found, list):
            continue
        when = context.documents.updated("grains", minion)
        for name in found:
            if isinstance(name, str):
                yield _of_minion(
                    minion,
                    name,
                    fun="state.apply",
                    mode="disabled",
                    told_ts=when,
                    reason="The state is disabled on the minion",
                )


def blackouts(context):
    """
    Yield the minions that run nothing, by a grain.
    """
    for minion in _accepted(context):
        grains = context.read("grains", minion, minion) or {}
        if grains.get("minion_blackout") is True:
            yield _of_minion(
                minion,
                "minion",
                mode="exclusive",
                told_ts=context.documents.updated("grains", minion),
                reason="The minion is blacked out by its grain minion_blackout",
            )


def package_states(context):
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
    for minion in _accepted(context):
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
            yield _of_minion(
                minion,
                row.package,
                package=row.package,
                version=row.version or None,
                mode=mode,
                owner=[row.source],
                reason=row.verdict,
            )


def _accepted(context):
    for minion in sorted(context.keys, key=salt.query.natural.key):
        if context.keys[minion] == "accepted":
            yield minion


def _of_minion(minion, name, **more):
    return {"object": name, "node": minion, "owner": [minion], **more}


#: For each type of locks where to find them, and what of each minion that reads.
SOURCES = {
    "file": (files, ()),
    "pause": (pauses, ()),
    "hold": (holds, [("mine", function) for function in HOLDS]),
    "state": (states, [("grains", "state_runs_disabled")]),
    "blackout": (blackouts, [("grains", "minion_blackout")]),
    "package_state": (package_states, ()),
}
