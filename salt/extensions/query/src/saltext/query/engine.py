"""
Answering a query: which items, in which order, which of them, and what of them.

Items come one after the other, and only what is asked for of them stays in memory.
"""

import collections
import contextlib
import json
import time

import saltext.query.compare
import saltext.query.context
import saltext.query.field
import saltext.query.filters
import saltext.query.order
import saltext.query.search
from saltext.query.errors import QueryError, QueryRightsError, of_site
from saltext.query.item import Item

#: The most fields of a query.
MAX_FIELDS = 1000

#: What a run has found: rows of cells; how many items there are in all; where to go on, or
#: None.
Page = collections.namedtuple("Page", "rows total next")


class Query:
    """
    A query that is found to be right.

    :param ItemType itemtype: what is asked for
    :param list fields: names of fields, in the order of the columns
    :param rule: a filter, or None for all items
    :param sort: names of fields to sort by, see :mod:`saltext.query.order`
    :param Known known: the fields that there are
    :param bool is_usual: whether the filter is the type's own, which nobody has given
    :raises QueryError: if something is wrong with it
    """

    def __init__(
        self, itemtype, fields, rule=None, sort=None, known=None, is_usual=False
    ):
        self.is_usual = is_usual
        self.itemtype = itemtype
        self.known = known or saltext.query.field.Known(
            itemtype.fields, itemtype.dynamic
        )
        self.fields = [
            self.known.find(name) or saltext.query.field.UnknownField(name)
            for name in _checked_names(fields)
        ]
        self.filter = saltext.query.filters.Filter(rule, self.known)
        self.sort = saltext.query.order.Order(sort, self.known)
        self._is_host = self.known.fields[self.known.first].host
        names = self.filter.names
        # the place of each name that is asked for, or None
        self.names = None
        if names is not None:
            self.names = {}
            for place, name in enumerate(names):
                self.names.setdefault(self.folded(name), place)

    def folded(self, name):
        """
        Return a name as names are compared.
        """
        return name.lower() if self._is_host else name

    def leading(self, item):
        """
        Return the names that an item has.
        """
        if self._is_host:
            return saltext.query.compare.leading(item.name)
        return [item.name]

    def place(self, item):
        """
        Return the place of an item's name among those that are asked for.
        """
        return min(
            (self.names[name] for name in self.leading(item) if name in self.names),
            default=-1,
        )

    def definitions(self):
        """
        Return the definition of each column.
        """
        return [field.definition() for field in self.fields]

    def used(self):
        """
        Return the fields that it looks at.
        """
        return [*self.fields, *self.filter.fields, *self.sort.fields]

    def context(self, opts, clock=time.time, **more):
        """
        Return what a run of this query reads with.

        :param dict opts: the master's options
        :param callable clock: returns seconds since the epoch
        :param more: ``caller``, ``target`` and ``live`` of
            :class:`saltext.query.context.Context`
        :raises QueryRightsError: if the caller may not have it
        """
        needs = {need for field in self.used() for need in field.needs}
        ret = saltext.query.context.Context(opts, needs, clock(), **more)
        self._check_rights(ret)
        ret.filter = self.filter
        ret.live_names = [
            field.name for field in self.fields if "live" in field.sources()
        ]
        return ret

    def _check_rights(self, context):
        sources = {one for field in self.used() for one in field.sources()}
        only, target = context.caller.only, context.target
        if only is not None:
            if self.itemtype.name != "node" or "last_jobs" in sources:
                raise QueryRightsError(
                    "Ask for nodes: a minion sees only its own node."
                )
            if "live" in sources:
                # whether or not there is a node left to ask
                context.caller.check_run([], [only])
            if target is not None:
                # Salt's matchers take as long as a regular expression of the minion's does
                raise QueryRightsError(
                    "Leave out the target: a minion sees only its own node."
                )
        if "pillar" in sources:
            context.caller.check_pillars()
        if target is not None and target.reads_pillars():
            try:
                context.caller.check_pillars()
            except QueryRightsError as exc:
                raise QueryRightsError(
                    f"This target looks into pillars. {exc}"
                ) from None

    def run(self, context, limit=None, offset=0, room=None):
        """
        Return what is found.

        :param Context context: see :meth:`context`
        :param int limit: return at most so many
        :param offset: leave out so many before these, or go on after ``next`` of the page
            before
        :param callable room: takes a row and returns whether there is room for it; what
            comes after the first for which there is none is only counted
        :rtype: Page
        """
        check_paging(limit, offset)
        caller = context.caller
        limit_of_time = contextlib.nullcontext()
        by_others = context.target is not None and caller.name is not None
        if self.filter.patterns or by_others:
            limit_of_time = saltext.query.search.limited(
                saltext.query.search.MAX_SECONDS
                if caller.only is None
                else saltext.query.search.MAX_MINION_SECONDS
            )
        with limit_of_time:
            ret = self._page(context, limit, offset, room)
        if caller.only is not None:
            context.absent.clear()
        return ret

    def _page(self, context, limit, offset, room):
        items = self._items(context)
        if self.names is not None:
            items = sorted(items, key=self.place)
        after, offset = (offset, 0) if isinstance(offset, str) else (None, offset)
        if self.sort:
            if self.sort.asks() and context.live is None:
                items = list(items)
                context.ask_live(items)
            if limit is None and after is None and room is None:
                if not context.live_names:
                    # rows are smaller than what has been read for them
                    rows = self.sort.sorted(items, self._row)
                    return Page(rows[offset:], len(rows), None)
            items = self.sort.sorted(items, lambda item: item)
        start = _Start(self, after)
        asks = bool(context.live_names) and context.live is None
        end = None if limit is None else offset + limit
        total = seen = 0
        rows, kept, last, is_full = [], [], None, False
        for item in items:
            total += 1
            if not start.is_before(item):
                continue
            seen += 1
            if seen <= offset or (end is not None and seen > end) or is_full:
                continue
            row = self._row(item)
            if room is not None and not room(row):
                is_full = True
                continue
            last = item
            rows.append(row)
            if asks:
                kept.append(item)
        if kept:
            # asked for at once, and only of those that are on the page
            context.ask_live(kept)
            rows = [*map(self._row, kept)]
        goes_on = last is not None and seen > offset + len(rows)
        return Page(rows, total, start.token(last) if goes_on else None)

    def _row(self, item):
        return [field.cell(item) for field in self.fields]

    def _items(self, context):
        """
        Yield the items that are meant, in natural order.
        """
        holds = self.filter.holds
        only = context.caller.only
        found = self._listed(context, self.filter.names if only is None else [only])
        if only is not None:
            # whatever else a name may stand for
            found = (item for item in found if item.minion() == only)
        if context.target is not None:
            chosen = context.target.minions(context)
            found = (item for item in found if item.minion() in chosen)
        if any("live" in field.sources() for field in self.filter.fields):
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
                context.undecided += 1

    def _listed(self, context, names):
        """
        Yield what the type has, and note the names that nothing has.

        :raises QueryError: if the module of a site is wrong
        """
        there = set()
        with of_site(f"item type {self.itemtype.name}"):
            for item in self.itemtype.items(context, names):
                if not isinstance(item, Item):
                    raise TypeError(f"it yields {item!r:.80}, which is no Item")
                if self.names is not None:
                    there.update(
                        name for name in self.leading(item) if name in self.names
                    )
                yield item
        for name in self.filter.names or ():
            if self.folded(name) not in there:
                context.absent.append(name)


