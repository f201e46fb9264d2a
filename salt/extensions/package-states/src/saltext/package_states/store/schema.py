"""The tables of package states: made and upgraded here, and nowhere else

They lie in the schema ``package_states`` of any database. Each file of ``migrations`` is one step,
applied once, in a transaction of its own; the table ``migration`` has the numbers of those that
were. A step is never changed after its release; number 5 made what number 8 takes away, and is gone.
"""

import os

import saltext.package_states.store.connection as connections
from saltext.package_states.errors import PackageStateError

import salt.utils.files

NAME = "package_states"

#: Makes two that set up at the same time do one after the other; also of whoever saves.
LOCK = 0x706B677374

_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
_UYUNI = os.path.join(os.path.dirname(__file__), "uyuni", "views.sql")
_TABLE = """
CREATE SCHEMA IF NOT EXISTS package_states;
CREATE TABLE IF NOT EXISTS package_states.migration (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  applied TIMESTAMPTZ NOT NULL DEFAULT now()
);
"""
_APPLIED = "INSERT INTO package_states.migration (number, name) VALUES (%s, %s)"
_AGAIN = "see that the role of the option postgres may create a schema there, then run package_states.setup again"

_TABLES_OF_UYUNI = "see that the database has the tables of Uyuni and that the role of the option postgres may read them"


def migrations():
    """Return all steps in order, tuples of number, name and path"""
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
    """Check that the tables are those of this version"""
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
    """Return the SQL of all steps, for an administrator to apply to an empty schema"""
    parts = [_TABLE.strip()]
    for number, name, path in migrations():
        parts.append(
            f"BEGIN;\n{_read(path)}\n"
            f"INSERT INTO package_states.migration (number, name) VALUES ({number}, '{name}');\n"
            "COMMIT;"
        )
    if uyuni:
        parts.append(_read(_UYUNI))
    return "\n\n".join(parts) + "\n"


def _read(path):
    with salt.utils.files.fopen(path, "r", encoding="utf-8") as handle:
        return handle.read().strip()


def setup(opts, uyuni=False):
    """Apply the steps that are missing, each or nothing of it, and return their names"""
    done = []
    with connections.told(_AGAIN):
        connection = connections.Connection(**connections.get_params(opts))
        try:
            connection.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
            found = applied(connection)
            if found > newest():
                check(connection)
            if not found:
                connection.execute(_TABLE)
            for number, name, path in migrations():
                if number > found:
                    connection.execute("BEGIN")
                    connection.execute(_read(path))
                    connection.execute(_APPLIED, (number, name))
                    connection.execute("COMMIT")
                    done.append(name)
            if uyuni:
                with connections.told(_TABLES_OF_UYUNI):
                    connection.execute(_read(_UYUNI))
        finally:
            # rolls back what was not committed, and releases the lock
            connection.close()
    return done
