"""
Move the pillars of Uyuni from files to PostgreSQL, and back

:depends: psycopg2, or psycopg 3.1 or later where only that is installed

The functions read and write the table ``suseSaltPillars`` of Uyuni in the
database of the option ``postgres``, see :mod:`salt.pillar.postgres`. The
minions, groups and organizations must be in the tables of Uyuni. For the files
see :mod:`saltext.uyuni_pillar.pillar.uyuni_files`. The order of the formulas is kept in the
table ``suseSaltFormulaOrder`` with the columns ``formula`` and ``position``,
which is needed only if there is a ``formula_order.json``.

To move a server to the database:

.. code-block:: bash

    salt-run pillar_sql.import_files dry_run=True
    salt-run pillar_sql.import_files
    salt-run pillar_sql.verify

Then add the query to ``ext_pillar``, and keep the files until it has proved
itself. ``salt-run pillar_sql.export /srv/backup`` is the way back.

Options of the master:

.. code-block:: yaml

    pillar_sql:
      pillar_data: /srv/susemanager/pillar_data
      static_data: /usr/share/susemanager/pillar_data
      formula_data: /srv/susemanager/formula_data
      export: /srv/backup
      sources:
        uyuni:
          - suma_minion: True

pillar_data, static_data, formula_data
    The folders of the files, with their defaults. Only ``salt-run`` on the master
    may name others: a caller through salt-api or eauth would read any file.

export
    The folder below which callers through salt-api and eauth may export. Without it
    they may not.

sources
    What :py:func:`verify` may compare besides, by name. Each is written like the
    option ``ext_pillar``.
"""

import logging
import os

import saltext.uyuni_pillar.caller as caller
import saltext.uyuni_pillar.compare as compare
import saltext.uyuni_pillar.document as document
import saltext.uyuni_pillar.driver as driver
import saltext.uyuni_pillar.layout as uyuni
import saltext.uyuni_pillar.table as table

import salt.defaults.exitcodes
import salt.exceptions
import salt.pillar.sql_base
import salt.utils.args

log = logging.getLogger(__name__)

OPTION = "pillar_sql"
DEFAULTS = {
    "pillar_data": uyuni.PILLAR_DATA,
    "static_data": uyuni.STATIC_DATA,
    "formula_data": uyuni.FORMULA_DATA,
}

QUERY = "SELECT suse_minion_pillars(%s)"

#: Whether the ext_pillar postgres of this Salt takes one field of JSON for a pillar
JSON = hasattr(salt.pillar.sql_base, "_merge")


def __virtual__():
    if caller.is_minion(__opts__):
        return False, caller.REFUSED
    if driver.module is None:
        return False, f"The pillar_sql runner {driver.MISSING}"
    return True


def _retcode(wrong):
    """
    Return the exit code that salt-run takes from the result of a runner
    """
    return (
        salt.defaults.exitcodes.EX_GENERIC if wrong else salt.defaults.exitcodes.EX_OK
    )


def _options():
    """
    Return the options of the master for this runner
    """
    found = __opts__.get(OPTION) or {}
    if not isinstance(found, dict):
        raise salt.exceptions.CommandExecutionError(
            f"The option {OPTION} of the master is no mapping: correct it"
        )
    return found


def _folders(**named):
    """
    Return the folders of the files: those that are named, which only salt-run on the
    master may do, or those of the configuration
    """
    found = {}
    for name, folder in named.items():
        if folder is None:
            folder = _options().get(name, DEFAULTS[name])
        elif not caller.is_local():
            raise salt.exceptions.CommandExecutionError(
                f"This call may not name {name}: set it under {OPTION} in the"
                " configuration of the master, or use salt-run on the master"
            )
        # a name that looks like a number is one on the command line
        found[name] = str(folder)
    return uyuni.Folders(**found)


