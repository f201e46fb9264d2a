"""
Ask the master about nodes, instances, jobs, locks and operating systems.

Answers have the definitions of their columns with them, and each cell is a list of a
status and a value: 0 normal, 1 unknown field, 2 no data, 3 not available for this item,
4 offline. All but the first have no value. See :ref:`query` for the fields and filters.

Whoever may run these functions can read what the master's cache holds of all minions,
but no pillar.
"""

import saltext.query
from saltext.query.errors import QueryError, QueryTooDearError

import salt.payload

#: How much of what an event may carry is used for rows.
_SHARE = 0.8

#: What is to be left of it for the answer, unless an event may carry even less.
_LEAST = 65536


def items(
    what, fields, filter=None, limit=None, offset=0
):  # pylint: disable=redefined-builtin,redefined-outer-name
    """
    Return items with the fields that are asked for.

    An answer that is too large for an event would lose its rows on its way. So it ends
    where it would be: ``next`` is the offset to go on with then, and ``total`` the number
    of all items. What fits has neither, unless a limit or an offset is given.

    what
        ``instance``, ``job``, ``lock``, ``node`` or ``os``
    fields
        A list of names of fields, or a string with commas between them.
    filter
        Which items are meant, as a list or as text. All of them by default.
    limit
        Return at most so many.
    offset
        Leave out so many before these.

    CLI Example:

    .. code-block:: bash

        salt-run query.items node name,os,mtotal
        salt-run query.items node name 'mtotal < 4096 and os == "Debian"'
        salt-run query.items job id,fun '["=", "user", "root"]' limit=10
    """
    most = _room([what, fields, filter])
    if isinstance(fields, str):
        fields = [one for one in fields.split(",") if one]
    ret = saltext.query.items(__opts__, what, fields, filter, limit, offset)
    return _cut(ret, most, offset)


def _room(request):
    """
    Return how large the answer to a request may be, which is in the same event.
    """
    share = int(__opts__.get("max_event_size", 1048576) * _SHARE)
    ret = share - len(salt.payload.dumps(request))
    if ret < min(_LEAST, share // 2):
        raise QueryTooDearError(
            "Give a shorter filter: it comes back with each answer."
        )
    return ret


def _cut(response, most, offset):
    """
    Take so many rows off the end of a response that it fits into ``most`` bytes.
    """
    rows = response["data"]
    size = len(salt.payload.dumps(response["fields"])) + 100
    for place, row in enumerate(rows):
        size += len(salt.payload.dumps(row))
        if size > most:
            break
    else:
        return response
    if place == 0:
        raise QueryError(
            f"Ask for fewer fields: the item at the offset {offset} alone is larger than"
            " what can be sent."
        )
    total = response.get("total", len(rows))
    del rows[place:]
    saltext.query.page(response, total, offset)
    return response


def fields(what, fields=None):  # pylint: disable=redefined-outer-name
    """
    Return the definitions of the fields that an item type has.

    what
        ``instance``, ``job``, ``lock``, ``node`` or ``os``
    fields
        The names of those that are asked for, as a list or with commas between them. All
        of them by default.

    CLI Example:

    .. code-block:: bash

        salt-run query.fields node
    """
    if isinstance(fields, str):
        fields = [one for one in fields.split(",") if one]
    return saltext.query.fields(__opts__, what, fields)
