"""
What a program asks: see :mod:`saltext.query`, which has these functions too.
"""

import logging

import saltext.query.context
import saltext.query.dynamic
import saltext.query.engine
import saltext.query.field
import saltext.query.groups
import saltext.query.item
import saltext.query.loader
import saltext.query.natural
import saltext.query.target
import saltext.query.text
from saltext.query.answer import Rows
from saltext.query.errors import QueryError, QueryRightsError
from saltext.query.kinds import KINDS

log = logging.getLogger(__name__)

_KEYS = frozenset(
    ("what", "fields", "filter", "limit", "offset", "sort", "tgt", "tgt_type")
)


def item_types(opts):
    """
    Return the names of the item types: ``instance``, ``job``, ``lock``, ``node``, ``os``,
    and those that the site has added, see :mod:`saltext.query.loader`.
    """
    return saltext.query.loader.names(opts, "query_types", "item_type")


def item_type(opts, what):
    """
    Return an item type.

    :param dict opts: the master's options
    :param str what: one of :func:`item_types`
    :rtype: saltext.query.item.ItemType
    :raises QueryError: if there is no such type
    """
    loaded = saltext.query.loader.modules(opts, "query_types")
    function = f"{what}.item_type"
    if not isinstance(what, str) or "." in what or function not in loaded:
        told = isinstance(what, str) and saltext.query.loader.wrong(
            opts, "query_types", what, "item_type"
        )
        raise QueryError(
            f"{told}."
            if told
            else f"Ask for one of {', '.join(item_types(opts))}, not for {what!r:.80}."
        )
    try:
        ret = loaded[function]()
    except Exception as exc:  # pylint: disable=broad-except
        # whatever the module of a site may raise
        log.debug("The item type %s failed", what, exc_info=True)
        raise QueryError(
            f"Correct the item type {what}: {type(exc).__name__}: {exc}."
        ) from exc
    if not isinstance(ret, saltext.query.item.ItemType):
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
    """
    Answer a data query.

    :param dict opts: the master's options
    :param str what: one of :func:`item_types`
    :param list fields: the names of the columns. One that does not exist keeps its
        column, and a name that is given twice gives two.
    :param filter_: which items are meant: a list as in :mod:`saltext.query.filters`, a
        string as in :mod:`saltext.query.text`, or None for all
    :param int limit: return at most so many
    :param int offset: leave out so many before these
    :param sort: names of fields to sort by, see :mod:`saltext.query.order`
    :param tgt: which nodes are meant besides, as a target of Salt's
    :param str tgt_type: the type of the target
    :param Caller caller: who asks, by default the user that the master runs as
    :param callable room: takes a row and returns whether there is room for it
    :param dict live: how minions are asked: ``live_timeout`` and others, see
        :mod:`saltext.query.sources.live`

    :return: a dictionary of ``fields``, the definition of each column, and ``data``, a
        list of cells for each item. With a limit or an offset, or if there was no room,
        there are also ``offset``, the ``total`` of items that are meant, and ``next``,
        the offset to go on with or None. If minions were asked, ``live`` says how many
        have answered. If documents are damaged, ``damaged`` says how many. If items were
        named that are not there, the attribute ``absent`` has their names.
    :raises QueryError: if the request is wrong; nothing has been read then
    :raises QueryStoreError: if what it takes can't be read or reached
    """
    query = prepare(opts, what, fields, filter_, sort)
    asked = saltext.query.engine.Asked(caller, _target(what, tgt, tgt_type), live)
    found = query.run(opts, limit, offset, asked, room)
    ret = Answer({"fields": query.definitions(), "data": found.rows})
    ret.absent = found.absent
    if limit is not None or offset or found.full:
        page(ret, found.total, offset)
    if found.live is not None:
        ret["live"] = found.live
    if found.broken:
        ret["damaged"] = found.broken
    return ret


class Answer(Rows):
    """
    The answer to a data query.

    :ivar list absent: the names of items that are not there
    """

    absent = ()


def count(opts, what, fields, filter_=None, **more):
    """
    Return how many items there are of each kind: one row for each group of items that
    have the same in these fields, and its size in a last column ``count``.

    :param more: ``sort``, ``tgt`` and others of :func:`items`; ``limit`` and ``offset``
        count groups
    :return: as of :func:`items`, and in ``counted`` how many items there are
    """
    limit, offset = more.pop("limit", None), more.pop("offset", 0)
    saltext.query.engine.check_paging(limit, offset)
    room = more.pop("room", None)
    found = items(opts, what, fields, filter_, **more)
    ret = Answer(saltext.query.groups.count(found))
    ret.absent = found.absent
    rows = ret["data"]
    end = None if limit is None else offset + limit
    kept = rows[offset:end]
    if room is not None:
        for place, row in enumerate(kept):
            if not room(row):
                del kept[place:]
                break
    ret["data"] = kept
    if len(kept) != len(rows) or limit is not None:
        page(ret, len(rows), offset)
    return ret


