"""
What the package managers have in common.
"""

from saltext.package_states.decision import (
    IMPOSSIBLE,
    INSTALL,
    NOTHING,
    REMOVE,
    Decision,
    decide,
)
from saltext.package_states.errors import PackageStateError


class Manager:
    """
    The package manager of a minion

    salt
        The execution modules, ``__salt__``.

    opts
        The options of the minion.

    context
        ``__context__``, where what was found is kept.
    """

    name = ""

    def __init__(self, salt, opts, context):
        self.salt = salt
        self.opts = opts
        self.context = context

    def fetch(self, keys):
        """
        Ask for some packages at once what :meth:`facts` returns for one
        """
        raise NotImplementedError

    def facts(self, key):
        """
        Return what is known of a package, :class:`saltext.package_states.decision.Facts`
        """
        raise NotImplementedError

    def held(self, key):
        """
        Return whether somebody else holds a package
        """
        raise NotImplementedError

    def essential(self, key):
        """
        Return whether the system needs a package
        """
        raise NotImplementedError

    def simulate(self, decision, key):
        """
        Return the names of all packages that would be removed, a sorted list
        """
        raise NotImplementedError

    def locks(self, items, test=False):
        """
        Set the locks of these items, and release all others that were set here

        :return: the changes, a dictionary of the name to ``old`` and ``new``
        """
        raise NotImplementedError

    def finish(self, item):
        """
        Set the lock that can be set only after a package was changed
        """

    def inventory(self):
        """
        Return all packages, see :mod:`saltext.package_states.refresh`
        """
        raise NotImplementedError

    def alias(self, key):
        """
        Return the name that the module ``pkg`` has for a package
        """
        return key

    def run(self, *command):
        """
        Return the output of a command

        :raises PackageStateError: if it fails
        """
        answer = self.salt["cmd.run_all"](
            list(command),
            python_shell=False,
            env={"LC_ALL": "C", "LANG": "C", "SALT_RUNNING": "1"},
            output_loglevel="quiet",
            ignore_retcode=True,
        )
        if answer["retcode"]:
            raise PackageStateError(
                f"{' '.join(command[:3])} failed: {answer['stderr'].strip()[-300:]}"
            )
        return answer["stdout"]

    def decide(self, item):
        """
        Return what is to be done for an item, with a hold of somebody else in mind
        """
        decision = decide(item, self.facts(item.key))
        if decision.action in (INSTALL, REMOVE) and self.held(item.key):
            return Decision(
                IMPOSSIBLE,
                decision.version,
                f"{item.key} is held on the minion by somebody else; release the hold,"
                " or say unmanaged.",
            )
        return decision

    def losses(self, item, decision, wanted=(), protected=()):
        """
        Return the packages that would go too, and why they must not

        :param Item item: what is applied
        :param Decision decision: what is to be done for it
        :param wanted: the names of the packages that other entries want to be there
        :param protected: the names of packages that must not be removed
        :return: a pair: the list of names, and a sentence that is empty if they may go
        """
        if decision.action == NOTHING or (
            decision.action == REMOVE and not decision.version
        ):
            return [], ""
        gone = self.simulate(decision, item.key)
        precious = [
            key
            for key in gone
            if key.partition(":")[0] in protected or self.essential(key)
        ]
        others = [key for key in gone if key != item.key]
        if precious:
            return (
                others,
                f"{', '.join(precious)} must not be removed: it is protected.",
            )
        missed = [key for key in others if key in wanted]
        if missed:
            return others, (
                f"{', '.join(missed)} would go too, which the package states want to be"
                " there; change one of the entries."
            )
        return others, ""

    def forget(self):
        """
        Let the module ``pkg`` forget what it has listed, maybe in an earlier job of this
        process
        """
        for key in list(self.context):
            if str(key).startswith("pkg.list_pkgs"):
                del self.context[key]

    def apply(self, item, decision):
        """
        Do what was decided, and return the changes

        :param Item item: what is applied
        :param Decision decision: what is to be done for it
        """
        alias = self.alias(item.key)
        # it compares with what is there, which somebody else may have changed since
        self.forget()
        if decision.action == INSTALL:
            return self.salt["pkg.install"](
                alias, version=decision.version, refresh=False
            )
        function = "pkg.purge" if item.wanted == "purged" else "pkg.remove"
        return self.salt[function](alias)
