"""Who does something: the user whom Salt has authenticated."""

import multiprocessing

import salt.utils.user

# who calls from within the master and is not authenticated, as Salt calls them
NOBODY = "UNKNOWN"


def is_within():
    """Return whether this is a process of a daemon, which calls by its own user's name for others"""
    return multiprocessing.parent_process() is not None


#: What a minion is told that calls a runner
REFUSED = "Minions may not call this runner: use it on the master, or through salt-api."


def is_minion(opts):
    """Return whether a minion calls, as ``peer_run`` lets it

    For a minion, the master adds ``fun`` and ``doc`` to its own options, which name no function.
    Those of ``salt-run`` have ``async`` too; those of Thorium ``fun`` and ``async``. The configuration
    of the master may have any of them, but does not set ``__cli``.
    """
    return "fun" in opts and not (
        "async" in opts and (opts.get("__cli") == "salt-run" or "doc" not in opts)
    )


def caller(user, opts, other=None):
    """Return who calls, by default the user of this process, and whom they name besides"""
    user = user or salt.utils.user.get_specific_user()
    if is_within() and (
        user in (NOBODY, "root", opts.get("user")) or user.startswith("sudo_")
    ):
        user = NOBODY
    return f"{user} for {other}" if other and other != user else user
