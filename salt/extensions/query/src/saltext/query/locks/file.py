"""Locks of file servers on this master."""

import glob
import os

from saltext.query import files

#: The folders of the cache in which file servers and their kin keep locks, and where there.
_BACKENDS = ("gitfs", "git_pillar", "winrepo", "hgfs", "svnfs")
_PLACES = ("*.lk", "*/*.lk", "work/*/*.lk", "work/*/*/*.lk")


def locks(context):
    """Yield the locks of file servers on this master."""
    root = context.opts["cachedir"]
    forms = [f"{backend}/{place}" for backend in _BACKENDS for place in _PLACES]
    for form in forms:
        for path in glob.glob(os.path.join(glob.escape(root), form)):
            try:
                changed = os.stat(path).st_mtime
                content = b"" if os.path.isdir(path) else files.read_file(path)
            except OSError:
                # it has been given back meanwhile
                continue
            relative = os.path.relpath(path, root)
            backend, *folders, _ = relative.split(os.sep)
            ret = {
                "object": relative,
                "mode": "exclusive",
                "path": path,
                "backend": backend,
                "acquired_ts": changed,
            }
            if folders:
                ret["remote"] = os.sep.join(folders).removeprefix("work" + os.sep)
            if content.strip().isdigit() and len(content) < 20:
                ret["pid"] = int(content)
                ret["owner"] = [f"process {ret['pid']}"]
            yield ret
