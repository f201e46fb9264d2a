"""
Answering a query: which items, in which order, which of them, and what of them.

Items come one after the other, and only what is asked for of them stays in memory.
"""

import time

import saltext.query.context
import saltext.query.field
import saltext.query.filters
from saltext.query.errors import QueryError

#: The most fields of a query.
MAX_FIELDS = 1000


class Query:
    """
    A query that is found to be right.

    :param ItemType itemtype: what is asked for
    :param list fields: names of fields, in the order of the columns
    :param rule: a filter, or None for all items
    :raises QueryError: if something is wrong with it
    """

    def __init__(self, itemtype, fields, rule=None):
        self.itemtype = itemtype
        self.fields = [
            itemtype.fields.get(name) or saltext.query.field.UnknownField(name)
            for name in _checked_names(fields)
        ]
        self.filter = saltext.query.filters.Filter(rule, itemtype.fields)
        self.names = (
            None
            if rule is None
            else saltext.query.filters.simple_names(rule, itemtype.fields)
        )

    @property
    def unknown(self):
        """
        The names of fields that don't exist, each once.
        """
        return list(
            dict.fromkeys(one.name for one in self.fields if one.kind == "unknown")
        )

    def definitions(self):
        """
        Return the definition of each column.
        """
        return [field.definition() for field in self.fields]

    def needs(self):
        """
        Return the data that the columns and the filter read.
        """
        return {
            need
            for field in [*self.fields, *self.filter.fields]
            for need in field.needs
        }

    def run(self, opts, limit=None, offset=0, clock=time.time):
        """
        Return the rows and how many there are in all.

        :param dict opts: the master's options
        :param int limit: return at most so many
        :param int offset: leave out so many before these
        :param callable clock: returns seconds since the epoch
        """
        _check_paging(limit, offset)
        end = None if limit is None else offset + limit
        context = saltext.query.context.Context(opts, self.needs(), clock())
        context.filter = self.filter
        filtered = any("live" in field.sources() for field in self.filter.fields)
        live = [
            place
            for place, field in enumerate(self.fields)
            if "live" in field.sources()
        ]
        found = self.itemtype.items(context, self.names)
        if filtered:
            found = self._narrowed(context, found)
        total = 0
        rows = []
        waiting = []
        for item in found:
            if self.names is None and self.filter.holds(item) is not True:
                continue
            if total >= offset and (end is None or total < end):
                if live and not filtered:
                    # asked for at once, and only of those that are on the page
                    waiting.append(item)
                    rows.append(None)
                else:
                    rows.append([field.cell(item) for field in self.fields])
            total += 1
        if waiting:
            context.ask_live(waiting)
            rows = [[field.cell(item) for field in self.fields] for item in waiting]
        return rows, total

    def _narrowed(self, context, found):
        """
        Return those items for which the filter may hold, and ask their minions at once
        for what it needs.
        """
        left = [item for item in found if self.filter.holds(item) is not False]
        context.ask_live(left)
        return left


def _checked_names(names):
    if not isinstance(names, (list, tuple)) or not all(
        isinstance(name, str) for name in names
    ):
        raise QueryError("Give the fields as a list of their names.")
    if len(names) > MAX_FIELDS:
        raise QueryError(f"Give at most {MAX_FIELDS} fields.")
    return names


def _check_paging(limit, offset):
    for name, value in (("limit", limit), ("offset", offset)):
        if name == "limit" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise QueryError(f"Give {name} as a number that is not negative.")
