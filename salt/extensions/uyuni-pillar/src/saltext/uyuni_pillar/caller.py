"""
What those who call a runner may name

Whoever runs ``salt-run`` on the master has the rights of this process without Salt as well.
All others reach a runner through the daemons of the master: a user of eauth or salt-api, a
minion, a reaction, an orchestration.
"""

import multiprocessing
import os

import salt.exceptions

#: What a minion is told that calls a runner
REFUSED = "Minions may not call this runner: use it on the master, or through salt-api."


def is_minion(opts):
    """
    Return whether a minion calls, as ``peer_run`` lets it

    The master's own options name no function. For a minion it adds ``fun`` and ``doc`` to
    them, and runs the function as itself. Those of ``salt-run`` have both as well, and
    ``async``; those of Thorium ``fun`` and ``async``. The configuration of the master may
    have any of them, but does not set ``__cli``.
    """
    return "fun" in opts and not (
        "async" in opts and (opts.get("__cli") == "salt-run" or "doc" not in opts)
    )


def is_local():
    """
    Return whether this is a command in a shell of the master, and no process of a daemon
    """
    return multiprocessing.parent_process() is None


def check_below(folder, path, option):
    """
    Raise CommandExecutionError if the caller may not name a path

    folder
        The folder below which all callers may name paths, None if there is none.

    path
        The path. One that is relative is below the folder.

    option
        The option of the master that sets the folder.

    Returns the path.
    """
    if is_local():
        return path
    if not folder:
        raise salt.exceptions.CommandExecutionError(
            f"This call may name no path of the master: set {option} to a folder, or use"
            " salt-run on the master."
        )
    root = os.path.realpath(folder)
    if os.path.isdir(root) and os.stat(root).st_mode & 0o022:
        # between this look and the use of the path they could put a link there
        raise salt.exceptions.CommandExecutionError(
            f"Take from others the right to write {folder} (chmod go-w), the folder that"
            f" {option} names."
        )
    found = os.path.realpath(os.path.join(root, path))
    if os.path.commonpath((root, found)) != root:
        raise salt.exceptions.CommandExecutionError(
            f"The path is not below {folder}: name one that is, or use salt-run on the"
            " master."
        )
    return found
