"""
Salt's own targets: which minions its matchers choose, as far as the master can tell.
"""

import re
import threading

import saltext.query.regex
from saltext.query.errors import QueryError, QueryTooDearError

import salt.utils.minions

#: The types of targets that can be given.
TYPES = (
    "glob",
    "pcre",
    "list",
    "grain",
    "grain_pcre",
    "pillar",
    "pillar_pcre",
    "pillar_exact",
    "nodegroup",
    "ipcidr",
    "compound",
)

#: Seconds of processor time that Salt's matchers may take for others than the master's user.
MAX_SECONDS = 30

#: The matchers of a compound target that do not look into pillars. A nodegroup may, and
#: so may a matcher of a later Salt.
_WITHOUT_PILLARS = (None, "G", "P", "L", "S", "E", "R", "T", "M")

#: What looks like a matcher. Salt takes one that it does not have for the name of a minion.
_MATCHER = re.compile("[A-Z].?@")


class Target:
    """
    :param tgt: as on Salt's command line; a list may be one of Python's
    :param str tgt_type: one of :data:`TYPES`
    :raises QueryError: if there is no such type
    """

    def __init__(self, tgt, tgt_type="glob"):
        if tgt_type not in TYPES:
            raise QueryError(
                f"Give one of the types of targets {', '.join(TYPES)}, not"
                f" {tgt_type!r:.80}."
            )
        if not isinstance(tgt, str) and not (
            tgt_type == "list"
            and isinstance(tgt, (list, tuple))
            and all(isinstance(one, str) for one in tgt)
        ):
            raise QueryError("Give the target as a text.")
        self.tgt = tgt
        self.tgt_type = tgt_type
        # as Salt reads it: some matchers take a delimiter before the "@"
        self._matchers = set()
        for word in tgt.split() if tgt_type == "compound" else ():
            matcher = salt.utils.minions.parse_target(word)["engine"]
            if matcher is None and _MATCHER.match(word):
                raise QueryError(
                    f"Use the matchers of Salt in the target, not {word!r:.80}; write"
                    " L@ before the id of a minion that looks like one."
                )
            self._matchers.add(matcher)

    def reads_pillars(self):
        """
        Return whether it says something of pillars.
        """
        if self.tgt_type in ("pillar", "pillar_pcre", "pillar_exact", "nodegroup"):
            return True
        return not self._matchers.issubset(_WITHOUT_PILLARS)

    def minions(self, context):
        """
        Return the ids of the minions with an accepted key that it chooses. One whose
        grains the master does not know is not chosen by them.

        :raises QueryError: if there is no such nodegroup, or it can't be read
        """
        groups = context.opts.get("nodegroups") or {}
        if self.tgt_type == "nodegroup" and self.tgt not in groups:
            raise QueryError(
                f"Give a nodegroup of the master's configuration, not {self.tgt!r:.80}."
            )
        found = self._limited(context, salt.utils.minions.CkMinions(context.opts))
        if "ssh_minions" not in found:
            # it has logged what is wrong, and found nothing
            raise QueryError(
                f"Correct the target {self.tgt!r:.80}: Salt can't read it; the master's"
                " log says why."
            )
        return set(found["minions"]).intersection(
            name for name, state in context.keys.items() if state == "accepted"
        )

    def _limited(self, context, checks):
        """
        Return what Salt's matchers find, in limited time for whoever may not do what he
        wants on the master anyway: Python's regular expressions have no end.
        """

        def check(tgt):
            return checks.check_minions(tgt, self.tgt_type, greedy=False)

        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or context.asked is None or context.asked.caller.name is None:
            return check(self.tgt)
        budget = saltext.query.regex.Budget()
        budget.left = MAX_SECONDS
        try:
            return budget.run(check, self.tgt, self.tgt)
        except QueryTooDearError:
            raise QueryTooDearError(
                f"Make the target {self.tgt!r:.80} simpler: Salt's matchers take too long"
                " for it."
            ) from None
