"""
Which files of the master callers of the runner may name.

Whoever runs ``salt-run`` on the master reads and writes files with the rights of that process
anyway. All others, who come through a daemon of the master, name files below one folder.
"""

import os

import saltext.package_states.master.authors as authors
import saltext.package_states.model.names as names
from saltext.package_states.errors import InvalidInput


def allowed(opts, path):
    """
    Return the path of a file that the caller may name

    :param dict opts: the options of the master
    :param path: what the caller names, None for no file; for others than salt-run it is
        below ``exchange`` under ``package_states``
    :raises InvalidInput: if the caller may not
    """
    if path is None or not authors.is_within():
        return path
    folder = (opts.get("package_states") or {}).get("exchange")
    if not isinstance(folder, str) or not folder:
        raise InvalidInput(
            "Only salt-run on the master may name its files; set exchange under package_states"
            " to a folder whose files all callers may name."
        )
    root = os.path.realpath(folder)
    mode = os.stat(root).st_mode if os.path.isdir(root) else 0
    if mode & 0o022:
        # between this look and the use of a file they could put a link there
        raise InvalidInput(
            f"Take from others the right to write {folder} (chmod go-w), the folder that"
            " exchange under package_states names."
        )
    try:
        found = os.path.realpath(os.path.join(root, path))
    except (TypeError, ValueError):
        found = ""
    if os.path.commonpath((root, found or os.sep)) != root or found == root:
        raise InvalidInput(
            f"{names.shown(path)} is not below {folder}; name a file that is, or use salt-run"
            " on the master."
        )
    return found
