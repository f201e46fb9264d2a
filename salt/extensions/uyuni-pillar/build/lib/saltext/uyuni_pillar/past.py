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
        asked.time NOT BETWEEN since.time AND clock_timestamp(), (
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
PAST = f"""
    WITH asked AS MATERIALIZED (
        SELECT %(server)s AS server_id, %(organization)s AS org_id, ARRAY(
            SELECT number FROM (
                SELECT server_group_id FROM rhnServerGroupMembers
                WHERE server_id = %(server)s
                UNION ALL
                SELECT group_id FROM suseSaltPillarMoved
                WHERE server_id = %(server)s AND changed > %(at)s::timestamptz
            ) AS moved (number) GROUP BY number HAVING count(*) %% 2 = 1
        ) AS groups
    ), pillars AS NOT MATERIALIZED (
        SELECT server_id, group_id, org_id, category, pillar, NULL AS change
        FROM {{table}}
        UNION ALL
        SELECT server_id, group_id, org_id, category,
            CASE WHEN before IS NULL AND after IS NULL THEN 'null' ELSE before END, id
        FROM suseSaltPillarHistory WHERE changed > %(at)s::timestamptz
    )
    SELECT level, category, pillar FROM (
        SELECT DISTINCT ON (level, owner, category) * FROM (
            {uyuni.ROWS.format(columns="category, pillar, change").format(table="pillars")}
        ) AS found
        ORDER BY level, owner, category, change
    ) AS past
    WHERE pillar IS NOT NULL ORDER BY level, owner, category COLLATE "C"
"""

# By level: the owner if there is one, its rows, and the minions that have them
LEVELS = (
    (
        "SELECT NULL WHERE %s IS NULL",
        "server_id IS NULL AND group_id IS NULL AND org_id IS NULL",
        "true",
    ),
    (
        "SELECT id::bigint FROM web_customer WHERE id = %s",
        "org_id = %(owner)s",
        "s.org_id = %(owner)s",
    ),
    (
        "SELECT id::bigint FROM rhnServerGroup WHERE id = %s",
        "group_id = %(owner)s",
        "%(owner)s = ANY (g.numbers)",
    ),
    (
        "SELECT server_id::bigint FROM suseMinionInfo WHERE minion_id = %s",
        "server_id = %(owner)s",
        "m.server_id = %(owner)s",
    ),
)

# The rows that decide what an edit of some keys comes to, and what of each counts: of a
# formula that fills in others only that it is there
TOUCHED = """
    (pillar ?| %(keys)s::text[] OR num_nonnulls(server_id, group_id) > 0 AND (
        category = ANY (%(formulas)s::text[])
        OR %(is_listed)s AND starts_with(category, 'formula-')
    ))
"""
VALUE = """
    CASE WHEN jsonb_typeof(pillar) <> 'object' OR category = ANY (%(formulas)s::text[])
            THEN pillar
        WHEN num_nonnulls(server_id, group_id) > 0 AND starts_with(category, 'formula-')
            THEN jsonb_build_object()
        ELSE (SELECT jsonb_object_agg(key, value) FROM jsonb_each(pillar)
            WHERE key = ANY (%(keys)s::text[]))
    END
"""
EDITED = "SELECT pillar FROM {table} WHERE {own} AND category = %(category)s"
SHARED = f"""
    SELECT CASE WHEN group_id IS NOT NULL THEN 2 WHEN org_id IS NOT NULL THEN 1 ELSE 0 END,
        COALESCE(group_id, org_id)::bigint, category, {VALUE}
    FROM {{table}} WHERE server_id IS NULL AND {TOUCHED}
"""

# Minions that have the row, together if their own rows and their places are equal; as
# text, as 1 and 1.0 are equal in jsonb
MINIONS = f"""
    SELECT org_id::bigint, numbers, own, array_agg(minion_id ORDER BY minion_id)
    FROM (
        SELECT m.minion_id, s.org_id, g.numbers, o.own
        FROM suseMinionInfo AS m JOIN rhnServer AS s ON s.id = m.server_id
        LEFT JOIN (
            SELECT server_id,
                array_agg(server_group_id::bigint ORDER BY server_group_id) AS numbers
            FROM rhnServerGroupMembers
            WHERE server_group_id = ANY (%(groups)s::numeric[]) GROUP BY server_id
        ) AS g ON g.server_id = m.server_id
        LEFT JOIN (
            SELECT server_id, jsonb_object_agg(category, {VALUE})::text AS own
            FROM {{table}} WHERE server_id IS NOT NULL AND {TOUCHED} GROUP BY server_id
        ) AS o ON o.server_id = m.server_id
        WHERE {{having}}
    ) AS found
    GROUP BY org_id, numbers, own
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
    server, organization, since, is_outside, moved = known[0]
    if is_outside:
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


def preview(connection, level, owner, category, pillar, options):
    """
    Return how many ``minions`` have a row, see :data:`saltext.uyuni_pillar.layout.Row`,
    and as ``changes`` those whose pillars it would change to give it another value, None
    to delete it. The options are those of
    :func:`saltext.uyuni_pillar.pillar.uyuni.merge`.
    """
    find, own, having = LEVELS[level]
    found = table.ask(connection, find, (owner,))
    if not found:
        raise table.unknown(("", "organization", "group", "minion")[level], [owner])
    place = (level, found[0][0])
    names = {"table": uyuni.find_table(connection), "own": own, "having": having}
    asked = {"owner": place[1], "category": category}
    keys = set(pillar or ())
    for (old,) in table.ask(connection, EDITED.format(**names), asked):
        keys.update(old if isinstance(old, dict) else ())
    is_formula = level > 1 and category.startswith(layout.FORMULA)
    folders = options.get("formulas", formula.FOLDERS)
    if is_formula:
        keys = formula.keys(folders, category[len(layout.FORMULA) :])
    is_listed = is_formula or layout.ORDER in keys
    if is_listed:
        keys = {*keys, layout.ORDER, layout.FORMULAS}
    touched = [n for n in formula.installed(folders) if formula.keys(folders, n) & keys]
    asked["formulas"] = [layout.FORMULA + name for name in touched]
    asked.update(keys=list(keys), is_listed=is_listed)
    now = defaultdict(dict)
    for *other, row, value in table.ask(connection, SHARED.format(**names), asked):
        now[tuple(other)][row] = value
    asked["groups"] = [number for kind, number in {*now, place} if kind == 2]
    count, changes = 0, {}
    minions = table.ask(connection, MINIONS.format(**names), asked)
    for organization, groups, own, found in minions:
        count += len(found)
        last = place if level == 3 else (3, None)
        now[last] = json.loads(own or "{}")
        then = {**now, place: {**now[place], category: pillar}}
        if pillar is None:
            del then[place][category]
        places = [(0, None), (1, organization)]
        places += [(2, group) for group in groups or ()] + [last]
        sides = [_pillar(places, rows, options) for rows in (now, then)]
        change = compare.difference(*sides, "now", "then")
        if change:
            text = json.dumps(change, sort_keys=True)
            changes.setdefault(text, {"minions": [], **change})["minions"] += found
    return {"minions": count, "changes": list(changes.values())}


def _pillar(places, rows, options):
    found = [
        (place[0], category, copy.deepcopy(value))
        for place in places
        for category, value in sorted(rows.get(place, {}).items())
    ]
    try:
        return uyuni.merge(found, **options)
    except salt.exceptions.CommandExecutionError as err:
        return {"_errors": [str(err)]}
