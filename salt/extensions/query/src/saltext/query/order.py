"""
The order of items: by the values of fields, where a minus before a name turns it round.

What is missing comes last either way. Texts are in natural order, as names are.
"""

import json

import saltext.query.natural
from saltext.query.errors import QueryError

#: The most fields to sort by.
MAX_FIELDS = 20


class Order:
    """
    :param sort: names of fields, as a list or with commas between them; or None
    :param Known known: the fields that there are
    :raises QueryError: if something is wrong with it

    :ivar list fields: the fields that it looks at
    """

    def __init__(self, sort, known):
        if isinstance(sort, str):
            sort = [name.strip() for name in sort.split(",") if name.strip()]
        sort = [] if sort is None else sort
        if not isinstance(sort, (list, tuple)) or not all(
            isinstance(name, str) for name in sort
        ):
            raise QueryError("Give what to sort by as a list of names of fields.")
        if len(sort) > MAX_FIELDS:
            raise QueryError(f"Sort by at most {MAX_FIELDS} fields.")
        self.fields = []
        self._turned = []
        for name in sort:
            plain = name[1:] if name[:1] in ("-", "+") else name
            field = known.find(plain)
            if field is None:
                raise QueryError(
                    f"Sort by a field that exists, not by {plain!r:.80}; a fields query"
                    " lists them."
                )
            self.fields.append(field)
            self._turned.append(name.startswith("-"))

    def __bool__(self):
        return bool(self.fields)

    def asks(self):
        """
        Return whether it takes what minions answer.
        """
        return any("live" in field.sources() for field in self.fields)

    def sorted(self, found, made):
        """
        Return what is made of items, in the order of the items.

        :param found: items, in natural order of their names
        :param callable made: takes an item and returns what to keep of it
        """
        fields = self.fields
        decorated = []
        for item in found:
            keys = [key(field.cell(item)) for field in fields]
            decorated.append((keys, made(item)))
        for place in reversed(range(len(fields))):
            there = [one for one in decorated if one[0][place] is not None]
            gone = [one for one in decorated if one[0][place] is None]
            there.sort(
                key=lambda one, at=place: one[0][at], reverse=self._turned[place]
            )
            decorated = there + gone
        return [kept for _, kept in decorated]


def kept_whole(item):
    """
    Return an item as it is.
    """
    return item


def kept_small(item):
    """
    Return an item without what has been read of it.
    """
    item.forget()
    return item


def key(cell):
    """
    Return what to compare a cell by, or None if it has no value.
    """
    status, value = cell
    if status:
        return None
    if isinstance(value, str):
        return (1, saltext.query.natural.key(value))
    if isinstance(value, (int, float)):
        return (0, value)
    return (2, json.dumps(value, sort_keys=True))
