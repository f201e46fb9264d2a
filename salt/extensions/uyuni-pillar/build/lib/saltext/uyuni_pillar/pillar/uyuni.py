"""
Pillars out of Uyuni's database, with the forms of formulas filled in

Takes the place of Uyuni's own module ``suma_minion``: the same pillar out of the
same database and the same formulas.

.. code-block:: yaml

    postgres:
      db: susemanager
      host: localhost
      user: spacewalk
      pass: spacewalk

    ext_pillar:
      - uyuni: {}

formulas
    Folders with formulas, by default :data:`saltext.uyuni_pillar.formula.FOLDERS`. The
    first one that has a formula counts.

lenient
    Leave out a formula that cannot be used and a row that is no JSON object, and write
    that to the log, as Uyuni does. By default it is an error of the pillar.

What comes later overrides what was before, nested keys are merged: the rows of
everyone, of the organization of the minion, of its groups by their numbers and of itself;
those of one owner by their categories. Rows of the category ``formula-<name>`` are what
was typed into the form of a formula, see :mod:`saltext.uyuni_pillar.form`, and come last.
``formulas`` lists the formulas of the minion, in the order of the key ``formula_order`` of
a row of everyone. A minion that Uyuni does not know gets the rows of everyone.

If the connection breaks, the statement is tried twice again. A database that does not
answer is an error of the pillar, where Uyuni's module leaves the pillar empty.

:depends: psycopg2
"""

import logging

import saltext.uyuni_pillar.formula as formula
import saltext.uyuni_pillar.layout as layout
from saltext.uyuni_pillar.connection import MISSING, connect, psycopg2

import salt.exceptions
import salt.utils.dictupdate

try:
    # a Salt that keeps connections
    import salt.utils.postgres as kept
except ImportError:
    kept = None

log = logging.getLogger(__name__)

# Uyuni's own name, and that of the proposal
TABLES = ("suseSaltPillar", "suseSaltPillars")

# The levels whose formulas are forms to be filled in
GROUP, MINION = 2, 3

# The rows of the minion ``asked`` by level and owner
ROWS = """
    SELECT 0 AS level, 0 AS owner, {columns} FROM {{table}}
    WHERE server_id IS NULL AND group_id IS NULL AND org_id IS NULL
    UNION ALL
    SELECT 1, org_id, {columns} FROM {{table}}
    WHERE server_id IS NULL AND group_id IS NULL AND org_id = (SELECT org_id FROM asked)
    UNION ALL
    SELECT 2, group_id, {columns} FROM {{table}}
    WHERE server_id IS NULL AND group_id = ANY ((SELECT groups FROM asked)::numeric[])
    UNION ALL
    SELECT 3, server_id, {columns} FROM {{table}}
    WHERE server_id = (SELECT server_id FROM asked)
"""
QUERY = f"""
    WITH asked AS MATERIALIZED (
        SELECT m.server_id, s.org_id, ARRAY(
            SELECT server_group_id FROM rhnServerGroupMembers AS g
            WHERE g.server_id = m.server_id
        ) AS groups
        FROM suseMinionInfo AS m
        JOIN rhnServer AS s ON s.id = m.server_id WHERE m.minion_id = %s
    )
    SELECT level, category, pillar FROM (
        {ROWS.format(columns="category, pillar")}
    ) AS found
    ORDER BY level, owner, category COLLATE "C"
"""

# How often the query is tried again if the connection breaks, and what the server
# reports then
RETRIES = 2
BROKEN = ("08", "57P")


def _cursor():
    """
    Return a context with a cursor of the connection of this process where Salt keeps one,
    else with a new connection
    """
    if kept is not None:
        return kept.get_cursor(**kept.get_params(__opts__))
    return connect(__opts__)


def find_table(cursor):
    """
    Return the name of the table of pillars
    """
    cursor.execute("SELECT to_regclass(%s)::text, to_regclass(%s)::text", TABLES)
    for name, found in zip(TABLES, cursor.fetchall()[0]):
        if found:
            return name
    raise salt.exceptions.CommandExecutionError(
        f"The database has neither {TABLES[0]} nor {TABLES[1]}: name the database of"
        " Uyuni in the option postgres."
    )


def _rows(minion_id):
    if psycopg2 is None:
        # Salt leaves a pillar out whose module is not there, and states are applied
        raise salt.exceptions.CommandExecutionError(f"The pillar uyuni {MISSING}")
    for tries_left in reversed(range(1 + RETRIES)):
        try:
            with _cursor() as cursor:
                cursor.execute(QUERY.format(table=find_table(cursor)), (minion_id,))
                return cursor.fetchall()
        except psycopg2.Error as err:
            if tries_left and (err.pgcode or BROKEN[0]).startswith(BROKEN):
                log.warning(
                    "The connection to Uyuni's database broke, trying again: %s", err
                )
                continue
            log.error("The pillar table of Uyuni cannot be read: %s", str(err).strip())
            # The minion sees this, and need not know where the database is
            reason = "it does not answer"
            if err.pgcode:
                reason = f"the database reports {err.pgcode}"
            raise salt.exceptions.CommandExecutionError(
                f"The pillar table of Uyuni cannot be read: {reason}, see the log of the"
                " master"
            ) from None


def ext_pillar(
    minion_id, pillar, formulas=formula.FOLDERS, lenient=False
):  # pylint: disable=unused-argument
    """
    Return the pillar of a minion out of Uyuni's database
    """
    return merge(_rows(minion_id), formulas, lenient)


def merge(rows, formulas=formula.FOLDERS, lenient=False):
    """
    Return the pillar that rows make, each with its level, category and value
    """
    merged, typed = {}, {GROUP: {}, MINION: {}}
    for level, category, value in rows:
        if not isinstance(value, dict):
            message = (
                f"The row {category} of the pillar table is no JSON object: correct it."
            )
            if not lenient:
                raise salt.exceptions.CommandExecutionError(message)
            log.error("%s", message)
            continue
        if level in typed and category.startswith(layout.FORMULA):
            # of two groups with the same formula, the later one counts alone
            typed[level][category[len(layout.FORMULA) :]] = value
        else:
            merged = salt.utils.dictupdate.update(merged, value)
    order = merged.pop(layout.ORDER, None)
    added = formula.pillar(formulas, typed[GROUP], typed[MINION], order, lenient)
    return salt.utils.dictupdate.update(merged, added)