def _sources(name):
    """
    Return a source of the configuration
    """
    sources = _options().get("sources")
    found = sources.get(str(name)) if isinstance(sources, dict) else None
    if not (
        isinstance(found, list) and all(isinstance(source, dict) for source in found)
    ):
        raise salt.exceptions.CommandExecutionError(
            f"The configuration has no such list of ext_pillars: add it to sources under"
            f" {OPTION}, and name it as there"
        )
    return found


def _source(folders, categories):
    """
    Return the fleet of the database and what reads the files for it
    """
    if not any(map(os.path.isdir, (folders.pillar_data, folders.formula_data))):
        raise salt.exceptions.CommandExecutionError(
            f"There is neither {folders.pillar_data} nor {folders.formula_data}: name"
            " the folders with pillar_data and formula_data"
        )
    with table.transaction(__opts__) as connection:
        table.check(connection)
        fleet = table.Fleet(connection)
    names = map(str, salt.utils.args.split_input(categories) if categories else [])
    try:
        source = uyuni.Source(
            folders, fleet.minions, fleet.groups, fleet.organizations, list(names)
        )
    except ValueError as err:
        raise salt.exceptions.CommandExecutionError(
            f"{err}: name another in categories"
        ) from err
    return fleet, source


def import_files(
    pillar_data=None,
    static_data=None,
    formula_data=None,
    categories=None,
    dry_run=False,
    skip_bad=False,
):
    """
    Import Uyuni's pillar and formula files into the table, all in one
    transaction. Rows that have no file stay as they are.

    pillar_data, static_data, formula_data
        The folders of the files, by default those of the configuration. Only
        ``salt-run`` on the master may name others.

    categories
        Further categories of the files of a minion,
        ``pillar_<minion id>_<category>.yml``, as a list or with commas.

    dry_run
        Report what would be done, and change nothing.

    skip_bad
        Import the rest if files cannot be parsed, are ambiguous, or hold what
        JSON cannot. Without it nothing is imported then.

    The result has the number of rows that were ``added``, ``changed`` and
    ``unchanged``, and what became of each of the ``files``. Those of minions,
    groups and organizations that the database does not know are ``ignored``,
    and so are data of formulas that nobody is assigned to. The ``retcode``, which
    is the exit code of the command, is 1 if there was a bad file.

    CLI Example:

    .. code-block:: bash

        salt-run pillar_sql.import_files dry_run=True
        salt-run pillar_sql.import_files categories=network,storage skip_bad=True
    """
    folders = _folders(
        pillar_data=pillar_data, static_data=static_data, formula_data=formula_data
    )
    # reading takes its time, so nothing is locked meanwhile
    fleet, source = _source(folders, categories)
    rows = source.rows()
    refused = bool(source.bad) and not skip_bad
    if refused:
        return _report(source, rows, ["refused, as there are bad files"] * len(rows))
    with table.transaction(__opts__, "READ COMMITTED", not dry_run) as connection:
        states = table.store(connection, fleet, rows, source.order, dry_run)
        report = _report(source, rows, states)
        report["imported"] = not dry_run
    return report


def _report(source, rows, states):
    """
    Return what became of rows and files
    """
    report = {name: states.count(name) for name in ("added", "changed", "unchanged")}
    report.update(bad=len(source.bad), imported=False)
    # rows that follow from several files have none of their own
    files = {row.path: state for row, state in zip(rows, states) if row.path}
    files.update((path, f"bad: {reason}") for path, reason in source.bad.items())
    files.update(
        (path, f"ignored: {reason}") for path, reason in source.ignored.items()
    )
    report["files"] = dict(sorted(files.items()))
    report["retcode"] = _retcode(source.bad)
    return report


