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

    def sorted(self, context, found, keep):
        """
        Return items in this order.

        :param found: items
        :param bool keep: whether all of them are shown, so that what has been read of
            them is needed again
        """
        if any("live" in field.sources() for field in self.fields):
            found = list(found)
            if context.live is None:
                context.ask_live(found)
        decorated = []
        for item in found:
            decorated.append(([key(field.cell(item)) for field in self.fields], item))
            if not keep:
                item.forget()
        for place in reversed(range(len(self.fields))):
            turned = self._turned[place]
            there = [one for one in decorated if one[0][place] is not None]
            gone = [one for one in decorated if one[0][place] is None]
            there.sort(key=lambda one, at=place: one[0][at], reverse=turned)
            decorated = there + gone
        return [item for _, item in decorated]


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
