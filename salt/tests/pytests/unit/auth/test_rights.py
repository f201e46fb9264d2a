"""
What a key of the machine, a name and arguments of a function allow
"""

import pytest

import salt.auth
import salt.master
import salt.utils.minions
from tests.support.mock import AsyncMock, MagicMock, patch

KEYS = {"root": "the master's", "bob": "bob's", "salt": "the package's"}


@pytest.fixture
def opts(master_opts, tmp_path):
    """
    A master with a user of publisher_acl and users of external_auth
    """
    master_opts["cachedir"] = str(tmp_path)
    master_opts["user"] = "root"
    master_opts["sudo_acl"] = False
    master_opts["publisher_acl"] = {"bob": ["test.ping"], "ann": ["test.ping"]}
    master_opts["external_auth"] = {"sharedsecret": {"admin": [".*"], "*": []}}
    return master_opts


@pytest.fixture
def auth(opts):
    """
    The authentication of that master, which runs as root
    """
    with patch("salt.utils.user.get_user", return_value="root"):
        yield salt.auth.LoadAuth(opts)


@pytest.mark.parametrize("user", ["root", "sudo_root", "sudo_ann", "ann", None])
def test_the_key_of_a_user_is_good_for_no_other(auth, user):
    load = {"key": "bob's", "user": user}
    if user is None:
        del load["user"]
    assert auth.authenticate_key(dict(load), KEYS) is False
    assert auth.check_authentication(dict(load), "user", key=KEYS)["error"]


def test_the_key_of_a_user_is_good_for_himself(auth):
    assert auth.authenticate_key({"key": "bob's", "user": "bob"}, KEYS) == "bob"


@pytest.mark.parametrize(
    "user, expected",
    [("root", True), (None, True), ("sudo_bob", "bob"), ("bob", True)],
)
def test_the_key_of_the_master(auth, user, expected):
    load = {"key": "the master's", "user": user}
    if user is None:
        del load["user"]
    assert auth.authenticate_key(load, KEYS) == expected


@pytest.mark.parametrize(
    "name", ["*", ".*", "a.min", "[a]dmin", "admin|x", "adm*", "admi?", ""]
)
def test_a_name_is_no_pattern(opts, name):
    fill = salt.utils.minions.CkMinions(opts).fill_auth_list
    config = {"admin": [".*"], "j.doe": ["a"], "jxdoe": ["b"], "%": ["c"]}
    assert fill(config, name, []) == []
    assert fill(config, "j.doe", []) == ["a"]
    assert fill(config, "jxdoe", []) == ["b"]


LIMITED = [
    {"@runner": [{"test.arg": {"kwargs": {"a": "ok$"}}}]},
    {"@wheel": [{"key.accept": {"kwargs": {"match": "web1$"}}}]},
]


@pytest.mark.parametrize(
    "args, allowed",
    [
        ({"a": "ok"}, True),
        ({"arg": [], "kwarg": {"a": "ok"}}, True),
        ({"arg": [], "kwarg": {"a": "no"}}, False),
        # without "arg" the function is called with what is beside "kwarg"
        ({"kwarg": {"a": "ok"}, "a": "no"}, False),
        ({"kwarg": {"a": "ok"}}, False),
        ({"arg": [], "a": "no"}, False),
        ({"arg": [], "kwarg": {"a": "no"}, "a": "ok"}, False),
        ({}, False),
        (None, False),
        ([], False),
    ],
)
def test_the_arguments_that_are_checked_are_those_of_the_call(opts, args, allowed):
    check = salt.utils.minions.CkMinions(opts)
    assert check.runner_check(LIMITED, "test.arg", args) is allowed


@pytest.fixture
def clear(opts):
    """
    What serves clear requests; who asks is authenticated already
    """
    made = salt.master.ClearFuncs.__new__(salt.master.ClearFuncs)
    made.opts = opts
    made.key = KEYS
    made.loadauth = MagicMock()
    made.ckminions = salt.utils.minions.CkMinions(opts)
    made.wheel_ = MagicMock()
    made.wheel_.call_func.return_value = {"return": True, "success": True}
    made.event = MagicMock()
    made.event.fire_event_async = AsyncMock()
    return made


