import pytest
import saltext.package_states.store.connection as connections
from saltext.package_states.errors import PackageStateError

psycopg2 = pytest.importorskip("psycopg2")


class Failed(psycopg2.OperationalError):
    """
    What PostgreSQL answers with a code
    """

    def __init__(self, pgcode):
        super().__init__("it failed\nLINE 1: SELECT")
        self._code = pgcode

    @property
    def pgcode(self):
        return self._code


@pytest.mark.parametrize(
    "pgcode,what",
    (
        ("53100", "make room on the disk"),
        ("25006", "name one that writes"),
        ("57014", "longer than statement_timeout"),
        ("42501", "see the option postgres, then try again"),
        (None, "that the server runs"),
    ),
)
def test_what_to_do_next(pgcode, what):
    with pytest.raises(PackageStateError, match=f"says: it failed; .*{what}") as error:
        with connections.told():
            raise Failed(pgcode)
    assert "\n" not in str(error.value)
    if pgcode:
        with pytest.raises(PackageStateError, match="says: it failed; wait[.]"):
            with connections.told("wait"):
                raise Failed(pgcode)


@pytest.mark.parametrize(
    "description, rows", [((), [()]), (None, []), (("name",), [("web1",)])]
)
def test_a_row_may_have_no_columns(description, rows):
    class Cursor:
        def __init__(self):
            self.description = description

        def execute(self, query, values):
            pass

        def fetchall(self):
            assert description is not None
            return rows

    connection = object.__new__(connections.Connection)
    connection._cursor = Cursor()  # pylint: disable=protected-access
    assert connection.execute("SELECT FROM package_states.state") == rows