class _Start:
    """
    Where a page begins: after an item, whether that is still there or not.

    :param Query query: the query
    :param str after: what :meth:`token` has returned for the last item of the page before
    """

    def __init__(self, query, after):
        self.query = query
        self.is_open = after is None
        if after is None:
            return
        self.key, self.values = [after], []
        try:
            if after.startswith("["):
                self.key, self.values = json.loads(after)
                self.key = [str(one) for one in self.key]
            keys = [saltext.query.order.key(cell) for cell in self.values]
        except (ValueError, TypeError, RecursionError):
            keys = None
        if keys is None or not self.key or len(keys) != len(query.sort.fields):
            raise QueryError(
                "Give offset as a number, or as 'next' of the page before."
            )

    def token(self, item):
        """
        Return where to go on after an item.
        """
        values = [field.cell(item) for field in self.query.sort.fields]
        plain = not item.name.isdecimal() and not item.name.startswith("[")
        if plain and not values and item.minion() in (None, item.name):
            return item.name
        return json.dumps([item.key(), values])

    def is_before(self, item):
        """
        Return whether the page begins before an item.
        """
        if not self.is_open:
            key = item.key()[: len(self.key)]
            if key == self.key:
                self.is_open = True
                return False
            self.is_open = self._is_behind(item, key)
        return self.is_open

    def _is_behind(self, item, key):
        """
        Return whether an item comes after one that may be gone.
        """
        mine, other = (
            [saltext.query.compare.text_key(one) for one in names]
            for names in (key, self.key)
        )
        if self.query.names is not None:
            mine.insert(0, self.query.place(item))
            other.insert(0, self.query.place(Item(None, self.key[0])))
        if not self.query.sort:
            return mine > other
        # items with the same values are in the order of their names
        pair = [
            ([saltext.query.order.key(cell) for cell in self.values], other),
            (self.query.sort.keys(item), mine),
        ]
        gone = pair[0]
        pair.sort(key=lambda one: one[1])
        return self.query.sort.in_order(pair)[0] is gone


def _checked_names(names):
    if not isinstance(names, (list, tuple)) or not all(
        isinstance(name, str) for name in names
    ):
        raise QueryError("Give the fields as a list of their names.")
    if len(names) > MAX_FIELDS:
        raise QueryError(f"Give at most {MAX_FIELDS} fields.")
    return [name.strip() for name in names]


def check_paging(limit, offset):
    """
    :raises QueryError: if this is no page
    """
    if isinstance(offset, str):
        offset = 0
    for name, value in (("limit", 0 if limit is None else limit), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise QueryError(f"Give {name} as a number that is not negative.")
