"""
Filters: which items are meant.

A filter is a list of an operator and its operands, such as
``["&", ["=", "os", "Debian"], ["<", "mtotal", 4096]]``:

==================  ============================================================
``|`` ``&``         any number of filters: one of them holds, all of them hold
``!``               one filter: it does not hold
``?``               one field: it has a value that is true. Not so if it is missing
``=`` or ``==``     a field and a value: they are the same
``!=``              a field and a value: they differ
``<`` ``<=``        a field and a value: the field's is the smaller one
``>`` ``>=``        a field and a value: the field's is the greater one
``=~``              a field and a regular expression, which is found in it anywhere
``=[]``             a field and a value, which is in the field's list
==================  ============================================================

Against a size, ``"4G"`` and the like are numbers as well. Against a time, so are dates
(``"2026-11-21"``); with an age (``"7d"``) it is the age that is compared:
``[">", "seen_ts", "7d"]`` is what was seen more than seven days ago. The values of a field
whose kind is not known before compare with values of their own kind; with all others they
are neither the same nor in an order.

What is missing is neither the same nor different: a comparison with it is neither true
nor false, and so is its opposite. Only items for which the whole filter is true are
meant. Everything that can be wrong with a filter is found before any item is read.
"""

import functools
import operator
import time

import saltext.query.field
import saltext.query.human
import saltext.query.kinds
import saltext.query.natural
import saltext.query.regex
from saltext.query.errors import QueryError, QueryTooDearError

#: How deep filters may be within each other.
MAX_LEVELS = 10

#: The most operators in a filter, unless it only names items. All of them count, as each
#: is looked at for each item.
MAX_TERMS = 1000

#: The most items that can be named.
MAX_NAMES = 100_000

_ORDER = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS = {"text": "a string", "bool": "true or false"}


class Filter:
    """
    :param rule: a filter, or None for all items
    :param fields: the fields of the item type, by name, or a
        :class:`saltext.query.field.Known`
    :raises QueryError: if something is wrong with it

    :ivar list fields: the fields that it looks at
    """

    def __init__(self, rule, fields):
        self.fields = []
        self._known = saltext.query.field.known(fields)
        self._terms = 0
        self._names = False
        self._test = None
        self._budget = saltext.query.regex.Budget()
        if rule is not None:
            self._names = simple_names(rule, self._known) is not None
            self._test, _ = self._compile(rule, MAX_LEVELS)

    def holds(self, item):
        """
        Return whether an item is meant: True, False, or None if what it takes to know
        is missing.
        """
        return True if self._test is None else self._test(item)

    def watch(self):
        """
        Return a context in which many items are looked at: see
        :meth:`saltext.query.regex.Budget.watch`.
        """
        return self._budget.watch()

    def _compile(self, rule, levels):
        """
        Return a function that takes an item, and how dear it is.
        """
        if not isinstance(rule, (list, tuple)) or not rule:
            raise QueryError(
                f"Give a filter as a list of an operator and its operands, not {rule!r:.80}."
            )
        if levels == 0:
            raise QueryError(
                f"Give a filter with at most {MAX_LEVELS} levels within each other."
            )
        self._count()
        word, operands = rule[0], rule[1:]
        if word in ("|", "&"):
            return _junction(
                [self._compile(one, levels - 1) for one in operands], word == "|"
            )
        if word == "!":
            _arity(word, operands, 1)
            test, cost = self._compile(operands[0], levels - 1)
            return _negation(test), cost
        if word == "?":
            _arity(word, operands, 1)
            field = self._field(operands[0])
            return _truth(field), field.cost
        if not isinstance(word, str) or word not in _COMPARISONS:
            known = " ".join(["| & ! ?", *_COMPARISONS])
            raise QueryError(f"Use one of the operators {known}, not {word!r:.80}.")
        _arity(word, operands, 2)
        field = self._field(operands[0])
        if word == "=~":
            compare = _found(word, field, operands[1], self._budget)
        else:
            compare = _COMPARISONS[word](word, field, operands[1])
        return _leaf(field, compare), field.cost

    def _count(self):
        self._terms += 1
        most = MAX_NAMES if self._names else MAX_TERMS
        if self._terms > most:
            raise QueryTooDearError(
                f"Give a filter of at most {most} comparisons: each 'and', 'or' and 'not'"
                " counts as one."
            )

    def _field(self, name):
        field = self._known.find(name)
        if field is None:
            raise QueryError(
                f"Filter by a field that exists, not by {name!r:.80};"
                " a fields query lists them."
            )
        if field not in self.fields:
            self.fields.append(field)
        return field


def simple_names(rule, fields):
    """
    Return the names that a filter consists of, each once and in their order, or None if
    there is more to it.

    This is the filter of the specification: ``["|", ["=", "name", "web1"], ...]``.

    One ``|`` may be within another, as the parts of a request are put together.

    :param fields: the fields of the item type, by name, of which the first one is the
        items' name; or a :class:`saltext.query.field.Known`
    """
    ret = {}
    known = saltext.query.field.known(fields)
    return list(ret) if _collect_names(rule, known, ret, MAX_LEVELS) else None


def _collect_names(rule, known, ret, levels):
    if not isinstance(rule, (list, tuple)) or not rule or levels == 0:
        return False
    if rule[0] == "|":
        return all(_collect_names(one, known, ret, levels - 1) for one in rule[1:])
    if len(rule) != 3:
        return False
    word, name, value = rule
    if word not in ("=", "==") or not isinstance(value, str):
        return False
    if not isinstance(name, str) or name not in known.fields:
        return False
    if known.first not in (name, known.fields[name].alias_of):
        return False
    ret[value] = None
    return True


