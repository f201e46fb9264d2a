"""What the package managers have in common, and what they are asked and answer."""

import time
from typing import NamedTuple

import saltext.package_states.managers.journal as journal
import saltext.package_states.model.version as versions
from saltext.package_states.errors import PackageStateError
from saltext.package_states.model import condition
from saltext.package_states.model.decision import (
    IMPOSSIBLE,
    INSTALL,
    NOTHING,
    REMOVE,
    Decision,
    decide,
)
from saltext.package_states.model.item import ABSENT, LATEST

import salt.utils.systemd

# how often, with a second in between, the lock of another program is waited for
WAITS = 60
SCOPE = ("systemd-run", "--scope", "--description", "package states")
ENVIRONMENT = {"LC_ALL": "C", "LANG": "C", "SALT_RUNNING": "1"}


class Step(NamedTuple):
    key: str  # ``name`` or ``name:architecture``
    action: str  # INSTALL or REMOVE of model.decision
    version: str = ""  # to install, or the newest to remove; empty for a configuration
    versions: tuple = ()  # the versions to remove; all that are there if it is empty
    purge: bool = False  # whether the configuration goes too


class Solution(NamedTuple):
    """What the solver of a package manager makes of a transaction; tuples of keys are sorted"""

    removed: tuple = ()  # the packages that would go
    changed: tuple = ()  # those that would come or change their version
    problem: str = ""  # why it can't be done, in its own words, or an empty string
    # those whose version would give way to another one, but not a package that may be there in
    # several versions, such as a kernel
    replaced: tuple = ()


