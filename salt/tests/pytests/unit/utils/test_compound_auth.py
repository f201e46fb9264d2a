"""
Each function of a compound command has to be allowed
"""

import pytest

import salt.utils.minions
from tests.support.mock import patch

ONE_MINION = {"web1": ["test.ping", "grains.*"]}


@pytest.fixture(params=[False, True], ids=["usual", "expanded"])
def check(request, master_opts):
    """
    What a user who may call some functions may publish to web1
    """
    master_opts["auth.enable_expanded_auth_matching"] = request.param
    checker = salt.utils.minions.CkMinions(master_opts)

    def allowed(auth_list, funs, args=None, **more):
        found = {"minions": ["web1"], "missing": []}
        # the expanded check takes what it gets as names of minions
        matches = ["web1"] if request.param else found
        with patch.object(
            checker,
            "check_minions",
            lambda tgt, *_, **__: (
                found if not request.param or tgt == "*" else matches
            ),
        ):
            args = [[] for _ in funs] if args is None else args
            return checker.auth_check(auth_list, funs, args, "*", "glob", **more)

    return allowed


@pytest.mark.parametrize(
    "funs, allowed",
    [
        ("test.ping", True),
        ("cmd.run", False),
        (["test.ping"], True),
        (["test.ping", "grains.items"], True),
        (["test.ping", "cmd.run"], False),
        (["cmd.run", "test.ping"], False),
        (["grains.items", "test.ping", "cmd.run"], False),
        ([], False),
    ],
)
@pytest.mark.parametrize(
    "auth_list",
    [["test.ping", "grains.*"], [ONE_MINION], ["test.ping", ONE_MINION]],
    ids=["everywhere", "on a minion", "both"],
)
def test_each_function_is_allowed(check, auth_list, funs, allowed):
    assert check(auth_list, funs) is allowed


def test_what_everybody_may_call_allows_nothing_else(master_opts):
    """
    The master lets everybody who is authenticated publish saltutil.find_job
    """
    checker = salt.utils.minions.CkMinions(master_opts)
    more = {"minions": ["web1"], "whitelist": ["saltutil.find_job"]}
    for funs, allowed in (
        (["saltutil.find_job"], True),
        (["saltutil.find_job", "cmd.run"], False),
        (["cmd.run", "saltutil.find_job"], False),
        (["saltutil.find_job", "test.ping"], True),
    ):
        args = [[] for _ in funs]
        assert checker.auth_check(["test.ping"], funs, args, "*", **more) is allowed
    assert not checker.auth_check(["@runner"], "cmd.run", [], "*", **more)


def test_a_function_without_arguments_of_its_own_is_refused(master_opts):
    """
    Rules about arguments can't be looked at
    """
    checker = salt.utils.minions.CkMinions(master_opts)
    rule = {"*": [{"test.ping": {"args": ["a"]}}]}
    funs = ["test.ping", "test.ping"]
    found = {"minions": ["web1"], "missing": []}
    with patch.object(checker, "check_minions", return_value=found):
        assert checker.auth_check([rule], funs, [["a"], ["a"]], "*")
        assert not checker.auth_check([rule], funs, [["a"]], "*")
