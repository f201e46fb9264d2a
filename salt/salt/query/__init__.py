"""
One typed question to a master: items of one type, with the fields that are asked for.

.. versionadded:: 3009.0

The item types are nodes, instances, jobs, locks and operating systems. Each answer
describes itself: with the rows come the definitions of their columns, and each cell is a
tuple of a status and a value, so that "offline", "no data" and "not applicable" can't be
taken for values.

.. code-block:: python

    import salt.config
    import salt.query

    opts = salt.config.master_config("/etc/salt/master")
    salt.query.items(opts, "node", ["name", "os"], ["<", "mtotal", 4096])

Reading the cache takes the rights of the master's user. What minions have sent is data
here and never code.
"""

import importlib

import salt.query.engine
import salt.query.natural
import salt.query.text
from salt.query.errors import QueryError, QueryTooDearError
from salt.query.kinds import NODATA, NORMAL, OFFLINE, UNAVAIL, UNKNOWN

__all__ = [
    "NODATA",
    "NORMAL",
    "OFFLINE",
    "UNAVAIL",
    "UNKNOWN",
    "ITEM_TYPES",
    "QueryError",
    "QueryTooDearError",
    "fields",
    "item_type",
    "items",
    "old_format",
    "request",
]

#: The item types. Each has a module of its name, which is imported when it is asked for.
ITEM_TYPES = ("instance", "job", "lock", "node", "os")

_KEYS = frozenset(("what", "fields", "filter", "limit", "offset"))


def item_type(what):
    """
    Return an item type.

    :param str what: one of :data:`ITEM_TYPES`
    :rtype: salt.query.item.ItemType
    :raises QueryError: if there is no such type
    """
    if what not in ITEM_TYPES:
        raise QueryError(
            f"Ask for one of {', '.join(ITEM_TYPES)}, not for {what!r:.80}."
        )
    return getattr(importlib.import_module(f"salt.query.{what}"), what.upper())


def items(opts, what, fields, filter_=None, limit=None, offset=0):
    """
    Answer a data query.

    :param dict opts: the master's options
    :param str what: one of :data:`ITEM_TYPES`
    :param list fields: the names of the columns. One that does not exist keeps its
        column, and a name that is given twice gives two.
    :param filter_: which items are meant: a list as in :mod:`salt.query.filters`, a
        string as in :mod:`salt.query.text`, or None for all
    :param int limit: return at most so many
    :param int offset: leave out so many before these

    :return: a dictionary of ``fields``, the definition of each column, and ``data``, a
        list of cells for each item. With a limit or an offset there are also ``offset``,
        the ``total`` of items that are meant, and ``next``, the offset to go on with or
        None.
    :raises QueryError: if the request is wrong; nothing has been read then
    """
    query = prepare(what, fields, filter_)
    rows, total = query.run(opts, limit, offset)
    ret = {"fields": query.definitions(), "data": rows}
    if limit is not None or offset:
        page(ret, total, offset)
    return ret


def prepare(what, fields, filter_=None):
    """
    Return a query that is found to be right, to be run later.

    :rtype: salt.query.engine.Query
    :raises QueryError: if the request is wrong
    """
    itemtype = item_type(what)
    if isinstance(filter_, str):
        filter_ = salt.query.text.parse(filter_, itemtype.fields)
    return salt.query.engine.Query(itemtype, fields, filter_)


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


def fields(what, names=None):
    """
    Answer a fields query.

    :param str what: one of :data:`ITEM_TYPES`
    :param list names: the fields that are asked for, or None for all
    :return: a dictionary of ``fields``: the definition of each, in the order of the
        names, or in natural order of all names
    :raises QueryError: if the request is wrong
    """
    itemtype = item_type(what)
    if names is None:
        names = sorted(itemtype.fields, key=salt.query.natural.key)
    return {"fields": salt.query.engine.Query(itemtype, names).definitions()}


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
