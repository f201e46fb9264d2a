"""Filters: which items are meant.

A filter is a list of an operator and its operands, such as
``["&", ["=", "os", "Debian"], ["<", "mtotal", 4096]]``: ``|`` and ``&`` have any number of
filters, ``!`` has one; ``?`` (its value is true) and ``missing`` have one field; ``= == != < <= >
>= =~ =[]`` have a field and a value. The page of the project explains them; how values compare is
in :mod:`saltext.query.compare`.

What is missing is neither the same nor different, neither true nor false: each test of it but
``missing`` is undefined, and so is its opposite. Only items for which the whole filter is true
are meant. Everything that can be wrong with a filter is found before any item is read.
"""

import operator
import time

from saltext.query import compare, human, kinds, search
from saltext.query.errors import QueryError

#: How deep filters may be within each other.
MAX_LEVELS = 10

#: The most operators in a filter. Values that one field is compared with count as one.
MAX_TERMS = 1000

#: The most values that one field is compared with.
MAX_NAMES = 100_000

_ORDER = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUAL = ("=", "==")
# how many operands each operator has
_OPERANDS = {
    **dict.fromkeys(("!", "?", "missing"), 1),
    **dict.fromkeys((*_EQUAL, "!=", *_ORDER, "=~", "=[]"), 2),
}
_WORDS = {"text": "a string", "bool": "true or false", "other": "what JSON can write"}
# the kinds of fields that some operators take
_FIELDS = {
    **dict.fromkeys(_ORDER, ("text", *sorted(kinds.NUMERIC))),
    "=~": ("text",),
    "=[]": ("other",),
}


class Filter:
    """
    :param rule: a filter, or None for all items
    :param Known known: the fields that there are
    :raises QueryError: if something is wrong with it

    :ivar list fields: the fields that it looks at
    :ivar list patterns: the regular expressions that it searches for
    :ivar names: the names of the items that are meant, each once, if it says nothing else: the
        filter of the specification, ``["|", ["=", "name", "web1"], ...]``; else None
    """

    def __init__(self, rule, known):
        self.fields = []
        self.patterns = []
        self.names = None
        self._known = known
        self._terms = 0
        self._test = None
        if rule is not None:
            self._test = self._compile(rule, MAX_LEVELS)
            field, values = _one_of(rule, self._known) or (None, ())
            if field is not None and self._known.first in (field.name, field.alias_of):
                self.names = list(dict.fromkeys(values))

    def holds(self, item):
        """Return True, False, or None if what it takes to know is missing."""
        return True if self._test is None else self._test(item)

    def lacks_data(self, item):
        """Return whether a field has no data, or a text is too long to be searched."""
        cells = [field.cell(item) for field in self.fields]
        most = search.MAX_THREAD_TEXT
        return any(
            status == kinds.NODATA or (isinstance(value, str) and len(value) > most)
            for status, value in cells
        )

    def _compile(self, rule, levels):
        """Return a function that takes an item."""
        if not isinstance(rule, (list, tuple)) or not rule:
            raise QueryError(
                f"Give a filter as a list of an operator and its operands, not {rule!r:.80}."
            )
        self._terms += 1
        if levels == 0 or self._terms > MAX_TERMS:
            raise QueryError(
                f"Give a filter of at most {MAX_TERMS} comparisons, in at most {MAX_LEVELS}"
                " levels within each other: each 'and', 'or' and 'not' counts as one."
            )
        word, operands = rule[0], rule[1:]
        if word in ("|", "&"):
            found = _one_of(rule, self._known) if len(operands) > 1 else None
            if found is not None:
                return self._leaf(found[0], _equal_to_any(*found))
            return _junction(
                [self._compile(one, levels - 1) for one in operands], word == "|"
            )
        if not isinstance(word, str) or word not in _OPERANDS:
            known = " ".join(("|", "&", *_OPERANDS))
            raise QueryError(f"Use one of the operators {known}, not {word!r:.80}.")
        count = _OPERANDS[word]
        if len(operands) != count:
            raise QueryError(
                f"Give the operator {word!r} {count} operand{'s' * (count > 1)},"
                f" not {len(operands)}."
            )
        if word == "!":
            return _negation(self._compile(operands[0], levels - 1))
        field = self._known.get(operands[0], "Filter")
        if word == "missing":
            self._leaf(field, bool)
            return _missing(field)
        if word == "?":
            return self._leaf(field, bool)
        value = operands[1]
        taken = _FIELDS.get(word, kinds.KINDS)
        if field.kind not in taken and not field.loose:
            raise QueryError(
                f"Use {word!r} with fields of the kinds {', '.join(taken)}: the field"
                f" {field.name!r} is of the kind {field.kind!r}."
            )
        if word in _ORDER:
            return self._leaf(field, _ordered(field, value, word), field.manager)
        if word == "=~":
            self.patterns.append(value)
            return self._leaf(field, _found(field, value))
        if word == "=[]":
            return self._leaf(field, _contained(_checked(field, value, "other")))
        test = self._leaf(field, _equal(field, value))
        return _negation(test) if word == "!=" else test

    def _leaf(self, field, test, manager=None):
        if field not in self.fields:
            self.fields.append(field)
        cell = field.cell

        def holds(item):
            status, value = cell(item)
            if status:
                return None
            return test(value) if manager is None else test(value, manager(item))

        return holds


