"""Answering a query: which items, in which order, which of them, and what of them.

Items come one after the other, and only what is asked for of them stays in memory.
"""

import contextlib
import gc
import json
import math
import time

from saltext.query import compare, filters, search
from saltext.query.context import Context
from saltext.query.errors import QueryError, QueryRightsError, of_site
from saltext.query.field import Known
from saltext.query.item import Item

#: The most fields of a query.
MAX_FIELDS = 1000


class Query:
    """A query that is found to be right.

    :param ItemType itemtype: what is asked for
    :param list fields: names of fields, in the order of the columns
    :param rule: a filter, or None for all items
    :param sort: names of fields to sort by, see :mod:`saltext.query.compare`
    :param Known known: the fields that there are
    :param bool is_usual: whether the filter is the type's own, which nobody has given
    :raises QueryError: if something is wrong with it
    """

    def __init__(
        self, itemtype, fields, rule=None, sort=None, known=None, is_usual=False
    ):
        self.is_usual = is_usual
        self.itemtype = itemtype
        self.known = known or Known(itemtype.fields, itemtype.dynamic)
        checked = compare.checked(fields, MAX_FIELDS, "the fields")
        self.fields = [self.known.column(name) for name in checked]
        self._cells = [field.cell for field in self.fields]
        self.filter = filters.Filter(rule, self.known)
        sort = compare.split(sort)
        self.sort = [self.known.get(name, "Sort") for name, _ in sort]
        self.turned = [turned for _, turned in sort]
        self._is_host = self.known.fields[self.known.first].host
        # the place of each name that is asked for, or None
        self.names = None
        if self.filter.names is not None:
            self.names = {}
            for place, name in enumerate(self.filter.names):
                self.names.setdefault(self._folded(name), place)

    def _folded(self, name):
        return name.lower() if self._is_host else name

    def _asked(self, name):
        """Return what a name stands for of the names that are asked for."""
        known = compare.leading(name) if self._is_host else [name]
        return [one for one in known if one in self.names]

    def place(self, name):
        """Return the place of an item's name in the order without a sort."""
        asked = [] if self.names is None else self._asked(name)
        return min((self.names[one] for one in asked), default=-1)

    def definitions(self):
        """Return the definition of each column."""
        return [field.definition() for field in self.fields]

    def used(self):
        """Return the fields that it looks at."""
        return [*self.fields, *self.filter.fields, *self.sort]

    def context(self, opts, clock=time.time, **more):
        """Return what a run of this query reads with.

        :param more: ``caller``, ``target`` and ``live`` of
            :class:`saltext.query.context.Context`
        :raises QueryRightsError: if the caller may not have it
        """
        needs = {need for field in self.used() for need in field.needs}
        ret = Context(opts, needs, clock(), **more)
        self._check_rights(ret)
        ret.filter = self.filter
        ret.live_names = [field.name for field in self.fields if field.asks]
        return ret

    def _check_rights(self, context):
        caller, target = context.caller, context.target
        if caller.only is not None:
            if self.itemtype.name != "node" or "last_jobs" in context.wanted:
                raise QueryRightsError(
                    "Ask for nodes: a minion sees only its own node."
                )
            if "live" in context.wanted:
                # whether or not there is a node left to ask
                caller.check_run([], [caller.only])
            if target is not None:
                # Salt's matchers take as long as a regular expression of the minion's does
                raise QueryRightsError(
                    "Leave out the target: a minion sees only its own node."
                )
        if "pillar" in context.wanted or (
            target is not None and target.reads_pillars()
        ):
            caller.check_pillars()

    def run(self, context, limit=None, offset=0, room=None):
        """Return what is found: rows of cells, how many items there are in all, and where
        to go on, or None. The arguments are those of :func:`saltext.query.items`; ``room``
        takes a row, and what comes after the first for which there is none is only counted.
        """
        searches = self.filter.patterns or (context.target and context.caller.name)
        most = search.MAX_MINION_SECONDS if context.caller.only else search.MAX_SECONDS
        with contextlib.ExitStack() as stack:
            if not gc.get_freeze_count():
                # looking through all of Salt again and again takes longer than the query
                gc.freeze()
                stack.callback(gc.unfreeze)
            stack.enter_context(search.limited(most if searches else None))
            return self._page(context, limit, offset, room)

    def _page(self, context, limit, offset, room):
        items = self._items(context)
        if self.names is not None:
            items = sorted(items, key=lambda item: self.place(item.name))
        mark = None
        if isinstance(offset, str):
            mark, offset = _Mark(self, offset), math.inf
            items = mark.put_into(items)
        if self.sort:
            items = list(items)
            if any(field.asks for field in self.sort) and context.live is None:
                context.ask_live(one for one in items if one is not mark)
            pairs = [(self._keys(one), one) for one in items]
            items = compare.ordered(pairs, self.turned)
        total, rows, kept, last, is_full = 0, [], [], None, False
        for item in items:
            if item is mark:
                offset = total
                continue
            total += 1
            if total <= offset or is_full:
                continue
            row = None if len(rows) == limit else self._row(item)
            is_full = row is None or (room is not None and not room(row))
            if not is_full:
                rows.append(row)
                last = item
                if context.live_names and context.live is None:
                    kept.append(item)
        if kept:
            # asked for at once, and only of those that are on the page
            context.ask_live(kept)
            rows = [*map(self._row, kept)]
        return rows, total, self._token(last) if last is not None and is_full else None

    def _row(self, item):
        return [cell(item) for cell in self._cells]

    def _keys(self, item):
        if isinstance(item, _Mark):
            return item.values
        return [compare.cell_key(field.cell(item)) for field in self.sort]

    def _token(self, item):
        """Return where to go on after an item: its name, if that says it all."""
        values = [field.cell(item) for field in self.sort]
        plain = not item.name.isdecimal() and not item.name.startswith("[")
        if plain and not values and item.minion in (None, item.name):
            return item.name
        return json.dumps([item.key(), values])

    def _items(self, context):
        """Yield the items that are meant, in natural order."""
        holds = self.filter.holds
        only = context.caller.only
        chosen = None if only is None else {only}
        if context.target is not None:
            chosen = context.target.minions(context)
        found = self._listed(context, self.filter.names if only is None else [only])
        if chosen is not None:
            found = (item for item in found if item.minion in chosen)
        if any(field.asks for field in self.filter.fields):
            # only the minions of those for which it may hold are asked
            found = [item for item in found if holds(item) is not False]
            context.ask_live(found)
        for item in found:
            held = holds(item)
            if held is True:
                yield item
            elif held is False and self.is_usual:
                context.left_out += 1
            elif held is None and self.filter.lacks_data(item):
                # nobody waits for the data of a minion whose key is not accepted
                state = item.minion and context.keys.get(item.minion)
                context.undecided += state in (None, "accepted")

    def _listed(self, context, names):
        """Yield what the type has, and note the names that nothing has.

        :raises QueryError: if the module of a site is wrong
        """
        there = set()
        with of_site(f"item type {self.itemtype.name}"):
            for item in self.itemtype.items(context, names):
                if not isinstance(item, Item):
                    raise TypeError(f"it yields {item!r:.80}, which is no Item")
                if self.names is not None:
                    there.update(self._asked(item.name))
                yield item
        if context.caller.only is None:
            # a minion does not learn which others there are
            context.absent += [
                name
                for name in self.filter.names or ()
                if self._folded(name) not in there
            ]


class _Mark:
    """Stands among items after the last one of the page before, as ``next`` has it."""

    def __init__(self, query, after):
        self.query = query
        self.key, values = [after], []
        try:
            if after.startswith("["):
                self.key, values = json.loads(after)
                self.key = [str(one) for one in self.key]
            self.values = [compare.cell_key(cell) for cell in values]
            wrong = not self.key or len(values) != len(query.sort)
        except (ValueError, TypeError, RecursionError):
            wrong = True
        if wrong:
            raise QueryError(
                "Give offset as a number, or as 'next' of the page before."
            )

    def _place(self, key):
        names = [compare.text_key(one) for one in key[: len(self.key)]]
        return self.query.place(key[0]), names

    def put_into(self, items):
        """Yield items, which have no sort yet, and this one where it belongs."""
        own = self._place(self.key)
        is_in = False
        for item in items:
            if not is_in and self._place(item.key()) > own:
                is_in = True
                yield self
            yield item
        if not is_in:
            yield self


def check_paging(limit, offset):
    """Raise QueryError if this is no page."""
    limit = 0 if limit is None else limit
    offset = 0 if isinstance(offset, str) else offset
    for name, value in (("limit", limit), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise QueryError(f"Give {name} as a number that is not negative.")
