import pytest
import saltext.package_states.minion.pkgset as pkgset
from saltext.package_states.errors import InvalidInput


@pytest.mark.parametrize(
    "pairs, before, after, wanted",
    [
        ([], "a", "a", True),
        ([], "a", "b", False),
        ([("a", "b")], "a", "b", True),
        ([("a", "b"), ("b", "c")], "a", "c", True),
        # two at once, of which one waited for the other
        ([("a", "c"), ("b", "c"), ("a", "b")], "a", "c", True),
        ([("x", "b")], "a", "b", False),
        ([("a", "b"), ("b", "a")], "a", "c", False),
    ],
)
def test_explained(pairs, before, after, wanted):
    assert pkgset.explained(pairs, before, after) is wanted


def test_own_changes_are_forgotten_once_all_went_well(tmp_path):
    opts = {"cachedir": str(tmp_path)}
    with pkgset.own_changes(opts) as pairs:
        assert pairs == []
    (tmp_path / "pkgset" / "own").write_text("a b\nb c\nbroken\n")
    with pytest.raises(KeyError), pkgset.own_changes(opts):
        raise KeyError
    with pkgset.own_changes(opts) as pairs:
        assert pairs == [("a", "b"), ("b", "c")]
    with pkgset.own_changes(opts) as pairs:
        assert pairs == []


def test_packages_are_stored_in_the_cache(master_opts):
    assert pkgset.function(master_opts) == "pkg.list_pkgs"
    pkgset.store(master_opts, "minion", {"foo": "1"})
    assert pkgset.stored(master_opts, "minion") == {"foo": "1"}
    assert not pkgset.stored(master_opts, "other")


@pytest.mark.parametrize(
    "packages",
    (
        {"foo": ["1"]},
        {"foo": {"version": "1"}},
        {"foo": None},
        {7: "1"},
        {"foo": "1" * 10**6},
        {"f" * 10**6: "1"},
        dict.fromkeys(map(str, range(10**6)), "1"),
        {str(one): "1" * 4000 for one in range(5000)},
    ),
    ids=range(8),
)
def test_what_is_no_list_of_packages_is_not_stored(master_opts, packages):
    with pytest.raises(InvalidInput, match="minion sent no list of packages; see"):
        pkgset.store(master_opts, "minion", packages)
    assert not pkgset.stored(master_opts, "minion")


def test_what_is_stored_is_printable(master_opts):
    pkgset.store(master_opts, "minion", {"a\x1b[2J": "1\n2", "b": "\u202e1"})
    assert pkgset.stored(master_opts, "minion") == {"a?[2J": "1?2", "b": "?1"}
