"""Who asks, and what he may have besides what the cache holds.

Whoever may run the runner ``query`` may read the grains and the mine of all minions, and
all jobs. More takes a right of his own, as if he asked without this extension:

* live fields: the right to run the function on the minions that are asked
* pillars: the right to run the runner ``cache.pillar``

A runner is told the name of its caller, but not how that has proven to be it. So a name
has only what each way of proving it would give.

A minion that calls the runner, as ``peer_run`` lets it, sees its own node and nothing
else. It gives no target: the master has no limit of time for these.
"""

import logging

from saltext.query.errors import QueryRightsError

import salt.acl
import salt.auth
import salt.loader
import salt.utils.master
import salt.utils.minions
import salt.utils.user

log = logging.getLogger(__name__)

#: The commands whose process is that of whoever asks.
_COMMANDS = ("salt-run", "salt-query")

#: Names under which Salt itself runs runners.
_OWN_NAMES = ("Reactor", "UNKNOWN")

#: The users whose key the master takes for jobs of whichever name.
_TRUSTED = ("root", "salt")

#: What Salt puts before the name of who uses the key of another.
_FOR = "sudo_"

#: The runner that shows pillars.
PILLARS = "cache.pillar"

#: The functions of the runner. Whoever may call one of them may have come by it.
_FUNCTIONS = ("query.items", "query.count", "query.fields")


class Caller:
    """The user that the master runs as: he may read its files, and so has everything.

    :ivar str name: who asks, or None for the user of this process
    :ivar str only: the id of the only node that is shown, or None for all items
    """

    name = None
    only = None

    def job_user(self):
        """Return the user that his jobs carry, or None for that of this process."""
        return self.name

    def sees_pillars(self):
        """Return whether he may see pillars."""
        return True

    def check_pillars(self):
        """
        :raises QueryRightsError: if he may not see pillars
        """
        if not self.sees_pillars():
            raise QueryRightsError(
                f"{self.name} may not see pillars: leave them out, also in targets, or give"
                f" him the runner {PILLARS} in external_auth."
            )

    def check_run(self, functions, minions):
        """
        :param list functions: what minions are to run
        :param list minions: their ids
        :raises QueryRightsError: if he may not run one of them on one of these
        """


class MinionCaller(Caller):
    """A minion whose id the master has checked; it sees what Salt tells it."""

    def __init__(self, only):
        self.name = self.only = only

    def check_run(self, functions, minions):
        # the runner blocks the process of the master that would have to take the answers
        raise QueryRightsError(
            "Leave out the fields that ask minions: a minion that calls this runner"
            " gets none of them."
        )


class NamedCaller(Caller):
    """A user of ``external_auth`` or ``publisher_acl``.

    :param list lists: for each way in which he may have proven his name, what is allowed
    """

    def __init__(self, opts, name, lists):
        self.opts = opts
        self.name = name
        self.lists = lists

    def job_user(self):
        # The key is the master's: where an ordinary user runs it, it is good for other names
        # only as Salt notes them for sudo.
        own = {self.opts.get("user"), "root"}
        if salt.utils.user.get_user() in _TRUSTED or self.name in own:
            return self.name
        return self.name if self.name.startswith(_FOR) else _FOR + self.name

    def sees_pillars(self):
        check = salt.utils.minions.CkMinions(self.opts).runner_check
        return bool(self.lists) and all(
            check(one, PILLARS, {}) is True for one in self.lists
        )

    def check_run(self, functions, minions):
        check = salt.utils.minions.CkMinions(self.opts)
        blacklist = salt.acl.PublisherACL(
            self.opts.get("publisher_acl_blacklist") or {}
        )
        for function in functions:
            if blacklist.user_is_blacklisted(self.name):
                remedy = "take him out of publisher_acl_blacklist"
            elif blacklist.cmd_is_blacklisted(function):
                remedy = "take it out of publisher_acl_blacklist"
            elif not self.lists or not all(
                # these minions, also if the master finds none of them by their target
                check.auth_check(one, function, [], minions, "list", minions=minions)
                for one in self.lists
            ):
                remedy = "give him the function in external_auth"
            else:
                continue
            raise QueryRightsError(
                f"{self.name} may not run {function} on these minions: leave out the fields"
                f" that ask them, or {remedy}."
            )


def of_runner(opts, name):
    """Return who has called a runner, by its options and the name that it was told."""
    # The master's own options name no function. For a minion it adds "fun" and "doc" to
    # them, and the minion's id. Those of salt-run have both as well, and "async"; those of
    # Thorium "fun" and "async". The configuration of the master may have any of them, but
    # does not set "__cli".
    is_command = opts.get("__cli") in _COMMANDS
    if "fun" in opts and not ("async" in opts and (is_command or "doc" not in opts)):
        return MinionCaller(opts["id"])
    if is_command or name is None:
        return Caller()
    lists, whole = _lists(opts, name)
    own = {opts.get("user"), "root", salt.utils.user.get_user(), *_OWN_NAMES}
    if not lists and whole and (name in own or name.startswith(_FOR)):
        return Caller()
    return NamedCaller(opts, name, lists if whole else [])


def _lists(opts, name):
    """Return what each way to prove a name allows, and whether these are all ways."""
    ret = []
    whole = True
    checks = salt.utils.minions.CkMinions(opts)
    external = opts.get("external_auth") or {}
    auth = salt.auth.LoadAuth(opts) if external else None
    for eauth, config in external.items():
        try:
            found = auth.get_auth_list({"eauth": eauth, "username": name})
        except Exception as exc:  # pylint: disable=broad-except
            # such as groups that need his password
            log.warning("Could not ask %s for the rights of %s: %s", eauth, name, exc)
            whole = False
            continue
        if found and any(
            checks.runner_check(found, function, {}) is True for function in _FUNCTIONS
        ):
            ret.append(found)
        elif any(str(one).endswith("%") for one in config or ()) and not found:
            # it may not have said which groups he is in
            whole = False
    acl = salt.utils.master.get_values_of_matching_keys(
        opts.get("publisher_acl") or {}, name
    )
    if acl:
        ret.append(acl)
    return ret, whole
