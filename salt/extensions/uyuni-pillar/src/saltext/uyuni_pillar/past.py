"""
The pillars of Uyuni as they were, and as they would be after an edit

The past comes out of the history of ``sql/pillar_changes.sql``.

:depends: psycopg2
"""

import copy
import json
from collections import defaultdict

import saltext.uyuni_pillar.compare as compare
import saltext.uyuni_pillar.formula as formula
import saltext.uyuni_pillar.layout as layout
import saltext.uyuni_pillar.pillar.uyuni as uyuni
import saltext.uyuni_pillar.table as table

import salt.exceptions

# Since when changes are known, and whether the time asked for is before that, or still to
# come. Of another organization or id only is known when the minion got it.
KNOWN = """
    SELECT m.server_id::bigint, s.org_id::bigint, since.time::text,
        asked.time < since.time, asked.time > clock_timestamp(), (
            SELECT max(changed)::text FROM suseSaltPillarMoved AS moved
            WHERE changed > asked.time AND group_id IS NULL
                AND COALESCE(moved.server_id, m.server_id) = m.server_id
        )
    FROM suseMinionInfo AS m JOIN rhnServer AS s ON s.id = m.server_id,
        (SELECT %s::timestamptz AS time) AS asked,
        (SELECT since AS time FROM suseSaltPillarKnown) AS since
    WHERE m.minion_id = %s
"""

# The first change of a row after a time says what it was then. A minion was in a group
# if it is now, unless it has joined or left it an odd number of times since.
PAST = """
    WITH groups AS MATERIALIZED (
        SELECT ARRAY(
            SELECT number FROM (
                SELECT server_group_id FROM rhnServerGroupMembers
                WHERE server_id = %(server)s
                UNION ALL
                SELECT group_id FROM suseSaltPillarMoved
                WHERE server_id = %(server)s AND changed > %(at)s::timestamptz
            ) AS moved (number) GROUP BY number HAVING count(*) %% 2 = 1
        ) AS numbers
    ), pillars AS NOT MATERIALIZED (
        SELECT server_id, group_id, org_id, category, pillar, NULL AS change
        FROM {table}
        UNION ALL
        SELECT server_id, group_id, org_id, category,
            CASE WHEN before IS NULL AND after IS NULL THEN 'null' ELSE before END, id
        FROM suseSaltPillarHistory WHERE changed > %(at)s::timestamptz
    ), found AS (
        SELECT 0 AS level, 0 AS owner, category, pillar, change FROM pillars
        WHERE server_id IS NULL AND group_id IS NULL AND org_id IS NULL
        UNION ALL
        SELECT 1, org_id, category, pillar, change FROM pillars
        WHERE server_id IS NULL AND group_id IS NULL AND org_id = %(organization)s
        UNION ALL
        SELECT 2, group_id, category, pillar, change FROM pillars
        WHERE server_id IS NULL
            AND group_id = ANY ((SELECT numbers FROM groups)::numeric[])
        UNION ALL
        SELECT 3, server_id, category, pillar, change FROM pillars
        WHERE server_id = %(server)s
    )
    SELECT level, category, pillar FROM (
        SELECT DISTINCT ON (level, owner, category) * FROM found
        ORDER BY level, owner, category, change
    ) AS past
    WHERE pillar IS NOT NULL ORDER BY level, owner, category COLLATE "C"
"""

# All rows with their level and owner, and those that decide what an edit of some keys
# comes to for some minions
ROWS = """
    WITH rows (level, owner, category, pillar) AS (
        SELECT CASE WHEN server_id IS NOT NULL THEN 3 WHEN group_id IS NOT NULL THEN 2
                WHEN org_id IS NOT NULL THEN 1 ELSE 0 END,
            COALESCE(server_id, group_id, org_id)::bigint, category, pillar FROM {table}
    )
"""
EDITED = """
    SELECT pillar FROM rows
    WHERE (level, owner, category) IS NOT DISTINCT FROM (%s, %s::bigint, %s::text)
"""
FORMULAS = """
    SELECT DISTINCT category FROM rows WHERE level > 1 AND starts_with(category, %s)
"""
TOUCHED = """
    SELECT * FROM rows
    WHERE (level < 3 OR owner IN (SELECT unnest(%(servers)s::bigint[])))
        AND (pillar ?| %(keys)s::text[] OR level > 1 AND category = ANY (%(formulas)s))
"""


