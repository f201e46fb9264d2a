"""Ask the master about nodes, instances, jobs, locks and operating systems.

Answers have the definitions of their columns with them, and each cell is a list of a
status and a value: 0 normal, 1 unknown field, 2 no data, 3 not available for this item,
4 offline. All but the first have no value. See :ref:`query` for the fields and filters.

Whoever may run these functions can read what the master's cache holds of all minions.
Fields that ask minions take his own right to run their functions, and pillars take the
right to run the runner ``cache.pillar``.
"""

import functools

import saltext.query
from saltext.query import caller, compare
from saltext.query.errors import QueryError
from saltext.query.kinds import PENDING, UNAVAIL

import salt.payload

#: How much of what an event may carry is used for the request, the definitions and rows.
_SHARE = 0.8

#: How much larger a value of a minion may be than what stands for it before.
_ANSWER = 10


def _caller():
    return caller.of_runner(__opts__, globals().get("__user__"))


def items(
    what,
    fields,
    filter=None,
    limit=None,
    offset=0,
    sort=None,
    tgt=None,
    tgt_type="glob",
    live_timeout=None,
):  # pylint: disable=redefined-builtin,redefined-outer-name
    """Return items with the fields that are asked for.

    An answer that is too large for an event would lose its rows on its way. So it ends
    where it would be: ``next`` is the offset to go on with then, and ``total`` the number
    of all items. What fits has neither, unless a limit or an offset is given.

    what
        ``instance``, ``job``, ``lock``, ``node``, ``os`` or ``package``
    fields
        A list of names of fields, or a string with commas between them.
    filter
        Which items are meant, as a list or as text. By default all, but for
        internal jobs, of which ``left_out`` is the number; ``'["&"]'`` means all.
    limit
        Return at most so many.
    offset
        Leave out so many before these; or ``next`` of the answer before.
    sort
        Names of fields to sort by, with commas between them; ``-`` before one turns its
        order round.
    tgt
        Which nodes are meant besides, as on Salt's command line.
    tgt_type
        The type of the target, such as ``grain`` or ``compound``.
    live_timeout
        Wait for minions at most so many seconds.

    CLI Example:

    .. code-block:: bash

        salt-run query.items node name,os,mtotal
        salt-run query.items node name 'mtotal < 4096 and os == "Debian"'
        salt-run query.items job id,fun '["=", "user", "root"]' sort=-id limit=10
        salt-run query.items node name,grain.roles tgt='os:Debian' tgt_type=grain
    """
    fields = compare.names(fields)
    return saltext.query.items(
        __opts__,
        what,
        fields,
        filter,
        limit,
        offset,
        sort,
        tgt,
        tgt_type,
        caller=_caller(),
        room=functools.partial(_Room, _most(what, fields, filter, tgt)),
        live={} if live_timeout is None else {"live_timeout": live_timeout},
    )


def count(
    what,
    fields,
    filter=None,
    limit=None,
    offset=0,
    tgt=None,
    tgt_type="glob",
    sort=None,
):  # pylint: disable=redefined-builtin,redefined-outer-name
    """Return how many items there are of each kind: one row for each group of items
    that have the same in these fields, the largest first, with a last column ``count``.
    ``counted`` is how many items there are.

    The arguments are those of ``query.items``; ``limit``, ``offset`` and ``sort`` are about
    groups, and the fields ``sum(name)``, ``min(name)``, ``max(name)`` and ``avg(name)`` are
    further columns.

    CLI Example:

    .. code-block:: bash

        salt-run query.count node os,os_release --out=query
    """
    fields = compare.names(fields)
    return saltext.query.count(
        __opts__,
        what,
        fields,
        filter,
        sort,
        limit,
        offset,
        tgt=tgt,
        tgt_type=tgt_type,
        caller=_caller(),
        room=functools.partial(_Room, _most(what, fields, filter, tgt)),
    )


def _most(*request):
    """Return how large the answer to a request may be, which is in the same event."""
    share = int(__opts__.get("max_event_size", 1048576) * _SHARE)
    ret = share - len(salt.payload.dumps(request))
    if ret < share // 12:
        raise QueryError("Give a shorter filter: it comes back with each answer.")
    return ret


class _Room:
    """How much room for rows there is in the event of an answer."""

    def __init__(self, most, definitions):
        self.left = most - len(salt.payload.dumps(definitions))
        self.whole = self.left

    def __call__(self, row):
        size = len(salt.payload.dumps(row))
        # what has yet to be asked for
        size += sum(_ANSWER for status, _ in row if status == PENDING)
        while self.left == self.whole and size > self.left:
            # an item that is larger than any answer loses its largest values
            sizes = [len(salt.payload.dumps(cell)) for cell in row]
            place = sizes.index(max(sizes))
            if row[place][0] == UNAVAIL:
                break
            row[place] = (UNAVAIL, None)
            size -= sizes[place] - 2
        self.left -= size
        return self.left >= 0


def fields(what, fields=None):  # pylint: disable=redefined-outer-name
    """Return the definitions of the fields that an item type has. Those of nodes are
    also the grains, the entries of the mine and the keys of the pillars that there are.

    what
        ``instance``, ``job``, ``lock``, ``node``, ``os`` or ``package``
    fields
        The names of those that are asked for, as a list or with commas between them. All
        of them by default.

    CLI Example:

    .. code-block:: bash

        salt-run query.fields node
        salt-run query.fields node grain.ec2.region,mine.network.ip_addrs
    """
    names = compare.names(fields)
    ret = saltext.query.fields(__opts__, what, names, caller=_caller())
    if len(salt.payload.dumps(ret)) > _most(what, fields):
        raise QueryError(
            "Ask for some fields by their names: there are more than can be sent."
        )
    return ret
