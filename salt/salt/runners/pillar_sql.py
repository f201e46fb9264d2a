"""
Move the pillars of Uyuni from files to PostgreSQL, and back

.. versionadded:: 3009.0

:depends: psycopg2

The functions read and write the table ``suseSaltPillars`` of Uyuni in the
database of the option ``postgres``, see :mod:`salt.pillar.postgres`. The
minions, groups and organizations must be in the tables of Uyuni. For the files
see :mod:`salt.utils.uyuni_pillar`. The order of the formulas is kept in the
table ``suseSaltFormulaOrder`` with the columns ``formula`` and ``position``,
which is needed only if there is a ``formula_order.json``.

To move a server to the database:

.. code-block:: bash

    salt-run pillar_sql.import_files dry_run=True
    salt-run pillar_sql.import_files
    salt-run pillar_sql.verify

Then add the query to ``ext_pillar``, and keep the files until it has proved
itself. ``salt-run pillar_sql.export /srv/backup`` is the way back.
"""

import contextlib
import json
import logging
import os

import salt.defaults.exitcodes
import salt.exceptions
import salt.pillar
import salt.utils.args
import salt.utils.dictdiffer
import salt.utils.minions
import salt.utils.postgres
import salt.utils.uyuni_pillar as uyuni

log = logging.getLogger(__name__)

try:
    import psycopg2

    HAS_PSYCOPG2 = True
except ImportError:
    HAS_PSYCOPG2 = False

QUERY = "SELECT suse_minion_pillars(%s)"

# How many rows one statement carries
BATCH = 500

# The columns of a row's owner, by level
COLUMNS = (None, "org_id", "group_id", "server_id")

# A key that equal owners have in common, as NULL is equal to nothing
OWNER = (
    "COALESCE({0}.server_id, -1), COALESCE({0}.group_id, -1),"
    " COALESCE({0}.org_id, -1), {0}.category"
)

CREATE = """
    CREATE TEMPORARY TABLE imported (
        number INTEGER, server_id NUMERIC, group_id NUMERIC, org_id NUMERIC,
        category VARCHAR, pillar JSONB
    ) ON COMMIT DROP
"""
FILL = """
    INSERT INTO imported SELECT * FROM jsonb_to_recordset(%s::jsonb) AS row (
        number INTEGER, server_id NUMERIC, group_id NUMERIC, org_id NUMERIC,
        category VARCHAR, pillar JSONB
    )
"""
CHANGE = f"""
    UPDATE suseSaltPillars AS kept SET pillar = imported.pillar FROM imported
    WHERE ({OWNER.format("kept")}) = ({OWNER.format("imported")})
    AND kept.pillar <> imported.pillar RETURNING imported.number
"""
ADD = f"""
    INSERT INTO suseSaltPillars (server_id, group_id, org_id, category, pillar)
    SELECT server_id, group_id, org_id, category, pillar FROM imported
    WHERE ({OWNER.format("imported")})
    NOT IN (SELECT {OWNER.format("kept")} FROM suseSaltPillars AS kept)
    ORDER BY number RETURNING server_id, group_id, org_id, category
"""


def __virtual__():
    if not HAS_PSYCOPG2:
        return False, "The pillar_sql runner needs psycopg2"
    return True


class Fleet:
    """
    The minions, groups and organizations in the tables of Uyuni
    """

    def __init__(self, connection):
        self.servers = {}
        self.minions = {}
        memberships = {}
        for server, group in _ask(
            connection, "SELECT server_id, server_group_id FROM rhnServerGroupMembers"
        ):
            memberships.setdefault(server, set()).add(int(group))
        for server, minion in _ask(
            connection, "SELECT server_id, minion_id FROM suseMinionInfo"
        ):
            self.servers[minion] = int(server)
            self.minions[minion] = memberships.get(server, set())
        self.groups = _ids(connection, "SELECT id FROM rhnServerGroup")
        self.organizations = _ids(connection, "SELECT id FROM web_customer")


def _ask(connection, query, values=None):
    connection.execute(query, values)
    return connection.fetchall()


def _ids(connection, query):
    return [int(value) for (value,) in _ask(connection, query)]


@contextlib.contextmanager
def _transaction(commit=True):
    """
    Yield a connection in a transaction, and commit it at the end

    Nothing is half done: if this process dies, the server rolls back.
    """
    # importing everything may take longer than a query of a pillar may
    params = {**salt.utils.postgres.get_params(__opts__), "statement_timeout": 0}
    try:
        connection = salt.utils.postgres.Connection(**params)
        try:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            yield connection
            connection.execute("COMMIT" if commit else "ROLLBACK")
        finally:
            # rolls back whatever was not committed
            connection.close()
    except psycopg2.Error as err:
        raise salt.exceptions.CommandExecutionError(
            f"PostgreSQL: {str(err).strip()}"
        ) from err


def _retcode(wrong):
    """
    Return the exit code that salt-run takes from the result of a runner
    """
    return (
        salt.defaults.exitcodes.EX_GENERIC if wrong else salt.defaults.exitcodes.EX_OK
    )


