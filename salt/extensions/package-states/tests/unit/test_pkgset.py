import pytest
import saltext.package_states.minion.pkgset as pkgset


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
