"""What a program asks: see :mod:`saltext.query`, which has these functions too."""

import itertools

from saltext.query import compare, dynamic, engine, groups, loader, text
from saltext.query.context import Context
from saltext.query.errors import QueryError, of_site
from saltext.query.field import Known, similar
from saltext.query.item import ItemType
from saltext.query.kinds import KINDS
from saltext.query.target import Target

try:
    from salt.utils.rows import Rows
except ImportError:
    # a Salt without the topic query-api takes any answer with "data" for states
    Rows = dict


def item_types(opts):
    """
    Return the names of the item types: ``instance``, ``job``, ``lock``, ``node``, ``os``,
    ``package``, and those that the site has added, see :mod:`saltext.query.loader`.
    """
    return loader.names(opts, "query_types")


def item_type(opts, what):
    """Return an item type.

    :param dict opts: the master's options
    :param str what: one of :func:`item_types`
    :rtype: saltext.query.item.ItemType
    :raises QueryError: if there is no such type
    """
    otherwise = f"Ask for one of {', '.join(item_types(opts))}, not for {what!r:.80}."
    found = loader.found(opts, "query_types", what, otherwise)
    with of_site(f"item type {what}"):
        ret = found()
    if not isinstance(ret, ItemType):
        raise QueryError(
            f"Correct the item type {what}: its item_type() returns no ItemType."
        )
    return ret


def items(
    opts,
    what,
    fields,
    filter_=None,
    limit=None,
    offset=0,
    sort=None,
    tgt=None,
    tgt_type="glob",
    caller=None,
    room=None,
    live=None,
):
    """Answer a data query.

    :param dict opts: the master's options
    :param str what: one of :func:`item_types`
    :param list fields: the names of the columns. One that does not exist keeps its
        column, and a name that is given twice gives two.
    :param filter_: which items are meant: a list as in :mod:`saltext.query.filters`, a
        string as in :mod:`saltext.query.text`, or None for the usual ones: all, but for
        internal jobs. The filter ``["&"]`` means all.
    :param int limit: return at most so many
    :param offset: leave out so many before these; or ``next`` of the page before, a text,
        to go on after it, whatever has come or gone meanwhile
    :param sort: names of fields to sort by, see :mod:`saltext.query.compare`
    :param tgt: which nodes are meant besides, as a target of Salt's
    :param str tgt_type: the type of the target
    :param Caller caller: who asks, by default the user that the master runs as
    :param callable room: takes the definitions of the columns, and returns a function that
        takes a row and returns whether there is room for it
    :param dict live: how minions are asked: ``live_timeout`` and others, see
        :mod:`saltext.query.live`

    :return: a dictionary of ``fields``, the definition of each column, and ``data``, a
        list of cells for each item. With a limit or an offset, or if there was no room,
        there are also the ``total`` of items that are meant, and ``next``, after which to go
        on, or None. What the rows do not show is there if it is more than nothing:

        * ``live``: how many of the minions that were asked have answered
        * ``absent``: the names that nothing has
        * ``left_out``: how many items are not the usual ones
        * ``valueless``: fields of sites that nothing has, each with a similar one, or None
        * ``undecided``: how many items lack data that the filter looks at
        * ``untold``: how many minions have not told what items they have
        * ``damaged``: how many documents can't be read
        * ``too_large``: how many values are larger than an answer may have
    :raises QueryError: if the request is wrong; nothing has been read then
    :raises QueryStoreError: if what it takes can't be read or reached
    """
    query = prepare(opts, what, fields, filter_, sort)
    engine.check_paging(limit, offset)
    if tgt is not None and what != "node":
        raise QueryError("Give a target for nodes only: other types are no minions.")
    target = None if tgt is None else Target(tgt, tgt_type)
    context = query.context(opts, caller=caller, target=target, live=live)
    room = room and room(query.definitions())
    rows, total, next_ = query.run(context, limit, offset, room)
    ret = Rows({"fields": query.definitions(), "data": rows})
    if limit is not None or offset or next_ is not None:
        ret.update(total=total, offset=offset, next=next_)
    if context.live is not None:
        ret["live"] = context.live.summary(context.live_names)
    more = {
        "absent": list(dict.fromkeys(context.absent)),
        "left_out": context.left_out,
        "undecided": context.undecided,
        "untold": context.untold,
        "damaged": context.documents.files.broken,
        "too_large": len(context.too_large),
        # the last, as this reads more documents
        "valueless": _valueless(query, context),
    }
    ret.update({name: value for name, value in more.items() if value})
    return ret