def _ran(clear, name, load, auth_list):
    clear.loadauth.check_authentication.return_value = {
        "auth_list": auth_list,
        "username": "bob",
    }
    with patch("salt.runner.RunnerClient") as client:
        answer = getattr(clear, f"_sync_{name}")(load)
        call = client.return_value.asynchronous if name == "runner" else None
        call = call or clear.wheel_.call_func
    assert ("error" in answer) is not call.called if name == "wheel" else True
    return call.called and call.call_args


@pytest.mark.parametrize("name, fun", [("runner", "test.arg"), ("wheel", "key.accept")])
def test_a_user_of_publisher_acl_has_no_runners_and_wheels(clear, name, fun):
    load = {"fun": fun, "user": "bob", "key": "bob's", "kwarg": {}}
    assert not _ran(clear, name, dict(load), ["test.ping"])
    assert _ran(clear, name, dict(load), [f"@{name}"])
    # the master's own user
    assert _ran(clear, name, {**load, "user": "root"}, [])


@pytest.mark.parametrize("user, seen", [("bob", "bob"), ("sudo_bob", "sudo_bob")])
def test_a_user_of_publisher_acl_is_not_the_masters_user(clear, user, seen):
    load = {"fun": "test.arg", "user": user, "kwarg": {}}
    assert _ran(clear, "runner", load, ["@runner"])[0][2] == seen


def test_the_arguments_of_a_wheel_function(clear):
    load = {"fun": "key.accept", "eauth": "sharedsecret", "username": "bob"}
    assert _ran(clear, "wheel", {**load, "match": "web1"}, LIMITED)
    clear.wheel_.call_func.reset_mock()
    evil = {**load, "match": "*", "kwarg": {"kwarg": {"match": "web1"}}}
    assert not _ran(clear, "wheel", evil, LIMITED)


TARGETS = [
    ("glob", False),
    ("list", False),
    ("grain", True),
    ("grain_pcre", True),
    ("pillar", True),
    ("pillar_pcre", True),
    ("pillar_exact", True),
    ("compound", True),
    ("nodegroup", True),
    ("ipcidr", True),
]


async def _published(clear, load, auth_list):
    """
    Let a user publish, and return the answer
    """
    clear.loadauth.check_authentication.return_value = {"auth_list": auth_list}
    clear.loadauth.load_name.return_value = "bob"
    clear.ckminions.check_minions = MagicMock(
        return_value={"minions": [], "missing": []}
    )
    return await clear.publish(load)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "auth_list, kept", [([], False), (["saltutil.find_job"], True), ([".*"], True)]
)
async def test_what_everybody_may_publish_names_no_returner(clear, auth_list, kept):
    extra = {
        "eauth": "sharedsecret",
        "username": "bob",
        "ret_kwargs": {"filename": "/root/.bashrc"},
        "ret_config": "x",
        "module_executors": ["sudo"],
        "executor_opts": {"a": 1},
        "delimiter": "|",
    }
    load = {
        "fun": "saltutil.find_job",
        "arg": ["1"],
        "tgt": "*",
        "tgt_type": "glob",
        "ret": "rawfile_json",
        "jid": "20261128000000000001",
        "user": "root",
        "kwargs": extra,
    }
    await _published(clear, load, auth_list)
    assert (load["ret"] == "rawfile_json") is kept
    assert (load["jid"] == "20261128000000000001") is kept
    assert ("ret_kwargs" in extra) is kept
    assert ("ret_config" in extra) is kept
    assert ("module_executors" in extra) is kept
    assert ("executor_opts" in extra) is kept
    assert extra["delimiter"] == "|"


@pytest.mark.asyncio
@pytest.mark.parametrize("tgt_type, right_is_needed", TARGETS)
async def test_what_everybody_may_publish_tells_nothing_of_minions(
    clear, tgt_type, right_is_needed
):
    """
    Which minions match would tell of their grains and pillars
    """
    load = {
        "fun": "saltutil.find_job",
        "arg": ["1"],
        "tgt": "x:y",
        "tgt_type": tgt_type,
        "ret": "",
        "jid": "",
        "user": "root",
        "kwargs": {"eauth": "sharedsecret", "username": "bob"},
    }
    refused = "error" in await _published(clear, dict(load), ["test.ping"])
    assert refused is right_is_needed
    assert "error" not in await _published(clear, dict(load), ["saltutil.find_job"])