def rows(connection, minion, at):
    """
    Return the rows of a minion as they were at a time, for
    :func:`saltext.uyuni_pillar.pillar.uyuni.merge`. Raises CommandExecutionError if that
    is not known.
    """
    known = table.ask(connection, KNOWN, (at, minion))
    if not known:
        raise table.unknown("minion", [minion])
    server, organization, since, is_early, is_late, moved = known[0]
    if is_early or is_late:
        reason = f"name a time from {since} until now"
    elif moved:
        reason = f"name one after {moved}, when it got its id or organization"
    else:
        found = table.ask(
            connection,
            PAST.format(table=uyuni.find_table(connection)),
            {"at": at, "server": server, "organization": organization},
        )
        if all(value is not None for _, _, value in found):
            return found
        reason = "suse_salt_pillar_history() keeps no values"
    raise salt.exceptions.CommandExecutionError(
        f"What {minion} had at {at} is not known: {reason}."
    )


def preview(connection, fleet, place, category, pillar, options):
    """
    Return how many minions have a row, and the ``minions`` whose pillars an edit of it
    would change, by what is different

    place
        The level and the number of the owner, see
        :data:`saltext.uyuni_pillar.layout.Row`.

    pillar
        The new value, None to delete the row.

    options
        Those of :func:`saltext.uyuni_pillar.pillar.uyuni.merge`.
    """
    with_owner = ROWS.format(table=uyuni.find_table(connection))
    edited = table.ask(connection, with_owner + EDITED, (*place, category))
    old = [value for (value,) in edited if isinstance(value, dict)]
    keys = set().union(*old, pillar or ())
    formulas = table.ask(connection, with_owner + FORMULAS, (layout.FORMULA,))
    formulas = {name: _form(name, options) for (name,) in formulas}
    is_formula = place[0] > 1 and category.startswith(layout.FORMULA)
    if is_formula:
        keys = _form(category, options)
    if is_formula or category == layout.ORDER:
        keys = {*keys, layout.ORDER, layout.FORMULAS}
    else:
        # the others come to the same before and after
        formulas = {name: form for name, form in formulas.items() if form & keys}
    minions = {
        name: [
            (0, None),
            (1, found.organization),
            *((2, group) for group in found.groups),
        ]
        + [(3, found.server)]
        for name, found in fleet.minions.items()
    }
    minions = {name: places for name, places in minions.items() if place in places}
    asked = {
        "keys": list(keys),
        "formulas": list(formulas),
        "servers": [places[-1][1] for places in minions.values()],
    }
    now, then = defaultdict(dict), defaultdict(dict)
    for level, owner, name, value in table.ask(connection, with_owner + TOUCHED, asked):
        if isinstance(value, dict) and (level < 2 or name not in formulas):
            value = {key: value[key] for key in keys if key in value}
        now[level, owner][name] = value
    then.update({**now, place: {**now[place], category: pillar}})
    if pillar is None:
        del then[place][category]
    found, changes = {}, {}
    for name, (*places, own) in minions.items():
        # equal rows make equal pillars
        key = (*filter(now.__contains__, places), json.dumps(now.get(own)))
        if key not in found:
            sides = [_pillar([*places, own], rows, options) for rows in (now, then)]
            change = compare.difference(*sides, "now", "then")
            text = json.dumps(change, sort_keys=True)
            found[key] = changes.setdefault(text, {"minions": [], **(change or {})})
        found[key]["minions"].append(name)
    changes.pop("null", None)
    return len(minions), list(changes.values())


def _form(category, options):
    """
    Return the keys that a formula fills in, none if it cannot be used
    """
    try:
        name = category[len(layout.FORMULA) :]
        return set(
            uyuni.installed(options.get("formulas", formula.FOLDERS)).form(name) or ()
        )
    except formula.MissingFormula:
        return set()


def _pillar(places, rows, options):
    """
    Return the pillar that the rows of some places make
    """
    found = [
        (level, category, copy.deepcopy(value))
        for level, owner in places
        for category, value in sorted(rows.get((level, owner), {}).items())
    ]
    try:
        return uyuni.merge(found, **options)
    except salt.exceptions.CommandExecutionError as err:
        return {"_errors": [str(err)]}
