"""
The stages of a site, and which revision of a state is in force in each.

A site's own ordered list, such as dev, test and prod; without one there are no stages.
The first stage has the newest revision of each state. Into each other one revisions are
promoted from the one before, and into the last one only those that another person has
approved, see :mod:`saltext.package_states.requests`. The database holds to that, whoever
writes to it.
"""

import saltext.package_states.final as final
import saltext.package_states.names as names
import saltext.package_states.store as store
from saltext.package_states.errors import InvalidInput, NotThere

# the number of the last stage, which stays the same when others come before it
LAST = 1000
MOST = 20


def listed(connection):
    """
    Return the names of the stages in their order, empty if there are none

    :param connection: see :func:`saltext.package_states.store.reading`
    """
    rows = store.ask(
        connection, "SELECT name FROM package_states.stage ORDER BY number"
    )
    return [row[0] for row in rows]


def checked(wanted):
    """
    Return the names of stages that somebody wrote

    :param wanted: a list of names, or text with commas
    :raises InvalidInput: if one is no name, or is there twice, or if there is only one
    """
    if isinstance(wanted, str):
        wanted = [part.strip() for part in wanted.split(",") if part.strip()]
    if not isinstance(wanted, (list, tuple)) or len(wanted) == 1 or len(wanted) > MOST:
        raise InvalidInput(
            f"Stages are a list of 2 to {MOST} names, such as dev,test,prod, or an empty"
            " one."
        )
    for one in wanted:
        if len(names.state(one)) > 64:
            raise InvalidInput(f"{one[:20]}... is too long for a stage; shorten it.")
    if len(set(wanted)) < len(wanted):
        raise InvalidInput("A stage is there twice; keep one of them.")
    return list(wanted)


def write(connection, wanted, author, comment):
    """
    Let there be these stages, in this order

    :param connection: see :func:`saltext.package_states.store.writing`
    :param list wanted: see :func:`checked`
    :param str author: who does it
    :param str comment: why
    """
    if wanted == listed(connection):
        return
    last = wanted[-1:]
    store.ask(
        connection,
        "DELETE FROM package_states.stage WHERE name <> ALL(%s)"
        " OR (number = %s) <> (name = ANY(%s)) RETURNING name",
        wanted,
        LAST,
        last,
    )
    # the numbers are unique: first out of the way, then to their places
    there = set(listed(connection))
    rows = [(number, name) for number, name in enumerate(wanted[:-1], 1)]
    rows += [(LAST, name) for name in last]
    numbers = dict(
        store.ask(connection, "SELECT name, number FROM package_states.stage")
    )
    moved = [
        (number, name)
        for number, name in rows
        if name in there and numbers[name] != number
    ]
    for offset in (500, 0):
        for number, name in moved:
            store.ask(
                connection,
                "UPDATE package_states.stage SET number = %s WHERE name = %s RETURNING name",
                number + offset,
                name,
            )
    for number, name in rows:
        if name not in there:
            store.ask(
                connection,
                "INSERT INTO package_states.stage (number, name) VALUES (%s, %s)"
                " RETURNING name",
                number,
                name,
            )
    if not wanted:
        final.release(connection, final.listed(connection))
    store.ask(
        connection,
        "INSERT INTO package_states.stage_change (names, author, comment)"
        " VALUES (%s, %s, %s) RETURNING id",
        ",".join(wanted),
        names.author(author),
        names.text(comment, "comment"),
    )


def changes(connection):
    """
    Return which stages there were from when on, the oldest first: rows of names with commas,
    author, comment and time
    """
    return store.ask(
        connection,
        "SELECT names, author, comment, created::text FROM package_states.stage_change"
        " ORDER BY id",
    )


def place(known, name):
    """
    Return the place of a stage in the list, from 0 on

    :param list known: see :func:`listed`
    :param name: what somebody wrote, None for the first one
    :raises NotThere: if there is none of this name
    """
    if name is None:
        return 0
    if name not in known:
        there = f"use one of {', '.join(known)}" if known else "this site has none"
        raise NotThere(
            f"There is no stage {names.shown(name)}; {there}, see package_states.stages."
        )
    return known.index(name)


def in_force(connection, ids, stage):
    """
    Return the revisions of states that are in force in a stage, by the id of the state;
    of one that never came there it is the empty one

    :param ids: an iterable of the ids of states
    :param str stage: its name, which is not that of the first one
    """
    ids = list(ids)
    rows = store.ask(
        connection,
        f"SELECT p.state_id, {', '.join('r.' + one for one in store.REVISION)}"
        " FROM (SELECT DISTINCT ON (state_id) state_id, revision"
        "  FROM package_states.promotion WHERE stage = %s AND state_id = ANY(%s)"
        "  ORDER BY state_id, id DESC) AS p"
        " JOIN package_states.revision AS r"
        " ON r.state_id = p.state_id AND r.number = p.revision",
        stage,
        ids,
    )
    found = {row[0]: store.as_revision(row[1:]) for row in rows}
    return {one: found.get(one, store.EMPTY) for one in ids}


def was_there(connection, where, stage, number):
    """
    Return whether a revision of a state was in force in a stage once

    :param State where: the state
    :param str stage: the name of the stage
    :param int number: that of the revision
    """
    return bool(
        store.ask(
            connection,
            "SELECT FROM package_states.promotion"
            " WHERE state_id = %s AND stage = %s AND revision = %s LIMIT 1",
            where.id,
            stage,
            number,
        )
    )


def promote(connection, where, stage, number, author, comment):
    """
    Let a revision of a state be in force in a stage

    :param State where: the state
    :param str stage: the name of the stage
    :param int number: that of the revision
    :param str author: who does it
    :param str comment: why
    """
    store.ask(
        connection,
        "INSERT INTO package_states.promotion (state_id, stage, revision, author, comment)"
        " VALUES (%s, %s, %s, %s, %s) RETURNING id",
        where.id,
        stage,
        number,
        names.author(author),
        names.text(comment, "comment"),
    )


def history(connection, where):
    """
    Return what came into the stages of a state, the oldest first: rows of stage, revision,
    author, comment and time

    :param State where: the state
    """
    return store.ask(
        connection,
        "SELECT stage, revision, author, comment, created::text"
        " FROM package_states.promotion WHERE state_id = %s ORDER BY id",
        where.id,
    )
