"""
What each minion should have had, and since when.

Each time that something else is wanted of a minion, whoever caused it, that is written
down: a generation. Equal ones of many minions are stored once.
"""

import datetime
import hashlib
import re
from typing import NamedTuple

import saltext.package_states.item as item
import saltext.package_states.names as names
import saltext.package_states.store as store
from saltext.package_states.errors import InvalidInput, NotThere

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:\Z|[ T][0-9]{2}:[0-9]{2})")
NOTHING = hashlib.sha256(b"").hexdigest()


class Generation(NamedTuple):
    """
    What was wanted of a minion from a time on

    number
        Its number, from 1 on.

    author, comment, created
        Who caused it, why, and when.

    items
        What was wanted of each package.
    """

    number: int
    author: str
    comment: str
    created: str
    items: tuple


def digest(items):
    """
    Return the digest of what is wanted of a minion

    :param items: a tuple of items, in their one order
    """
    return hashlib.sha256("".join(map(item.line, items)).encode()).hexdigest()


def keep(connection, wanted, author, comment):
    """
    Write down what is wanted of minions, where that is something else than before

    :param connection: see :func:`saltext.package_states.store.writing`
    :param dict wanted: pairs of digest and items by the id of the minion
    :param str author: who caused it
    :param str comment: why
    """
    rows = store.ask(
        connection,
        "SELECT i.minion_id, g.digest FROM unnest(%s::text[]) AS i (minion_id)"
        " CROSS JOIN LATERAL (SELECT digest FROM package_states.generation AS n"
        "  WHERE n.minion_id = i.minion_id ORDER BY n.id DESC LIMIT 1) AS g",
        list(wanted),
    )
    before = dict(rows)
    new = {
        name: found
        for name, found in wanted.items()
        if before.get(name, NOTHING) != found[0]
    }
    if not new:
        return
    contents = dict(new.values())
    store.ask(
        connection,
        "INSERT INTO package_states.generation_contents (digest, items)"
        " SELECT d, i::jsonb FROM unnest(%s::text[], %s::text[]) AS n (d, i)"
        " ON CONFLICT DO NOTHING RETURNING digest",
        list(contents),
        [item.dump(items) for items in contents.values()],
    )
    store.ask(
        connection,
        "INSERT INTO package_states.generation (minion_id, digest, author, comment)"
        " SELECT m, d, %s, %s FROM unnest(%s::text[], %s::text[]) AS n (m, d)"
        " RETURNING id",
        names.author(author),
        names.text(comment, "comment"),
        list(new),
        [found[0] for found in new.values()],
    )


def listed(connection, minion):
    """
    Return the generations of a minion, the oldest first

    :param str minion: its id
    """
    rows = store.ask(
        connection,
        "SELECT g.author, g.comment, g.created::text, c.items"
        " FROM package_states.generation AS g"
        " JOIN package_states.generation_contents AS c USING (digest)"
        " WHERE g.minion_id = %s ORDER BY g.id",
        minion,
    )
    return [_generation(number, *row) for number, row in enumerate(rows, 1)]


def _generation(number, author, comment, created, entries):
    items = item.ordered(item.from_dict(entry) for entry in entries)
    return Generation(number, author, comment, created, items)


def newest(connection, ids):
    """
    Return the newest generation of minions that had one, by id

    :param ids: the ids of minions
    """
    rows = store.ask(
        connection,
        "SELECT DISTINCT ON (g.minion_id) g.minion_id,"
        " count(*) OVER (PARTITION BY g.minion_id)::int,"
        " g.author, g.comment, g.created::text, c.items"
        " FROM package_states.generation AS g"
        " JOIN package_states.generation_contents AS c USING (digest)"
        " WHERE g.minion_id = ANY(%s) ORDER BY g.minion_id, g.id DESC",
        list(ids),
    )
    return {row[0]: _generation(*row[1:]) for row in rows}


def chosen(connection, minion, generation=None, day=None):
    """
    Return one generation of a minion

    :param str minion: its id
    :param generation: its number
    :param str day: instead of that a time, such as ``2026-11-24`` (its end) or
        ``2026-11-24 12:00``, at which it was the newest
    :raises InvalidInput: if it is neither, or both
    :raises NotThere: if there was none
    """
    if (generation is None) == (day is None):
        raise InvalidInput(
            "Give either generation or day; see package_states.generations."
        )
    found = listed(connection, minion)
    if generation is not None:
        good = [one for one in found if str(one.number) == str(generation)]
    else:
        number = _at(connection, minion, str(day))
        good = [one for one in found if one.number == number]
    if not good:
        raise NotThere(
            f"{minion} had no such generation; see package_states.generations {minion}."
        )
    return good[0]


def _at(connection, minion, day):
    """
    Return the number of the generation of a minion at the end of a day, or at a time
    """
    try:
        datetime.datetime.fromisoformat(day)
        # what else Python takes, such as 20261124, would be the begin of the day
        good = bool(_DAY.match(day))
    except ValueError:
        good = False
    if not good:
        raise InvalidInput(
            f"{names.shown(day)} is no day; write it like 2026-11-24 or '2026-11-24 12:00'."
        )
    end = "+ interval '1 day'" if len(day) == 10 else ""
    rows = store.ask(
        connection,
        "SELECT count(*) FROM package_states.generation"
        f" WHERE minion_id = %s AND created < %s::timestamptz {end}",
        minion,
        day,
    )
    return rows[0][0]
