"""
Answering a query: which items, in which order, which of them, and what of them.

Items come one after the other, and only what is asked for of them stays in memory.
"""

import collections
import time

import saltext.query.caller
import saltext.query.context
import saltext.query.field
import saltext.query.filters
import saltext.query.order
import saltext.query.target
from saltext.query.errors import QueryError, QueryRightsError

#: The most fields of a query.
MAX_FIELDS = 1000

#: What a run has found: rows of cells; how many items there are in all; whether there was
#: no room for more rows; the names that no item has; what was asked of minions, or None;
#: how many documents could not be read.
Page = collections.namedtuple("Page", "rows total full absent live broken")


class Query:
    """
    A query that is found to be right.

    :param ItemType itemtype: what is asked for
    :param list fields: names of fields, in the order of the columns
    :param rule: a filter, or None for all items
    :param sort: names of fields to sort by, see :mod:`saltext.query.order`
    :param dict kinds: the kinds of the fields of this site, by name
    :raises QueryError: if something is wrong with it
    """

    def __init__(self, itemtype, fields, rule=None, sort=None, kinds=None):
        self.itemtype = itemtype
        known = saltext.query.field.Known(itemtype.fields, itemtype.dynamic, kinds)
        self.fields = [
            itemtype.fields.get(name)
            or known.find(name)
            or saltext.query.field.UnknownField(name)
            for name in _checked_names(fields)
        ]
        known = saltext.query.field.Known(itemtype.fields, itemtype.dynamic, kinds)
        self.filter = saltext.query.filters.Filter(rule, known)
        self.sort = saltext.query.order.Order(sort, known)
        self.names = (
            None if rule is None else saltext.query.filters.simple_names(rule, known)
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

    def _used(self):
        return [*self.fields, *self.filter.fields, *self.sort.fields]

    def needs(self):
        """
        Return the data that the columns, the filter and the order read.
        """
        return {need for field in self._used() for need in field.needs}

    def run(self, opts, limit=None, offset=0, asked=None, room=None, clock=time.time):
        """
        Return what is found.

        :param dict opts: the master's options
        :param int limit: return at most so many
        :param int offset: leave out so many before these
        :param Asked asked: who asks, and for which minions
        :param callable room: takes a row and returns whether there is room for it; what
            comes after the first for which there is none is only counted
        :param callable clock: returns seconds since the epoch
        :rtype: Page
        """
        check_paging(limit, offset)
        asked = asked or Asked()
        sources = {name for field in self._used() for name in field.sources()}
        only = asked.caller.only
        if only is not None and self.itemtype.name != "node":
            raise QueryRightsError("Ask for nodes: a minion sees only its own node.")
        if only is not None and "live" in sources:
            # whether or not there is a node left to ask
            asked.caller.check_run([], [only])
        if only is not None and asked.target is not None:
            # Salt's matchers take as long as a regular expression of the minion's does
            raise QueryRightsError(
                "Leave out the target: a minion sees only its own node."
            )
        if "pillar" in sources:
            asked.caller.check_pillars()
        end = None if limit is None else offset + limit
        context = saltext.query.context.Context(opts, self.needs(), clock(), asked)
        context.filter = self.filter
        context.live_names = [
            field.name for field in self.fields if "live" in field.sources()
        ]
        found = self._meant(context, asked)
        with self.filter.watch():
            rows, total, full = self._found(context, found, offset, end, room)
        return Page(
            rows,
            total,
            full,
            list(context.absent) if only is None else [],
            None if context.live is None else context.live.summary(context.live_names),
            context.documents.broken,
        )

    def _found(self, context, found, offset, end, room):
        """
        Return the rows of a page, how many items there are, and whether there was no room
        for more.
        """
        if self.sort.asks():
            found = list(found)
            if context.live is None:
                context.ask_live(found)
        if not self.sort:
            return self._rows(context, found, offset, end, room)
        if end is None and room is None and not context.live_names:
            # rows are smaller than what has been read for them
            rows = self.sort.sorted(found, self._row)
            return rows[offset:], len(rows), False
        small = saltext.query.order.kept_small
        whole = saltext.query.order.kept_whole
        found = self.sort.sorted(found, whole if end is None else small)
        return self._rows(context, found, offset, end, room)

    def _meant(self, context, asked):
        """
        Yield the items that are meant.
        """
        only = asked.caller.only
        names = self.names if only is None else [only]
        found = self.itemtype.items(context, names)
        if only is not None:
            # whatever else a name may stand for
            found = (item for item in found if item.minion() == only)
        if asked.target is not None:
            chosen = asked.target.minions(context)
            found = (item for item in found if item.minion() in chosen)
        if any("live" in field.sources() for field in self.filter.fields):
            found = self._narrowed(context, found)
        for item in found:
            if names is self.names is not None or self.filter.holds(item) is True:
                yield item

    def _row(self, item):
        return [field.cell(item) for field in self.fields]

    def _rows(self, context, found, offset, end, room):
        total = 0
        full = False
        rows = []
        waiting = []
        asks = bool(context.live_names) and context.live is None
        for item in found:
            if total >= offset and (end is None or total < end) and not full:
                row = self._row(item)
                if room is not None and not room(row):
                    full = True
                elif asks:
                    # asked for at once, and only of those that are on the page
                    waiting.append(item)
                else:
                    rows.append(row)
            total += 1
        if waiting:
            context.ask_live(waiting)
            rows = [self._row(item) for item in waiting]
        return rows, total, full

    def _narrowed(self, context, found):
        """
        Return those items for which the filter may hold, and ask their minions at once
        for what it needs.
        """
        left = [item for item in found if self.filter.holds(item) is not False]
        context.ask_live(left)
        return left


class Asked:
    """
    Who asks, and for which minions.

    :param Caller caller: who asks; by default the user that the master runs as
    :param Target target: a target of Salt's, or None for all minions
    :param dict live: how minions are asked, see :mod:`saltext.query.sources.live`
    :raises QueryRightsError: if the target tells more than the caller may know
    """

    def __init__(self, caller=None, target=None, live=None):
        self.caller = caller or saltext.query.caller.Caller()
        self.target = target
        self.live = live or {}
        if target is not None and target.reads_pillars():
            try:
                self.caller.check_pillars()
            except QueryRightsError as exc:
                raise QueryRightsError(
                    f"This target looks into pillars. {exc}"
                ) from None


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
    for name, value in (("limit", limit), ("offset", offset)):
        if name == "limit" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise QueryError(f"Give {name} as a number that is not negative.")