def export(folder):
    """
    Export all rows of the table to files as Uyuni has them

    folder
        Where to make the folders ``pillar_data``, ``static_data`` and
        ``formula_data``. It must be empty, or not there, and nobody else may write to
        it. Through salt-api and eauth it must be below the option ``export``.

    The result has the number of ``files``, the ``categories`` of minions that
    :py:func:`import_files` and :py:func:`verify` need to be told, and the rows
    that were ``skipped`` because no file can have their name, by id. The
    ``retcode`` is 1 if there is any.

    A formula that a minion has of its own, with data, and by a group as well,
    is exported as one that it has by the group.

    CLI Example:

    .. code-block:: bash

        salt-run pillar_sql.export /srv/backup
    """
    # what looks like a number is one on the command line
    folder = caller.check_below(
        _options().get("export"), str(folder), f"export under {OPTION}"
    )
    if os.path.isdir(folder) and os.listdir(folder):
        raise salt.exceptions.CommandExecutionError(
            f"{folder} is not empty: name a folder that is, or that is not there"
        )
    if document.is_shared(folder):
        raise salt.exceptions.CommandExecutionError(
            f"Other users may write to {folder}: name a folder of which only its owner may"
        )
    folders = uyuni.Folders(
        *(
            os.path.join(folder, name)
            for name in ("pillar_data", "static_data", "formula_data")
        )
    )
    with table.transaction(__opts__) as connection:
        table.check(connection)
        fleet = table.Fleet(connection)
        rows = table.ask(
            connection,
            "SELECT id, server_id, group_id, org_id, category, pillar"
            " FROM suseSaltPillars ORDER BY id",
        )
        order = table.read_order(connection)
    targets, skipped, formulas = _targets(folders, fleet, rows)
    lists, expected = _assignments(fleet, formulas, order or [])
    skipped.update(_lost_lists(fleet, rows, expected))
    lists["formula_order.json"] = order
    for name, value in lists.items():
        if value:
            targets[os.path.join(folders.formula_data, name)] = value
    try:
        for path, value in targets.items():
            document.write(path, value)
    except OSError as err:
        raise salt.exceptions.CommandExecutionError(
            f"{folder} cannot be written: {err}: name another folder"
        ) from err
    known = {uyuni.GENERAL, uyuni.FORMULAS, *uyuni.CATEGORIES}
    categories = {
        category
        for _, server, _, _, category, _ in rows
        if server is not None and not category.startswith(uyuni.FORMULA)
    }
    return {
        "files": len(targets),
        "categories": sorted(categories - known),
        "skipped": skipped,
        "retcode": _retcode(skipped),
    }


def _targets(folders, fleet, rows):
    """
    Return what goes into which file, why rows are skipped by id, and the
    formulas by level, owner and name with whether they have data
    """
    minions = {server: minion for minion, server in fleet.servers.items()}
    targets, skipped, formulas = {}, {}, {2: {}, 3: {}}
    for number, server, group, org, category, pillar in rows:
        level, owner = 0, None
        if server is not None:
            level, owner = 3, minions.get(server)
        elif group is not None:
            level, owner = 2, int(group)
        elif org is not None:
            level, owner = 1, int(org)
        try:
            if level and owner is None:
                raise uyuni.BadFile("its server is no minion")
            path = uyuni.path_of(folders, level, owner, category)
            if path in targets:
                raise uyuni.BadFile("another row has the same file")
        except uyuni.BadFile as err:
            skipped[int(number)] = f"{category}: {err}"
            continue
        if path is None:
            # a list of formulas, which follows from the others
            continue
        if level > 1 and category.startswith(uyuni.FORMULA):
            name = category[len(uyuni.FORMULA) :]
            formulas[level].setdefault(owner, {})[name] = bool(pillar)
            if not pillar:
                # assigned without data
                continue
        targets[path] = pillar
    return targets, skipped, formulas


def _assignments(fleet, formulas, order):
    """
    Return what the files of assignments hold, and the list of formulas of each
    minion that importing them makes
    """
    by_group = {
        str(group): uyuni.in_order(found, order) for group, found in formulas[2].items()
    }
    by_minion, expected = {}, {}
    for minion, groups in fleet.minions.items():
        found = formulas[3].get(minion, {})
        inherited = set().union(*(formulas[2].get(group, ()) for group in groups))
        own = [name for name in found if not (found[name] and name in inherited)]
        if own:
            by_minion[minion] = uyuni.in_order(own, order)
        if own or inherited:
            expected[minion] = uyuni.in_order([*own, *inherited], order)
    return {uyuni.BY_GROUP: by_group, uyuni.BY_MINION: by_minion}, expected