class Manager:
    """The package manager of a minion: its execution modules, options and ``__context__``

    A subclass has, beside what is here:

    - ``fetch(keys)``: ask for some packages at once what ``facts(key)`` returns for one, their
      :class:`saltext.package_states.model.decision.Facts`
    - ``installed()``: the versions of all packages that are there, tuples by key
    - ``held(key)``: whether somebody else holds a package; ``locked(key)``: or Salt does
    - ``essential(key)``: whether the system needs a package
    - ``providers(name)``: a list of the packages that are there and provide a name
    - ``unread()``: a tuple of the repositories that can't be read
    - ``loose()``: sentences on locks that the package manager itself says are not in force
    - ``solve(steps, items)``: the :class:`Solution` with the locks that would be in force
    - ``commit(steps, items)``: change packages, in one call, and return its complaint
    - ``recover(notes, check)``: tidy up after a run that was killed, where ``check`` of a
      :class:`Solution` returns no reason not to
    - ``locks(items, test, coming)``: set the locks of these items, in one step, release others
      that were set here, and return the changes, ``old`` and ``new`` by name; with ``test``
      only that. What is not as it should be keeps the lock that it has
    - ``everything()``: the keys of all packages that are told of, a list, and fetch them
    - ``repositories()``: by name the versions by key, the newest first
    - ``security()``: newer versions that mend security, lists by key, whatever is locked;
      None if none is told
    """

    # pylint: disable=no-member
    name = ""

    def __init__(self, salt, opts, context):
        self.salt = salt
        self.opts = opts
        self.context = context
        self.scope, self.spared, self.left = "", (), ()

    def within(self, scope="", spared=(), left=()):
        """Say whose locks are released: those of a state applied by itself, but for scopes and keys that stay"""
        self.scope, self.spared, self.left = scope, tuple(spared), tuple(left)

    def stays(self, key, owner):
        """Return whether a lock stays that is of no item of this run"""
        if key in self.left:
            return True
        return owner != self.scope if self.scope else owner in self.spared

    def refresh(self):
        """Let the package manager read the lists of its repositories anew"""
        self.salt["pkg.refresh_db"]()
        self.refreshed()

    def refreshed(self):
        """Forget what the repositories have, as their lists are new"""

    def recovered(self):
        """Check at the end of a run that nothing is left of the one that was killed"""

    def leftovers(self, notes):
        """Return what :meth:`recover` would remove, a list"""
        return []

    def inventory(self):
        """Return all packages, see :mod:`saltext.package_states.store.refresh`"""
        keys, found = self.everything(), {}
        self.readable()
        for key in keys:
            facts = self.facts(key)
            found[key] = {
                "versions": list(facts.installed),
                "available": list(facts.available),
                "candidate": facts.candidate,
                "held": self.locked(key),
                "orphan": bool(facts.installed) and not facts.available,
                "configured": facts.configured,
                "kept": facts.recorded,
                **({"broken": True} if facts.broken else {}),
            }
        return found

    def digests(self):
        return {
            versions.digest(self.name, name, packages): name
            for name, packages in self.repositories().items()
        }

    def _newer(self, found):
        """Return those versions that are newer than what is installed, lists by key"""
        installed, newer = self.installed(), {}
        for key in sorted(installed.keys() & found.keys()):
            there = versions.newest(self.name, installed[key])
            some = [
                one
                for one in versions.sort(self.name, set(found[key]))[::-1]
                if versions.compare(self.name, one, there) > 0
            ]
            if some:
                newer[key] = some
        return newer

    def ask(self, *command, env=None):
        """Return the whole answer of a command that changes nothing"""
        answer = self.salt["cmd.run_all"](
            list(command),
            python_shell=False,
            env={**ENVIRONMENT, **(env or {})},
            output_loglevel="quiet",
            ignore_retcode=True,
        )
        if answer["retcode"] < 0:
            raise PackageStateError(
                f"{command[0]} was ended by signal {-answer['retcode']}; apply the state"
                " again."
            )
        return answer

    def run(self, *command, env=None):
        answer = self.ask(*command, env=env)
        if answer["retcode"]:
            raise PackageStateError(
                f"{' '.join(command[:3])} failed: {answer['stderr'].strip()[-300:]}"
            )
        return answer["stdout"]

    def act(self, *command, env=None):
        """Return the whole answer of a command that changes packages, in a scope of its own, as Salt's ``pkg``
        runs it: else a restart of the minion's service, as by its own upgrade, would kill it
        """
        if salt.utils.systemd.has_scope(self.context) and self.salt["config.get"](
            "systemd.scope", True
        ):
            command = (*SCOPE, *command)
        return self.ask(*command, env=env)

    def decide(self, item):
        """Return what is to be done for an item, with a hold of somebody else in mind"""
        decision = decide(item, self.facts(item.key))
        if _asks_repositories(item) and self.unread():
            return Decision(
                IMPOSSIBLE,
                decision.version,
                f"{item.key} was left as it is, as {_those(self.unread())} can't be read;"
                " mend or disable what can't be read, then apply the state again.",
            )
        if (
            item.wanted in ABSENT
            and decision.action == NOTHING
            and not (decision.version or self.facts(item.key).available)
        ):
            others = self.providers(item.name)
            if others:
                return Decision(
                    IMPOSSIBLE,
                    "",
                    f"{item.key} is there by another name, as {', '.join(others)} provides"
                    " it; name that one.",
                )
        if decision.action in (INSTALL, REMOVE) and self.held(item.key):
            return Decision(
                IMPOSSIBLE,
                decision.version,
                f"{item.key} is held on the minion by somebody else; release the hold,"
                " or say unmanaged.",
            )
        return decision

    def offered(self, item):
        return [
            version
            for version in self.facts(item.key).available
            if condition.meets(self.name, version, item.condition)
        ]

    def wait(self, command, busy, env=None, do=None):
        """Return the answer of a command, waiting up to a minute while ``busy`` of an answer is true"""
        for _ in range(WAITS):
            answer = (do or self.act)(*command, env=env)
            if not busy(answer):
                return answer
            time.sleep(1)
        raise PackageStateError(
            f"{command[0]} was kept waiting for {WAITS} seconds by another program that"
            " changes packages; apply the state again when that is done."
        )

    def forget(self):
        """Let the module ``pkg`` forget what it has listed, maybe in an earlier job"""
        for key in list(self.context):
            if str(key).startswith("pkg.list_pkgs"):
                del self.context[key]

    def readable(self):
        """Check that all repositories can be read, as what they have is told as it is"""
        if self.unread():
            raise PackageStateError(
                f"{_those(self.unread())} can't be read, so it is not known what there is;"
                " mend or disable what can't be read, then refresh again."
            )

    def begin(self, steps, replaced=()):
        before = self.installed()
        journal.begin(
            {
                "steps": [list(step[:3]) for step in steps],
                "replaced": {key: before[key] for key in replaced if key in before},
            }
        )
        return before


def _asks_repositories(item):
    """Return whether the repositories decide what is right for a package, or what is locked out"""
    if item.wanted == LATEST:
        return True
    if item.wanted not in ABSENT or not item.condition:
        return False
    (operator, version), *more = item.condition
    return bool(more) or operator != "=" or condition.is_glob(version)


def _those(names):
    noun = "the repository" if len(names) == 1 else "the repositories"
    return f"{noun} {', '.join(names)}"