def _one_of(rule, known, levels=MAX_LEVELS):
    """Return the field and the values of a filter for one of these values, or None."""
    if not isinstance(rule, (list, tuple)) or not rule or levels == 0:
        return None
    if rule[0] == "|" and len(rule) > 1:
        found = [_one_of(one, known, levels - 1) for one in rule[1:]]
        if (
            None in found
            or len({field.alias_of or field.name for field, _ in found}) > 1
        ):
            return None
        values = [value for _, values in found for value in values]
        if len(values) > MAX_NAMES:
            raise QueryError(f"Give at most {MAX_NAMES} values for one field.")
        return found[0][0], values
    if len(rule) != 3 or rule[0] not in _EQUAL or not isinstance(rule[1], str):
        return None
    field = known.find(rule[1])
    if field is None or not isinstance(rule[2], str):
        return None
    return field, [rule[2]]


# Three-valued logic: True, False, and None for what can't be known


def _junction(tests, decides):
    """Return the conjunction, or the disjunction, which True decides."""

    def holds(item):
        ret = not decides
        for test in tests:
            value = test(item)
            if value is decides:
                return decides
            if value is None:
                ret = None
        return ret

    return holds


def _negation(test):
    def holds(item):
        value = test(item)
        return None if value is None else not value

    return holds


def _missing(field):
    def holds(item):
        status, _ = field.cell(item)
        return None if status == kinds.PENDING else bool(status)

    return holds


# Comparisons: each returns a function of the field's value


def _checked(field, value, kind=None):
    """Return a value in the field's own terms.

    :raises QueryError: if it is of another kind
    """
    kind = kind or field.kind
    if kind in kinds.NUMERIC:
        found = None
        if isinstance(value, str):
            if kind == "unit":
                found = human.size(value)
            elif kind == "timestamp":
                found = human.date(value)
            elif field.span:
                found = human.seconds(value)
        value = value if found is None else found
        kind = "float"
    if not kinds.is_kind(kind, value):
        raise QueryError(
            f"Compare the field {field.name!r} with {_WORDS.get(kind, 'a number')}, not with"
            f" {value!r:.80}."
        )
    return value


def _equal(field, value):
    if field.loose or field.kind == "other":
        wanted = _checked(field, value, "other")
        return lambda found: compare.same(found, wanted)
    value = _checked(field, value)
    if field.host:
        return _equal_to_any(field, [value])
    return lambda found: found == value


def _equal_to_any(field, values):
    if field.host:
        hosts = {_checked(field, value).lower() for value in values}
        return lambda found: not hosts.isdisjoint(compare.leading(found))
    if field.kind == "text":
        return frozenset(_checked(field, value) for value in values).__contains__
    tests = [_equal(field, value) for value in values]
    return lambda found: any(test(found) for test in tests)


def _ordered(field, value, word):
    decide = _ORDER[word]
    if not field.loose:
        if field.kind == "timestamp" and isinstance(value, str):
            age = human.seconds(value)
            if age is not None:
                now = time.time()
                return lambda found: decide(now - found, age)
        value = _checked(field, value)

    def test(found, manager=None):
        sign = compare.version_order(manager, found, value)
        return None if sign is None else decide(sign, 0)

    return test


def _found(field, value):
    pattern = search.compiled(_checked(field, value, "text"))
    return lambda found: pattern(found) if isinstance(found, str) else None


def _contained(value):
    same = compare.same
    return lambda found: (
        any(same(one, value) for one in found)
        if isinstance(found, (list, tuple, dict))
        # a list of one is often written without its brackets
        else same(found, value)
    )
