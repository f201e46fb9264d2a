"""
Import Uyuni's pillar files into PostgreSQL, and compare pillars

:depends: psycopg2

The functions read and write the table ``suseSaltPillars`` in the database of the option
``postgres``, see :mod:`salt.pillar.postgres`. The minions, groups and organizations must
be in the tables of Uyuni. For the files see :mod:`saltext.uyuni_pillar.layout`; the option
``pillar_sql`` of the master may name other folders than its ``DEFAULTS``.
"""

import os

import saltext.uyuni_pillar.compare as compare
import saltext.uyuni_pillar.document as document
import saltext.uyuni_pillar.layout as layout
import saltext.uyuni_pillar.past as past
import saltext.uyuni_pillar.pillar.uyuni as uyuni
import saltext.uyuni_pillar.table as table
from saltext.uyuni_pillar.connection import MISSING, psycopg2

import salt.exceptions
import salt.pillar
import salt.utils.args

OPTION = "pillar_sql"

#: What a minion is told that calls this runner
REFUSED = "Minions may not call this runner: use it on the master, or through salt-api."


def __virtual__():
    if _is_minion(__opts__):
        return False, REFUSED
    if psycopg2 is None:
        return False, f"The pillar_sql runner {MISSING}"
    return True


def _is_minion(opts):
    """
    Return whether a minion calls, as ``peer_run`` lets it

    The master's own options name no function. For a minion it adds ``fun`` and ``doc`` to
    them, and runs the function as itself. Those of ``salt-run`` have both as well, and
    ``async``; those of Thorium ``fun`` and ``async``. The configuration of the master may
    have any of them, but does not set ``__cli``.
    """
    return "fun" in opts and not (
        "async" in opts and (opts.get("__cli") == "salt-run" or "doc" not in opts)
    )


def import_files(dry_run=False):
    """
    Import Uyuni's pillar and formula files into the table, all in one
    transaction. Rows that have no file stay as they are.

    dry_run
        Report what would be done, and change nothing.

    The result has the number of rows that were ``added``, ``changed`` and
    ``unchanged``, and the files that were ``ignored``: those of minions, groups and
    organizations that the database does not know, and data of formulas that nobody is
    assigned to. If any file is ``bad``, nothing is imported, and the ``retcode`` is 1.

    CLI Example:

    .. code-block:: bash

        salt-run pillar_sql.import_files dry_run=True
    """
    folders = {**layout.DEFAULTS, **(__opts__.get(OPTION) or {})}
    needed = folders["pillar_data"], folders["formula_data"]
    if not any(map(os.path.isdir, needed)):
        raise salt.exceptions.CommandExecutionError(
            f"There is neither {' nor '.join(needed)}: name the folders in the option"
            f" {OPTION} of the master"
        )
    # reading takes its time, so nothing is locked meanwhile
    with table.transaction(__opts__) as connection:
        fleet = table.Fleet(connection)
    source = layout.Source(folders, fleet)
    rows = source.rows()
    changed = added = 0
    is_imported = not source.bad and not dry_run
    if not source.bad:
        with table.transaction(__opts__, "READ COMMITTED", is_imported) as connection:
            changed, added = table.store(connection, fleet, rows)
    return {
        "imported": is_imported,
        "added": added,
        "changed": changed,
        "unchanged": len(rows) - added - changed,
        "bad": source.bad,
        "ignored": source.ignored,
        "retcode": int(bool(source.bad)),
    }


def compare_pillars(minions=None):
    """
    Compile the pillars of the minions with ``suma_minion`` and with ``uyuni``, and report
    the differences: before a switch from the one to the other

    minions
        The ids of the minions, as a list or with commas. All that the database
        knows by default.

    ``uyuni`` has the options that ``ext_pillar`` gives it. The result has the number of
    ``minions``, and by minion what is ``different``. The ``retcode`` is 1 if anything is.

    CLI Example:

    .. code-block:: bash

        salt-run pillar_sql.compare minions=web1.example.com
    """
    old = _compiler("suma_minion", True)
    new = _compiler("uyuni", _uyuni_options())
    with table.transaction(__opts__) as connection:
        known = table.Fleet(connection).minions
    wanted = sorted(known) if minions is None else salt.utils.args.split_input(minions)
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise table.unknown("minion", unknown)
    different = {}
    for minion in wanted:
        found = compare.difference(old(minion), new(minion), "suma_minion", "uyuni")
        if found:
            different[minion] = found
    return {
        "minions": len(wanted),
        "different": different,
        "retcode": int(bool(different)),
    }


def show(minion, at=None):
    """
    Return what ``uyuni`` gives a minion, now or at an earlier time

    at
        A time as PostgreSQL reads it, in the time zone of the database if it names
        none. The history of ``sql/pillar_changes.sql`` has to reach back to it.

    Rows and groups are those of that time; the files of formulas are those of today.

    CLI Example:

    .. code-block:: bash

        salt-run pillar_sql.show web1.example.com at='2026-11-20 10:00'
    """
    with table.transaction(__opts__) as connection:
        return uyuni.merge(past.rows(connection, str(minion), at), **_uyuni_options())


def preview(category, pillar=None, minion=None, group=None, organization=None):
    """
    Return which pillars the edit of a row would change, and how. Nothing is changed.

    category, pillar
        The row and its new value; without one it is the deletion of the row.

    minion, group, organization
        Whose row it is: the id of a minion, the number of a group or of an
        organization. Everyone's by default.

    The result has the number of ``minions`` that have the row, and as ``changes`` lists
    of ``minions`` with the part of their pillars that differs: ``now`` and ``then``.

    CLI Example:

    .. code-block:: bash

        salt-run pillar_sql.preview motd '{"motd": "Closed on Friday"}' group=12
    """
    named = enumerate((organization, group, minion), 1)
    owners = [(level, owner) for level, owner in named if owner is not None]
    if len(owners) > 1:
        raise salt.exceptions.SaltInvocationError(
            "A row has one owner: name a minion, a group or an organization"
        )
    if not isinstance(pillar, (dict, type(None))):
        raise salt.exceptions.SaltInvocationError("A pillar is a mapping")
    document.check(pillar)
    ((level, owner),) = owners or [(0, None)]
    with table.transaction(__opts__) as connection:
        return past.preview(
            connection, level, owner, category, pillar, _uyuni_options()
        )


__func_alias__ = {"compare_pillars": "compare"}


def _uyuni_options():
    """
    Return the options of the pillar uyuni of this master, none if it is not there
    """
    sources = __opts__.get("ext_pillar") or ()
    return next((one["uyuni"] for one in sources if "uyuni" in one), None) or {}


def _compiler(name, options):
    """
    Return what compiles the pillar of a minion with one ext_pillar and nothing else
    """
    opts = {
        **__opts__,
        "ext_pillar": [{name: options}],
        "pillar_roots": {},
        "file_client": "local",
    }
    compiler = salt.pillar.Pillar(opts, {}, "", "base")
    if name not in compiler.ext_pillars:
        # each pillar would be empty, and all of them different
        raise salt.exceptions.CommandExecutionError(
            f"There is no ext_pillar {name} here: put its module where"
            " extension_modules of the master finds it"
        )

    def compile_pillar(minion):
        compiler.minion_id = minion
        pillar, errors = compiler.ext_pillar({})
        return {**pillar, "_errors": errors} if errors else pillar

    return compile_pillar
