"""The tables of package states: made and upgraded here, and nowhere else

They lie in the schema ``package_states`` of any database. Each file of ``migrations`` is one step,
applied once, and those that are missing in one transaction; the table ``migration`` has the numbers
of those that were. A step is never changed after its release; number 2 took over tables that only
a patched Salt of before this extension made, number 5 made what number 8 takes away: both are gone.

Whoever may create in the database, or in a schema of it, could plant tables, views and functions that
are read or called with the rights of the master's role. So what is used here has to belong to this
role, a superuser or the owner of the database. That this role is a member of another one says
nothing: before PostgreSQL 16 every role could make others its members.
"""

import contextlib
import functools
import os

import saltext.package_states.store.connection as connections
from saltext.package_states.errors import PackageStateError

import salt.utils.files

NAME = "package_states"

# No advisory locks: every role that may connect could hold them for ever
#: Held by whoever saves, until the files are written, and by whoever sets up
LOCK = "LOCK TABLE package_states.migration IN EXCLUSIVE MODE"
#: Held by the transaction that saves, should the connection with the other lock be lost
SAVING = "LOCK TABLE package_states.state IN SHARE ROW EXCLUSIVE MODE"
#: Fails at once while somebody holds one of these
QUIET = "LOCK TABLE package_states.migration, package_states.state IN SHARE MODE NOWAIT"

_HERE = os.path.dirname(__file__)
_FOLDER = os.path.join(_HERE, "migrations")
_UYUNI = os.path.join(_HERE, "uyuni")
_STEPS = os.path.join(_HERE, "steps.sql")
_SCHEMA = "CREATE SCHEMA {}package_states;"
_APPLIED = "INSERT INTO package_states.migration (number, name) VALUES (%s, %s)"
_AGAIN = "see that the role of the option postgres may create a schema there, then run package_states.setup again"

_TABLES_OF_UYUNI = "see that the database has the tables of Uyuni and that the role of the option postgres may read them"


def migrations():
    found = []
    for name in sorted(os.listdir(_FOLDER)):
        stem, end = os.path.splitext(name)
        if end == ".sql":
            found.append(
                (int(stem.partition("_")[0]), stem, os.path.join(_FOLDER, name))
            )
    return found


def newest():
    return migrations()[-1][0]


def applied(connection):
    """Return the number of the newest step that was applied, 0 if there is none"""
    ((there,),) = connection.execute(
        "SELECT to_regclass('package_states.migration') IS NOT NULL"
    )
    if not there:
        return 0
    ((number,),) = connection.execute(
        "SELECT COALESCE(max(number), 0) FROM package_states.migration"
    )
    return number


def check(connection):
    """Check that the tables are those of this version, and that no other role has a hand in them"""
    connection.execute(_guard(_HERE))
    found, known = applied(connection), newest()
    if found < known:
        what = "are of an older version" if found else "are not there yet"
        raise PackageStateError(
            f"The tables of package states {what}; run package_states.setup."
        )
    if found > known:
        raise PackageStateError(
            f"The tables of package states are of version {found}, and this extension knows {known};"
            " install the newer version of saltext-package-states that was used here."
        )


def script(uyuni=False):
    """Return the SQL of all steps, for an administrator to apply to an empty schema, all or nothing"""
    parts = ["BEGIN;\nSET LOCAL search_path = pg_catalog;"]
    parts += [_SCHEMA.format("IF NOT EXISTS "), _guard(_HERE), _read(_STEPS)]
    for number, name, path in migrations():
        parts.append(
            f"{_read(path)}\n"
            f"INSERT INTO package_states.migration (number, name) VALUES ({number}, '{name}');"
        )
    parts.append("COMMIT;")
    if uyuni:
        views = _read(_UYUNI, "views.sql")
        parts.append(f"BEGIN;\n{_guard(_UYUNI)}\n{views}\nCOMMIT;")
    return "\n\n".join(parts) + "\n"


def _read(*path):
    with salt.utils.files.fopen(os.path.join(*path), encoding="utf-8") as handle:
        return handle.read().strip()


@functools.cache
def _guard(folder):
    """Return SQL that fails where one of the names and owners that a query of a folder finds is not right"""
    guard = _read(_HERE, "guard.sql")
    return guard.replace("NAMES AND OWNERS", _read(folder, "own.sql"))


def _begin(connection):
    """Make the schema and the table of the steps, if they are not there"""
    with _made():
        ((schema,),) = connection.execute("SELECT to_regnamespace('package_states')")
        if schema is None:
            connection.execute(_SCHEMA.format(""))
    connection.execute(_guard(_HERE))
    with _made():
        if not applied(connection):
            connection.execute(_read(_STEPS))


@contextlib.contextmanager
def _made():
    """Go on where somebody else made the same at the same time"""
    codes = connections.psycopg2.errorcodes
    try:
        yield
    except connections.psycopg2.Error as exc:
        if exc.pgcode not in (
            codes.UNIQUE_VIOLATION,
            codes.DUPLICATE_SCHEMA,
            codes.DUPLICATE_TABLE,
        ):
            raise


def setup(opts, uyuni=False):
    """Apply the steps that are missing, all or none of them, and return their names"""
    done = []
    with connections.told(_AGAIN):
        connection = connections.Connection(**connections.get_params(opts))
        try:
            _begin(connection)
            if applied(connection) < newest():
                connection.execute("BEGIN")
                connection.execute(LOCK)
                # somebody else may have applied them meanwhile
                found = applied(connection)
                for number, name, path in migrations():
                    if number > found:
                        connection.execute(_read(path))
                        connection.execute(_APPLIED, (number, name))
                        done.append(name)
                connection.execute("COMMIT")
            check(connection)
            if uyuni:
                with connections.told(_TABLES_OF_UYUNI):
                    connection.execute("BEGIN; SET LOCAL search_path TO DEFAULT")
                    connection.execute(_guard(_UYUNI))
                    connection.execute(_read(_UYUNI, "views.sql"))
                    connection.execute("COMMIT")
        finally:
            # rolls back what was not committed
            connection.close()
    return done
