import pytest
import saltext.package_states.model.item as items
from saltext.package_states.errors import InvalidInput

ROWS = [
    ("foo", "installed", ">=1.0,<2.0", "1.2"),
    ("foo:i386", "latest"),
    ("bar", "removed", "!=1.10"),
    ("baz", "kept", "=1:0.5-1"),
    ("qux", "purged"),
    ("quux", "unmanaged"),
]


def test_difference():
    old = [items.make("foo", "latest"), items.make("bar", "removed")]
    new = [items.make("foo", "installed", "1.0", "1.0"), items.make("baz", "kept")]
    assert items.between(old, new) == {
        "bar": {"old": "removed", "new": None},
        "baz": {"old": None, "new": "kept"},
        "foo": {"old": "latest", "new": "installed =1.0 (from 1.0 on)"},
    }
    assert items.between(new, new) == {}


@pytest.mark.parametrize(
    "wanted,version,expected",
    (
        ("installed", "latest", ("latest", "")),
        ("installed", "Latest", ("latest", "")),
        ("installed", "any", ("installed", "")),
        ("removed", "any", ("removed", "")),
        ("present", "<2.0", ("present", "<2.0")),
        ("absent", None, ("removed", "")),
    ),
)
def test_words_for_versions(wanted, version, expected):
    """
    As the table of the specification has them
    """
    made = items.make("foo", wanted, version)
    assert (made.wanted, made.version) == expected


@pytest.mark.parametrize(
    "wanted,version",
    (
        ("removed", "latest"),
        ("present", "latest"),
        ("installed", "v1.2"),
        ("installed", ">=latest"),
        ("installed", "=any"),
        ("installed", "newest"),
        ("installed", "=1.*,=2.*"),
        ("installed", "=1.5,=2.*"),
    ),
)
def test_what_is_no_version(wanted, version):
    with pytest.raises(InvalidInput):
        items.make("foo", wanted, version)


def test_wildcards_that_may_meet():
    for text in ("=1.*,=1.2*", "=1:2.*,=2.*", "=*-1,=2.*", "=1.0,=1.0-*"):
        assert items.make("foo", "installed", text).condition
