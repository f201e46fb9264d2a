"""
What a program asks: see :mod:`saltext.query`, which has these functions too.
"""

import saltext.query.engine
import saltext.query.loader
import saltext.query.natural
import saltext.query.text
from saltext.query.errors import QueryError

_KEYS = frozenset(("what", "fields", "filter", "limit", "offset"))


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
        raise QueryError(
            f"Ask for one of {', '.join(item_types(opts))}, not for {what!r:.80}."
        )
    return loaded[function]()


def items(opts, what, fields, filter_=None, limit=None, offset=0):
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

    :return: a dictionary of ``fields``, the definition of each column, and ``data``, a
        list of cells for each item. With a limit or an offset there are also ``offset``,
        the ``total`` of items that are meant, and ``next``, the offset to go on with or
        None.
    :raises QueryError: if the request is wrong; nothing has been read then
    """
    query = prepare(opts, what, fields, filter_)
    rows, total = query.run(opts, limit, offset)
    ret = {"fields": query.definitions(), "data": rows}
    if limit is not None or offset:
        page(ret, total, offset)
    return ret


def prepare(opts, what, fields, filter_=None):
    """
    Return a query that is found to be right, to be run later.

    :rtype: saltext.query.engine.Query
    :raises QueryError: if the request is wrong
    """
    itemtype = item_type(opts, what)
    if isinstance(filter_, str):
        filter_ = saltext.query.text.parse(filter_, itemtype.fields)
    return saltext.query.engine.Query(itemtype, fields, filter_)


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

    :param dict query: ``what``, ``fields`` and optionally ``filter``, ``limit`` and
        ``offset``
    :raises QueryError: if the request is wrong
    """
    if not isinstance(query, dict) or not {"what", "fields"} <= query.keys() <= _KEYS:
        raise QueryError(
            "Give the request as a dictionary of 'what', 'fields' and optionally"
            " 'filter', 'limit' and 'offset'."
        )
    return items(
        opts,
        query["what"],
        query["fields"],
        query.get("filter"),
        query.get("limit"),
        query.get("offset", 0),
    )


def fields(opts, what, names=None):
    """
    Answer a fields query.

    :param dict opts: the master's options
    :param str what: one of :func:`item_types`
    :param list names: the fields that are asked for, or None for all
    :return: a dictionary of ``fields``: the definition of each, in the order of the
        names, or in natural order of all names
    :raises QueryError: if the request is wrong
    """
    itemtype = item_type(opts, what)
    if names is None:
        names = sorted(itemtype.fields, key=saltext.query.natural.key)
    return {"fields": saltext.query.engine.Query(itemtype, names).definitions()}


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
