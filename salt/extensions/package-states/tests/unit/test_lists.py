import pytest
import saltext.package_states.master.lists as lists
from saltext.package_states.errors import InvalidInput, PackageStateError


def test_packages_are_stored_in_the_cache(master_opts):
    assert lists.function(master_opts) == "pkg.list_pkgs"
    lists.store(master_opts, "minion", {"foo": "1"})
    assert lists.stored(master_opts, "minion") == {"foo": "1"}
    assert not lists.stored(master_opts, "other")


@pytest.mark.parametrize(
    "packages",
    (
        {"foo": ["1"]},
        {"foo": {"version": "1"}},
        {"foo": None},
        {7: "1"},
        {"foo": "1" * 10**6},
        {"a\x1b[2J": "1"},
        {"a": "1\n2"},
        {"b": "\u202e1"},
        {"f" * 10**6: "1"},
        dict.fromkeys(map(str, range(10**6)), "1"),
        {str(one): "1" * 4000 for one in range(5000)},
    ),
    ids=range(11),
)
def test_what_is_no_list_of_packages_is_not_stored(master_opts, packages):
    with pytest.raises(InvalidInput, match="minion sent no list of packages; see"):
        lists.store(master_opts, "minion", packages)
    assert not lists.stored(master_opts, "minion")


def test_who_lacks_the_extension_is_told_what_to_do(master_opts):
    answer = {"return": "'package_state.inventory' is not available.", "retcode": 254}
    with pytest.raises(PackageStateError) as told:
        lists.take({**master_opts, "package_states": {}}, "web", answer)
    assert str(told.value) == (
        "it returned 'package_state.inventory' is not available; see what"
        " package_state.inventory says there, and that it has saltext-package-states."
    )