def _folders(pillar_data, static_data, formula_data):
    return uyuni.Folders(pillar_data, static_data, formula_data)


def _names(categories):
    return salt.utils.args.split_input(categories) if categories else []


def import_files(
    pillar_data=uyuni.PILLAR_DATA,
    static_data=uyuni.STATIC_DATA,
    formula_data=uyuni.FORMULA_DATA,
    categories=None,
    dry_run=False,
    skip_bad=False,
):
    """
    Import Uyuni's pillar and formula files into the table, all in one
    transaction. Rows that have no file stay as they are.

    pillar_data, static_data, formula_data
        The folders of the files.

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
    folders = _folders(pillar_data, static_data, formula_data)
    if not os.path.isdir(pillar_data) and not os.path.isdir(formula_data):
        raise salt.exceptions.CommandExecutionError(
            f"There is neither {pillar_data} nor {formula_data}: name the folders"
            " with pillar_data and formula_data"
        )
    with _transaction(commit=not dry_run) as connection:
        # two imports at once would both add the same rows; reading goes on
        connection.execute("LOCK TABLE suseSaltPillars IN SHARE ROW EXCLUSIVE MODE")
        fleet = Fleet(connection)
        source = uyuni.Source(
            folders,
            fleet.minions,
            fleet.groups,
            fleet.organizations,
            _names(categories),
        )
        rows = source.rows()
        report = {"added": 0, "changed": 0, "unchanged": 0, "bad": len(source.bad)}
        refused = bool(source.bad) and not skip_bad
        report["imported"] = not dry_run and not refused
        states = {}
        if not refused:
            states = _store(connection, fleet, rows)
            _store_order(connection, source.order)
    for state in states.values():
        report[state] += 1
    files = {row.path: states.get(number) for number, row in enumerate(rows)}
    files.pop(None, None)
    if refused:
        files = dict.fromkeys(files, "refused, as there are bad files")
    files.update((path, f"bad: {reason}") for path, reason in source.bad.items())
    files.update(
        (path, f"ignored: {reason}") for path, reason in source.ignored.items()
    )
    report["files"] = dict(sorted(files.items()))
    report["retcode"] = _retcode(source.bad)
    return report


def _store(connection, fleet, rows):
    """
    Write rows, and return what became of each by its number
    """
    connection.execute(CREATE)
    keys = {}
    for start in range(0, len(rows), BATCH):
        batch = []
        for number, row in enumerate(rows[start : start + BATCH], start):
            record = {"number": number, "category": row.category, "pillar": row.pillar}
            if row.level:
                owner = fleet.servers[row.owner] if row.level == 3 else row.owner
                record[COLUMNS[row.level]] = owner
                keys[row.level, owner, row.category] = number
            else:
                keys[0, None, row.category] = number
            batch.append(record)
        connection.execute(FILL, (json.dumps(batch),))
    connection.execute("ANALYZE imported")
    states = dict.fromkeys(range(len(rows)), "unchanged")
    for (number,) in _ask(connection, CHANGE):
        states[number] = "changed"
    for server, group, org, category in _ask(connection, ADD):
        for level, owner in ((3, server), (2, group), (1, org), (0, None)):
            if owner is not None or not level:
                owner = None if owner is None else int(owner)
                states[keys[level, owner, category]] = "added"
                break
    return states


def _store_order(connection, order):
    """
    Write the order of the formulas, unless there was no file of it
    """
    if order is None:
        return
    if _ask(connection, "SELECT to_regclass('suseSaltFormulaOrder')") == [(None,)]:
        raise salt.exceptions.CommandExecutionError(
            "The database has no table suseSaltFormulaOrder for formula_order.json:"
            " create it with the columns formula VARCHAR and position INTEGER"
        )
    connection.execute("DELETE FROM suseSaltFormulaOrder")
    connection.execute(
        "INSERT INTO suseSaltFormulaOrder (formula, position)"
        " SELECT * FROM unnest(%s::varchar[], %s::integer[])",
        (order, list(range(len(order)))),
    )


def export(folder):
    """
    Export all rows of the table to files as Uyuni has them

    folder
        Where to make the folders ``pillar_data``, ``static_data`` and
        ``formula_data``. It must be empty, or not there.

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
    if os.path.isdir(folder) and os.listdir(folder):
        raise salt.exceptions.CommandExecutionError(
            f"{folder} is not empty: name a folder that is, or that is not there"
        )
    folders = uyuni.Folders(
        *(
            os.path.join(folder, name)
            for name in ("pillar_data", "static_data", "formula_data")
        )
    )
    with _transaction() as connection:
        fleet = Fleet(connection)
        minions = {server: minion for minion, server in fleet.servers.items()}
        rows = _ask(
            connection,
            "SELECT id, server_id, group_id, org_id, category, pillar"
            " FROM suseSaltPillars ORDER BY id",
        )
        order = None
        if _ask(connection, "SELECT to_regclass('suseSaltFormulaOrder')") != [(None,)]:
            order = [
                formula
                for (formula,) in _ask(
                    connection,
                    "SELECT formula FROM suseSaltFormulaOrder ORDER BY position",
                )
            ]
    targets = {}
    skipped = {}
    formulas = {2: {}, 3: {}}
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
            skipped[number] = f"{category}: {err}"
            continue
        if path is None:
            continue
        if level > 1 and category.startswith(uyuni.FORMULA):
            name = category[len(uyuni.FORMULA) :]
            formulas[level].setdefault(owner, {})[name] = bool(pillar)
            if not pillar:
                # assigned without data
                continue
        targets[path] = pillar
    by_group = {
        str(group): uyuni.in_order(found, order or [])
        for group, found in formulas[2].items()
    }
    by_minion = {}
    for minion, found in formulas[3].items():
        inherited = set().union(
            *(formulas[2].get(group, ()) for group in fleet.minions[minion])
        )
        own = [name for name in found if not (found[name] and name in inherited)]
        if own:
            by_minion[minion] = uyuni.in_order(own, order or [])
    for name, value in (
        ("group_formulas.json", by_group),
        ("minion_formulas.json", by_minion),
        ("formula_order.json", order),
    ):
        if value:
            targets[os.path.join(folders.formula_data, name)] = value
    for path, value in targets.items():
        uyuni.write(path, value)
    general = {uyuni.GENERAL, uyuni.FORMULAS, *uyuni.CATEGORIES}
    categories = {
        category
        for _, server, _, _, category, _ in rows
        if server is not None and not category.startswith(uyuni.FORMULA)
    }
    return {
        "files": len(targets),
        "categories": sorted(categories - general),
        "skipped": skipped,
        "retcode": _retcode(skipped),
    }