def _lost_lists(fleet, rows, expected):
    """
    Return the lists of formulas that importing the files would not make, by id
    """
    minions = {server: minion for minion, server in fleet.servers.items()}
    lost = {}
    for number, server, _, _, category, pillar in rows:
        if server is None or category != uyuni.FORMULAS or server not in minions:
            continue
        made = expected.get(minions[server])
        if pillar != {"formulas": made}:
            lost[int(number)] = (
                f"{category}: it is not what follows from the rows of"
                f" {minions[server]} and its groups, which is {made}"
            )
    return lost


def verify(
    pillar_data=None,
    static_data=None,
    formula_data=None,
    categories=None,
    minions=None,
    files=None,
    database=None,
):
    """
    Compile the pillars of the minions from the files and from the database,
    and report the differences

    pillar_data, static_data, formula_data, categories
        As for :py:func:`import_files`.

    minions
        The ids of the minions, as a list or with commas. All that the database
        knows by default.

    files
        The name of a source of the configuration to compare with, in place of what
        :mod:`saltext.uyuni_pillar.pillar.uyuni_files` makes of the files.

    database
        The name of a source of the configuration that will be ``ext_pillar``, in place
        of the query of the table.

    The result has the number of ``minions``, and by minion what is
    ``different``; the number of those whose pillars are equal, but have their
    keys in another order, which is that of ``jsonb`` then, as ``reordered``;
    and the files that :py:func:`import_files` would not take as ``bad``. The
    ``retcode`` is 1 if anything is different or bad.

    CLI Example:

    .. code-block:: bash

        salt-run pillar_sql.verify
        salt-run pillar_sql.verify minions=web1.example.com
        salt-run pillar_sql.verify files=uyuni
    """
    folders = _folders(
        pillar_data=pillar_data, static_data=static_data, formula_data=formula_data
    )
    found = None if files is None else _sources(files)
    wanted = [{"postgres": [QUERY]}] if database is None else _sources(database)
    if database is None and not JSON:
        raise salt.exceptions.CommandExecutionError(
            "The ext_pillar postgres of this Salt takes no pillar out of one field"
            f" without as_json: add a source with it to sources under {OPTION}, and name"
            " it with database"
        )
    bad = {}
    with table.transaction(__opts__) as connection:
        fleet = table.Fleet(connection)
        priorities = table.read_priorities(connection)
    minions = (
        sorted(fleet.minions)
        if minions is None
        else salt.utils.args.split_input(minions)
    )
    unknown = sorted(set(minions) - set(fleet.minions))
    if unknown:
        # neither side has a pillar for it, so both would be equal
        raise salt.exceptions.CommandExecutionError(
            f"The database knows no minion {', '.join(unknown)}: see that the names"
            " are spelled as in salt-key"
        )
    if found is None:
        _, source = _source(folders, categories)
        source.rows()
        bad = source.bad
        document.forget()
        found = [
            {
                "uyuni_files": {
                    **folders._asdict(),
                    "categories": source.categories,
                    "priorities": priorities,
                    "keep": True,
                }
            }
        ]
    sides = [compare.Side(source, __opts__) for source in (found, wanted)]
    for side in sides:
        missing = side.missing()
        if missing:
            # each pillar would be empty on this side, and all of them different
            raise salt.exceptions.CommandExecutionError(
                f"There is no ext_pillar {', '.join(missing)} here: put its module"
                " where extension_modules of the master finds it"
            )
    different, reordered = {}, 0
    for minion in minions:
        pillars = [side.compile(minion) for side in sides]
        lacking = compare.difference(*pillars)
        if lacking:
            different[minion] = lacking
        else:
            reordered += compare.reordered(*pillars)
    return {
        "minions": len(minions),
        "different": different,
        "reordered": reordered,
        "bad": bad,
        "retcode": _retcode(different or bad),
    }
