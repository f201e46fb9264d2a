"""Salt's own targets: which minions its matchers choose, as far as the master can tell.
"""

import ast
import ipaddress
import re

from saltext.query.errors import QueryError
from saltext.query.search import TOO_LONG

import salt.exceptions
import salt.utils.minions

#: The matchers of types of targets.
_TESTED = {
    "pcre": "E",
    "grain": "G",
    "grain_pcre": "P",
    "pillar": "I",
    "pillar_exact": "I",
    "pillar_pcre": "J",
    "ipcidr": "S",
}

#: The types of targets that can be given.
TYPES = ("glob", "list", *_TESTED, "nodegroup", "compound")

#: The matchers of a compound target that do not look into pillars. A nodegroup may, and
#: so may a matcher of a later Salt.
_WITHOUT_PILLARS = (None, "G", "P", "L", "S", "E", "R", "T", "M")

#: What is between the matchers of a compound target, and what Python makes of it.
_OPERATORS = ("and", "or", "not", "(", ")")
_GRAMMAR = (ast.Expression, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.Constant)

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
        if tgt_type == "glob" and len(tgt.split()) > 1:
            raise QueryError(
                f"Correct the target {tgt!r:.80}: no id has a blank. Several ids are a target"
                " of the type list, and 'and' and 'or' belong to the type compound."
            )
        self.tgt = tgt
        self.tgt_type = tgt_type
        self._matchers = set()
        self._groups = [tgt] if tgt_type == "nodegroup" else []
        if tgt_type == "compound":
            self._read_compound()
        else:
            _check(_TESTED.get(tgt_type), tgt, tgt)

    def _read_compound(self):
        """Check what Salt would take for no minions at all."""
        words = re.sub(
            r"([()])(?=\s|$|[()])|(?<!\S)([()])", r" \1\2 ", self.tgt
        ).split()
        for word in words:
            if word not in _OPERATORS:
                self._read_matcher(word)
        rule = " ".join(word if word in _OPERATORS else "1" for word in words)
        try:
            # it has the grammar of Python
            parts = ast.walk(ast.parse(rule, mode="eval"))
            right = all(isinstance(part, _GRAMMAR) for part in parts)
        except (SyntaxError, RecursionError, MemoryError):
            right = False
        if not right:
            raise QueryError(
                f"Correct the target {self.tgt!r:.80}: put 'and' or 'or' between two matchers,"
                " a matcher behind each of them and 'not', and close each parenthesis."
            )

    def _read_matcher(self, word):
        # as Salt reads it: some matchers take a delimiter before the "@"
        found = salt.utils.minions.parse_target(word)
        matcher = found["engine"]
        if matcher is None and _MATCHER.match(word):
            raise QueryError(
                f"Use the matchers of Salt in the target, not {word!r:.80}; write"
                " L@ before the id of a minion that looks like one."
            )
        self._matchers.add(matcher)
        _check(matcher, found["pattern"], word, found["delimiter"] or ":")
        if matcher == "N":
            self._groups.append(found["pattern"])

    def reads_pillars(self):
        """Return whether it says something of pillars."""
        if self.tgt_type in ("pillar", "pillar_pcre", "pillar_exact", "nodegroup"):
            return True
        return not self._matchers.issubset(_WITHOUT_PILLARS)

    def minions(self, context):
        """Return the ids of the minions with an accepted key that it chooses. One whose
        grains the master does not know is not chosen by them.

        :raises QueryError: if there is no such nodegroup, or it can't be read
        """
        if self.tgt_type == "list":
            ids = self.tgt.split(",") if isinstance(self.tgt, str) else self.tgt
            context.absent.extend(one for one in ids if one and one not in context.keys)
        for group in self._groups:
            if group not in (context.opts.get("nodegroups") or {}):
                raise QueryError(
                    f"Give a nodegroup of the master's configuration, not {group!r:.80}."
                )
        checks = salt.utils.minions.CkMinions(context.opts)
        try:
            found = checks.check_minions(self.tgt, self.tgt_type, greedy=False)
        except salt.exceptions.SaltInvocationError:
            # a patched Salt has a limit of its own
            raise QueryError(TOO_LONG) from None
        if "ssh_minions" not in found:
            # it has logged what is wrong, and found nothing
            raise QueryError(
                f"Correct the target {self.tgt!r:.80}: Salt can't read it; the master's"
                " log says why."
            )
        return set(found["minions"]).intersection(
            name for name, state in context.keys.items() if state == "accepted"
        )


def _check(matcher, pattern, word, delimiter=":"):
    """
    :raises QueryError: if a matcher can't read its pattern; Salt's would log that, and choose
        nothing
    """
    try:
        if matcher == "S":
            ipaddress.ip_network(pattern, strict=False)
        elif matcher == "E":
            re.compile(pattern)
        elif matcher in ("P", "J"):
            re.compile(pattern.rpartition(delimiter)[2])
            re.compile(pattern)
        elif matcher in ("G", "I") and delimiter not in pattern:
            raise ValueError(f"it has no {delimiter!r} between a key and a value")
        elif not pattern:
            raise ValueError("it is empty")
    except (ValueError, re.error, OverflowError, RecursionError) as exc:
        raise QueryError(f"Correct the target {word!r:.80}: {exc}.") from None