def _target(what, tgt, tgt_type):
    if tgt is None:
        return None
    if what != "node":
        raise QueryError("Give a target for nodes only: other types are no minions.")
    return saltext.query.target.Target(tgt, tgt_type)


def prepare(opts, what, fields, filter_=None, sort=None):
    """
    Return a query that is found to be right, to be run later.

    :rtype: saltext.query.engine.Query
    :raises QueryError: if the request is wrong
    """
    itemtype = item_type(opts, what)
    if isinstance(filter_, str):
        filter_ = saltext.query.text.parse(filter_, itemtype.fields)
    return saltext.query.engine.Query(itemtype, fields, filter_, sort, _kinds(opts))


def _kinds(opts):
    """
    Return the kinds of the fields of this site.
    """
    ret = (opts.get("query") or {}).get("kinds") or {}
    if not isinstance(ret, dict) or not all(
        isinstance(kind, str) and kind in KINDS for kind in ret.values()
    ):
        raise QueryError(
            "Correct 'kinds' of the option query in the master's configuration: it is a"
            f" mapping of names of fields to one of {', '.join(KINDS)}."
        )
    return ret


def page(response, total, offset):
    """
    Add to a response which part of the whole it is.
    """
    end = offset + len(response["data"])
    response["total"] = total
    response["offset"] = offset
    response["next"] = end if response["data"] and end < total else None


def request(opts, query):
    """
    Answer a data query that is a dictionary, as the specification has it.

    :param dict query: ``what``, ``fields`` and optionally ``filter``, ``limit``,
        ``offset``, ``sort``, ``tgt`` and ``tgt_type``
    :raises QueryError: if the request is wrong
    """
    if not isinstance(query, dict) or not {"what", "fields"} <= query.keys() <= _KEYS:
        raise QueryError(
            "Give the request as a dictionary of 'what', 'fields' and optionally"
            " 'filter', 'limit', 'offset', 'sort', 'tgt' and 'tgt_type'."
        )
    more = dict(query)
    return items(
        opts, more.pop("what"), more.pop("fields"), more.pop("filter", None), **more
    )


def fields(opts, what, names=None, caller=None):
    """
    Answer a fields query.

    :param dict opts: the master's options
    :param str what: one of :func:`item_types`
    :param list names: the fields that are asked for, or None for all
    :param Caller caller: who asks, by default the user that the master runs as
    :return: a dictionary of ``fields``: the definition of each, in the order of the
        names, or in natural order of all names. Of fields that sites have, the kind is
        that of the values of some minions.
    :raises QueryError: if the request is wrong
    """
    itemtype = item_type(opts, what)
    prepare(opts, what, names or [])
    # what other minions have is not for a minion to see
    reads = opts.get("cachedir") and getattr(caller, "only", None) is None
    if names is None:
        names = list(itemtype.fields)
        if itemtype.dynamic is not None and reads:
            names += _dynamic_names(opts, caller)
        names.sort(key=saltext.query.natural.key)
    known = saltext.query.field.Known(itemtype.fields, itemtype.dynamic, _kinds(opts))
    found = [
        known.find(name.strip()) or saltext.query.field.UnknownField(name.strip())
        for name in names
    ]
    loose = [field for field in found if field.loose]
    if loose and reads:
        _sample(opts, itemtype, loose, caller)
    return Rows({"fields": [field.definition() for field in found]})


def _dynamic_names(opts, caller):
    asked = saltext.query.engine.Asked(caller)
    try:
        asked.caller.check_pillars()
        pillars = True
    except QueryRightsError:
        pillars = False
    context = saltext.query.context.Context(opts, (), 0, asked)
    return saltext.query.dynamic.names(context, pillars)


def _sample(opts, itemtype, found, caller):
    """
    Let fields see the values of some minions.
    """
    if any("pillar" in field.sources() for field in found):
        (caller or saltext.query.engine.Asked().caller).check_pillars()
    needs = {need for field in found for need in field.needs}
    context = saltext.query.context.Context(opts, needs, 0)
    most = saltext.query.dynamic.SAMPLE
    for place, item in enumerate(itemtype.items(context, None)):
        if place >= most:
            break
        for field in found:
            field.cell(item)


def old_format(response):
    """
    Return the rows of a response as plain lists of values, with None for what is
    missing.

    :raises QueryError: if there is a field that does not exist: whoever asks for this
        format expects exactly the fields that were asked for
    """
    unknown = [one["name"] for one in response["fields"] if one["kind"] == "unknown"]
    if unknown:
        raise QueryError(
            f"Ask for fields that exist, not for {', '.join(dict.fromkeys(unknown))};"
            " a fields query lists them."
        )
    return [[value for _, value in row] for row in response["data"]]
