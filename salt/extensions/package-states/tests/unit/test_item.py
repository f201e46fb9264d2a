import json

import pytest
import saltext.package_states.difference as difference
import saltext.package_states.item as items
import saltext.package_states.transfer as transfer
from saltext.package_states.errors import InvalidInput

ROWS = [
    ("foo", "installed", ">=1.0,<2.0", "1.2"),
    ("foo:i386", "latest"),
    ("bar", "removed", "!=1.10"),
    ("baz", "kept", "=1:0.5-1"),
    ("qux", "purged"),
    ("quux", "unmanaged"),
]


def test_items_survive_a_file():
    entries = items.ordered(items.make(*row) for row in ROWS)
    text = transfer.dump(entries)
    assert transfer.load(text) == entries
    assert transfer.dump(transfer.load(text)) == text
    assert transfer.load(transfer.dump([])) == ()


def test_items_survive_the_database():
    entries = items.ordered(items.make(*row) for row in ROWS)
    assert (
        tuple(items.from_dict(data) for data in json.loads(items.dump(entries)))
        == entries
    )
    assert items.dump(items.ordered(reversed(entries))) == items.dump(entries)


@pytest.mark.parametrize(
    "row",
    [
        ("foo", "there"),
        ("foo", ["installed"]),
        ("foo", "latest", "1.0"),
        ("foo", "unmanaged", "1.0"),
        ("foo", "kept", ">1.0"),
        ("foo", "kept", "1.*"),
        ("foo", "removed", "", "1.0"),
        ("foo", "installed", 1.10),
        ("foo:", "latest"),
        ("foo:i386:x", "latest"),
        (None, "latest"),
    ],
)
def test_what_is_no_item(row):
    with pytest.raises(InvalidInput):
        items.make(*row)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100000,
        '{"format": "salt package state 1"}',
        '{"format": "salt package state 1", "packages": [1]}',
        '{"format": "salt package state 1", "packages": [{"package": "foo"}]}',
        '{"format": "salt package state 1", "packages":'
        ' [{"package": "foo", "wanted": "latest", "then": 1}]}',
        '{"format": "salt package state 1", "packages":'
        ' [{"package": "foo", "wanted": "latest"}, {"package": "foo", "wanted": "removed"}]}',
    ],
)
def test_what_is_no_file(text):
    with pytest.raises(InvalidInput):
        transfer.load(text)


def test_difference():
    old = [items.make("foo", "latest"), items.make("bar", "removed")]
    new = [items.make("foo", "installed", "1.0", "1.0"), items.make("baz", "kept")]
    assert difference.between(old, new) == {
        "bar": {"old": "removed", "new": None},
        "baz": {"old": None, "new": "kept"},
        "foo": {"old": "latest", "new": "installed =1.0 (from 1.0 on)"},
    }
    assert difference.between(new, new) == {}
