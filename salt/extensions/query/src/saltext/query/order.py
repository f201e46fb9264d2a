"""
The order of items: by the values of fields, where a minus before a name turns it round.

What is missing comes last either way. See :mod:`saltext.query.compare` for the order of values.
"""

from saltext.query import compare
from saltext.query.errors import QueryError

#: The most fields to sort by.
MAX_FIELDS = 20


def names(given):
    """
    Return names that are given with commas between them as a list; anything else as it is.
    """
    if isinstance(given, str):
        return [name.strip() for name in given.split(",") if name.strip()]
    return given


def split(sort):
    """
    Return what to sort by: pairs of a name and whether the order is turned round.

    :param sort: names of fields, as a list or with commas between them; or None
    :raises QueryError: if it is no such list
    """
    sort = [] if sort is None else names(sort)
    if not isinstance(sort, (list, tuple)) or not all(
        isinstance(name, str) for name in sort
    ):
        raise QueryError("Give what to sort by as a list of names of fields.")
    if len(sort) > MAX_FIELDS:
        raise QueryError(f"Sort by at most {MAX_FIELDS} fields.")
    return [
        (name[1:] if name[:1] in ("-", "+") else name, name.startswith("-"))
        for name in sort
    ]


def ordered(decorated, turned):
    """
    Return pairs of the keys of something, and of the thing, in the order of the keys.

    :param list turned: for each key whether the order is turned round
    """
    for place in reversed(range(len(turned))):
        there = [one for one in decorated if one[0][place] is not None]
        gone = [one for one in decorated if one[0][place] is None]
        there.sort(key=lambda one, at=place: one[0][at], reverse=turned[place])
        decorated = there + gone
    return decorated


def key(cell):
    """
    Return what to sort a cell by, or None if it has no value.
    """
    status, value = cell
    return None if status else compare.sort_key(value)