def count(opts, what, fields, filter_=None, sort=None, limit=None, offset=0, **more):
    """Return how many items there are of each kind: one row for each group of items
    that have the same in these fields, and its size in the column ``count``.

    :param list fields: names of fields, and ``sum(name)``, ``min(name)``, ``max(name)`` or
        ``avg(name)`` for further columns
    :param sort: columns of the table to sort by; by default the largest group comes first
    :param more: ``tgt`` and others of :func:`items`; ``limit`` and ``offset`` count groups
    :return: as of :func:`items`, and in ``counted`` how many items there are
    """
    engine.check_paging(limit, offset)
    room = more.pop("room", None)
    plain, functions = groups.split(fields)
    if functions:
        groups.check(functions, prepare(opts, what, []).known)
        fields = [*plain, *[name for _, name in functions]]
    found = items(opts, what, fields, filter_, **more)
    ret = Rows(groups.count(found, functions, sort))
    rows = ret["data"]
    kept = rows[offset : None if limit is None else offset + limit]
    if room is not None:
        kept = list(itertools.takewhile(room(ret["fields"]), kept))
    ret.update(data=kept, total=len(rows))
    if limit is not None or offset or len(kept) < len(rows):
        # groups are gone on with by their number
        end = offset + len(kept)
        ret.update(offset=offset, next=end if kept and end < len(rows) else None)
    return ret


def prepare(opts, what, fields, filter_=None, sort=None):
    """Return a query that is found to be right, to be run later.

    :rtype: saltext.query.engine.Query
    :raises QueryError: if the request is wrong
    """
    itemtype = item_type(opts, what)
    kinds = (opts.get("query") or {}).get("kinds") or {}
    if not isinstance(kinds, dict) or not KINDS.keys() >= set(map(str, kinds.values())):
        raise QueryError(
            "Correct 'kinds' of the option query in the master's configuration: it is a"
            f" mapping of names of fields to one of {', '.join(KINDS)}."
        )
    known = Known(itemtype.fields, itemtype.dynamic, kinds)
    is_usual = filter_ is None and itemtype.usual_filter is not None
    if is_usual:
        filter_ = itemtype.usual_filter
    elif isinstance(filter_, str):
        filter_ = text.parse(filter_, known)
    return engine.Query(itemtype, fields, filter_, sort, known, is_usual)


def fields(opts, what, names=None, caller=None):
    """Answer a fields query.

    :param dict opts: the master's options
    :param str what: one of :func:`item_types`
    :param list names: the fields that are asked for, or None for all
    :param Caller caller: who asks, by default the user that the master runs as
    :return: a dictionary of ``fields``: the definition of each, in the order of the
        names, or in natural order of all names. Of fields that sites have, the kind is
        that of the values of some minions.
    :raises QueryError: if the request is wrong
    """
    query = prepare(opts, what, names or [])
    context = Context(opts, (), 0, caller)
    # what other minions have is not for a minion to see
    reads = opts.get("cachedir") and context.caller.only is None
    if names is None:
        names = list(query.itemtype.fields)
        if query.itemtype.dynamic is not None and reads:
            names += dynamic.names(context)
        names.sort(key=compare.text_key)
    found = [query.known.column(name.strip()) for name in names]
    loose = [field for field in found if field.loose]
    if loose and reads:
        context.want(need for field in loose for need in field.needs)
        if "pillar" in context.wanted:
            context.caller.check_pillars()
        items_ = query.itemtype.items(context, None)
        for item in itertools.islice(items_, dynamic.SAMPLE):
            for field in loose:
                if "other" not in field.seen:
                    field.cell(item)
    return Rows({"fields": [field.definition() for field in found]})


def _valueless(query, context):
    """Return the fields of sites that no item has, each with a similar name or None."""
    found = [field for field in query.used() if field.loose and field.is_valueless()]
    if not found or context.caller.only is not None:
        return {}
    others = dynamic.names(context)
    names = [field.name for field in found if field.name not in others]
    return {name: similar(name, others) for name in names}


def old_format(response):
    """Return the rows of a response as plain lists of values, with None for what is
    missing.

    :raises QueryError: if there is a field that does not exist: whoever asks for this
        format expects exactly the fields that were asked for
    """
    unknown = [one["name"] for one in response["fields"] if one["kind"] == "unknown"]
    if unknown:
        raise QueryError(
            f"Ask for fields that exist, not for {', '.join(dict.fromkeys(unknown))};"
            " --list-fields shows those that there are."
        )
    return [[value for _, value in row] for row in response["data"]]
