"""
The tables are made and upgraded in steps
"""

import pytest
import saltext.package_states.store.schema as schema
from saltext.package_states.errors import PackageStateError


class Connection:
    """
    A database in which some steps were applied
    """

    def __init__(self, number):
        self.number = number

    def execute(self, query, values=None):
        there = self.number is not None
        return [(there if "to_regclass" in query else self.number,)]


def test_steps_have_all_numbers():
    """
    But for those whose features are gone
    """
    numbers = [number for number, _, _ in schema.migrations()]
    gone = (2, 5)
    assert numbers == [n for n in range(1, schema.newest() + 1) if n not in gone]


@pytest.mark.parametrize(
    "number, message",
    (
        (None, "not there yet; run package_states.setup"),
        (schema.newest() - 1, "of an older version; run package_states.setup"),
        (schema.newest() + 1, "install the newer version"),
    ),
)
def test_other_versions_are_refused(number, message):
    with pytest.raises(PackageStateError, match=message):
        schema.check(Connection(number))


def test_the_own_version_is_right():
    schema.check(Connection(schema.newest()))


def test_script_has_every_step():
    text = schema.script()
    assert [text.count(f"'{name}'") for _, name, _ in schema.migrations()] == [
        1 for _ in schema.migrations()
    ]
    assert "suseMinionInfo AS m JOIN rhnServer" not in text
    assert "suseMinionInfo AS m JOIN rhnServer" in schema.script(uyuni=True)