def _arity(word, operands, count):
    if len(operands) != count:
        raise QueryError(
            f"Give the operator {word!r} {count} operand{'s' * (count > 1)},"
            f" not {len(operands)}."
        )


# ----------------------------------------------------------------------
# Three-valued logic: True, False, and None for what can't be known
# ----------------------------------------------------------------------


def _junction(compiled, decides):
    """
    Return the conjunction or disjunction, which looks at what is cheap first and at
    nothing more than it needs.

    :param bool decides: which value decides: True for a disjunction
    """
    compiled.sort(key=operator.itemgetter(1))
    tests = [test for test, _ in compiled]

    def holds(item):
        ret = not decides
        for test in tests:
            value = test(item)
            if value is decides:
                return decides
            if value is None:
                ret = None
        return ret

    return holds, max((cost for _, cost in compiled), default=0)


def _negation(test):
    def holds(item):
        value = test(item)
        return None if value is None else not value

    return holds


def _truth(field):
    """
    Return whether there is a value that is true.
    """
    cell = field.cell

    def holds(item):
        status, value = cell(item)
        return None if status == saltext.query.kinds.PENDING else bool(value)

    return holds


def _leaf(field, compare):
    cell = field.cell

    def holds(item):
        status, value = cell(item)
        return None if status else compare(value)

    return holds


# ----------------------------------------------------------------------
# Comparisons. Each of these takes an operator, a field and a value, and returns a
# function of the field's value.
# ----------------------------------------------------------------------


def _checked(word, field, value):
    """
    Return a value in the field's own terms.
    """
    if field.kind in saltext.query.kinds.NUMERIC:
        if isinstance(value, str):
            value = _number(field, value, value)
        right = saltext.query.kinds.is_kind("float", value)
    else:
        right = saltext.query.kinds.is_kind(field.kind, value)
    if not right:
        raise QueryError(
            f"Compare the field {field.name!r} by {word!r} with"
            f" {_WORDS.get(field.kind, 'a number')}, not with {value!r:.80}."
        )
    return value


def _number(field, text, default):
    """
    Return the number that people mean by a text.
    """
    found = None
    if field.kind == "unit":
        found = saltext.query.human.size(text)
    elif field.kind == "timestamp":
        found = saltext.query.human.date(text)
    elif field.span:
        found = saltext.query.human.seconds(text)
    return default if found is None else found


def _equal(word, field, value):
    if field.loose:
        return functools.partial(_loosely_same, value)
    value = _checked(word, field, value)
    if field.host:
        return lambda found: saltext.query.natural.is_host(found, value)
    return lambda found: _same(found, value)


def _loosely_same(value, found):
    """
    Return whether two values are the same, where a number may be written as a text:
    nobody knows how the next minion has it.
    """
    if isinstance(found, str) and saltext.query.kinds.is_kind("float", value):
        return found == str(value)
    return _same(found, value)


def _same(one, other):
    """
    Return whether two values are the same; True and 1 are not.
    """
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _same(value, other[key]) for key, value in one.items()
        )
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _differ(word, field, value):
    equal = _equal(word, field, value)
    return lambda found: not equal(found)


def _ordered(word, field, value):
    compare = _ORDER[word]
    if field.loose:
        return functools.partial(_loosely_ordered, compare, value)
    if field.kind not in saltext.query.kinds.NUMERIC and field.kind != "text":
        raise QueryError(
            f"Ask for the order of texts and numbers only: the field {field.name!r}"
            f" is of the kind {field.kind!r}."
        )
    if field.kind == "timestamp" and isinstance(value, str):
        age = saltext.query.human.seconds(value)
        if age is not None:
            now = time.time()
            return lambda found: compare(now - found, age)
    value = _checked(word, field, value)
    return lambda found: compare(found, value)


def _loosely_ordered(compare, value, found):
    for kind in ("text", "float"):
        if saltext.query.kinds.is_kind(kind, value):
            if saltext.query.kinds.is_kind(kind, found):
                return compare(found, value)
    return None


def _found(word, field, value, budget=None):
    if field.kind != "text" and not field.loose:
        raise QueryError(
            f"Use {word!r} with fields of the kind 'text' only: the field"
            f" {field.name!r} is of the kind {field.kind!r}."
        )
    if not isinstance(value, str):
        raise QueryError(
            f"Compare the field {field.name!r} by {word!r} with a string, not with"
            f" {value!r:.80}."
        )
    search = saltext.query.regex.Regex(value, budget).search
    if field.loose:
        return lambda found: search(found) if isinstance(found, str) else None
    return search


def _contained(word, field, value):
    if field.kind != "other":
        raise QueryError(
            f"Use {word!r} with lists only, which are of the kind 'other': the field"
            f" {field.name!r} is of the kind {field.kind!r}."
        )
    if not saltext.query.kinds.is_kind("other", value):
        raise QueryError(
            f"Look in a list for what JSON can write, not for {value!r:.80}."
        )
    return lambda found: (
        any(_same(one, value) for one in found)
        if isinstance(found, (list, tuple, dict))
        # a list of one is often written without its brackets
        else _same(found, value)
    )


_COMPARISONS = {
    "=": _equal,
    "==": _equal,
    "!=": _differ,
    "<": _ordered,
    "<=": _ordered,
    ">": _ordered,
    ">=": _ordered,
    "=~": _found,
    "=[]": _contained,
}
