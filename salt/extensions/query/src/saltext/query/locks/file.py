"""
Locks of file servers on this master.
"""

import glob
import os

import saltext.query.files

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


def locks(context):
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
                b"" if os.path.isdir(path) else saltext.query.files.read_file(path)
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
