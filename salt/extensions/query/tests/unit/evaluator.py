"""
Filters as the page docs/query.md has them, evaluated by nothing but that page: no code of the
extension is used here.

A value is True, False or None for undefined. Items are dictionaries; what is not in them is
missing.
"""

import decimal
import functools
import itertools

_EARLY = ("alpha", "beta", "dev", "pre", "rc")


def _pieces(text):
    """
    Yield runs of digits as numbers and all else as texts.
    """
    for is_digit, run in itertools.groupby(
        text.lower(), lambda one: one in "0123456789"
    ):
        run = "".join(run)
        yield int(run) if is_digit else run


def _rank(piece, is_last, in_version):
    """
    Return where a piece that is no number stands: before the end of a text, or after it.
    """
    if not in_version:
        return 1
    word = piece.strip("-._")
    early = piece[0] == "~" or word in _EARLY or (word in ("a", "b") and not is_last)
    return -1 if early else 1


def compare_texts(one, other):
    """
    Return -1, 0 or 1 as one text is before, with or after the other.
    """
    if one == other:
        return 0
    left, right = list(_pieces(one)), list(_pieces(other))
    versions = [
        bool(found)
        and (
            isinstance(found[0], int)
            or (found[0] == "v" and len(found) > 1 and isinstance(found[1], int))
        )
        for found in (left, right)
    ]
    for place in range(max(len(left), len(right))):
        if place >= len(left) or place >= len(right):
            longer, found, sign = (
                (right, versions[1], -1)
                if place >= len(left)
                else (left, versions[0], 1)
            )
            piece = longer[place]
            if isinstance(piece, int):
                return sign
            return sign * _rank(piece, place == len(longer) - 1, found)
        mine, theirs = left[place], right[place]
        if mine == theirs and isinstance(mine, int):
            continue
        if isinstance(mine, int) != isinstance(theirs, int):
            # a text that begins with a number is before one that does not
            return -1 if isinstance(mine, int) else 1
        if isinstance(mine, int):
            return -1 if mine < theirs else 1
        ranks = [
            _rank(mine, place == len(left) - 1, versions[0]),
            _rank(theirs, place == len(right) - 1, versions[1]),
        ]
        if ranks[0] != ranks[1]:
            return -1 if ranks[0] < ranks[1] else 1
        if mine != theirs:
            return -1 if mine < theirs else 1
    return -1 if one < other else 1


def _number(text):
    digits = text[1:] if text[:1] in ("+", "-") else text
    whole, point, part = digits.partition(".")
    parts = [whole, part] if point else [whole]
    if all(one and set(one) <= set("0123456789") for one in parts):
        return decimal.Decimal(text)
    return None


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_same(found, wanted):
    """
    Return whether a field's value is the one that is written in a filter, which is a text.
    """
    if isinstance(found, bool):
        return wanted.lower() == ("true" if found else "false")
    if _is_number(found):
        number = _number(wanted)
        return number is not None and float(number) == found
    return found == wanted


def sign(found, wanted):
    """
    Return -1, 0, 1, or None where there is no order.
    """
    if isinstance(found, str):
        return compare_texts(found, wanted)
    if not _is_number(found):
        return None
    number = _number(wanted)
    if number is None:
        return None
    return (found > float(number)) - (found < float(number))


_SIGNS = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}


def evaluate(tree, item):
    """
    Return what a filter is for an item.

    :param tree: ``("and", ...)``, ``("or", ...)``, ``("not", x)``, ``("true", field)``,
        ``("missing", field)``, ``("in", field, values)``, ``("has", field, value)``, or an
        operator, a field and a value
    """
    word, *rest = tree
    if word == "not":
        inner = evaluate(rest[0], item)
        return None if inner is None else not inner
    if word in ("and", "or"):
        found = [evaluate(one, item) for one in rest]
        decides = word == "or"
        if decides in found:
            return decides
        return None if None in found else not decides
    if word == "missing":
        return rest[0] not in item
    if rest[0] not in item:
        return None
    value = item[rest[0]]
    if word == "true":
        return bool(value)
    if word == "in":
        return any(is_same(value, one) for one in rest[1])
    if word == "has":
        values = value if isinstance(value, list) else [value]
        return any(is_same(one, rest[1]) for one in values)
    if word in ("==", "!="):
        return is_same(value, rest[1]) is (word == "==")
    found = sign(value, rest[1])
    return None if found is None else found in _SIGNS[word]


text_order = functools.cmp_to_key(compare_texts)