def verify(
    pillar_data=uyuni.PILLAR_DATA,
    static_data=uyuni.STATIC_DATA,
    formula_data=uyuni.FORMULA_DATA,
    categories=None,
    query=QUERY,
    minions=None,
    files_pillar=None,
):
    """
    Compile the pillars of the minions from the files and from the database,
    and report the differences

    pillar_data, static_data, formula_data, categories
        As for :py:func:`import_files`.

    query
        The query that will be in ``ext_pillar``, or a list of them, each with
        its options if it has any.

    minions
        The ids of the minions, as a list or with commas. All that the database
        knows by default.

    files_pillar
        What ``ext_pillar`` has now, as a list, to compare with this and not
        with what :mod:`salt.pillar.uyuni_files` makes of the files.

    The result has the number of ``minions``, and by minion what is
    ``different``. The ``retcode`` is 1 if anything is.

    CLI Example:

    .. code-block:: bash

        salt-run pillar_sql.verify
        salt-run pillar_sql.verify minions=web1.example.com
        salt-run pillar_sql.verify files_pillar='[{suma_minion: True}]'
    """
    if minions is None:
        with _transaction() as connection:
            minions = sorted(Fleet(connection).minions)
    else:
        minions = salt.utils.args.split_input(minions)
    if files_pillar is None:
        uyuni.forget()
        files_pillar = [
            {
                "uyuni_files": {
                    "pillar_data": pillar_data,
                    "static_data": static_data,
                    "formula_data": formula_data,
                    "categories": [*uyuni.CATEGORIES, *_names(categories)],
                    "keep": True,
                }
            }
        ]
    sides = [
        Side(source, __opts__)
        for source in (
            files_pillar,
            [{"postgres": query if isinstance(query, list) else [query]}],
        )
    ]
    different = {}
    for minion in minions:
        found = _difference(*(side.compile(minion) for side in sides))
        if found:
            different[minion] = found
    return {
        "minions": len(minions),
        "different": different,
        "retcode": _retcode(different),
    }


class Side:
    """
    Compiles what pillars get from one source, and from nothing else
    """

    def __init__(self, ext_pillar, opts):
        self.opts = {
            **opts,
            "ext_pillar": ext_pillar,
            "pillar_roots": {},
            "file_client": "local",
        }
        self.ext_pillar = ext_pillar
        self.compiler = None
        # a text can ask for the id only, all else may need the grains
        self.by_id = all(
            "uyuni_files" in source
            or all(isinstance(query, str) for query in source.get("postgres", [{}]))
            for source in ext_pillar
        )

    def compile(self, minion):
        """
        Return the pillar of a minion, with its errors
        """
        if self.compiler is None or not self.by_id:
            grains = {}
            if not self.by_id:
                _, grains, _ = salt.utils.minions.get_minion_data(minion, self.opts)
            self.compiler = salt.pillar.Pillar(self.opts, grains or {}, minion, "base")
        self.compiler.minion_id = minion
        pillar, errors = self.compiler.ext_pillar({})
        return {**pillar, "_errors": errors} if errors else pillar


def _difference(files, database):
    """
    Return what differs in two pillars, None if nothing does
    """
    # 1, 1.0 and True are equal, but not the same in a template
    if json.dumps(files, sort_keys=True) == json.dumps(database, sort_keys=True):
        # an error is never right
        return {"both": files["_errors"]} if "_errors" in files else None
    found = salt.utils.dictdiffer.deep_diff(files, database)
    return {
        "files": found.get("old", "a value of another type"),
        "database": found.get("new", "a value of another type"),
    }
