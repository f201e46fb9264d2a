"""
Users who are not root see and change only their own jobs.
"""

import pytest

import salt.exceptions
import salt.runners.job_handler as runner
from tests.support.mock import patch

OWNERS = {"1": "alice", "2": "bob", "3": "alice"}
JOBS = [{"jid": jid, "user": user} for jid, user in OWNERS.items()]
# what the job cache has where a client chose the id of a job that waits, and whose jobs do
CACHED = {**OWNERS, "5": "alice", "6": "alice", "7": "bob"}
TAKEN = {"5": ["bob", "alice"], "6": ["bob"], "7": ["alice"]}


@pytest.fixture
def configure_loader_modules(master_opts):
    def list_job(jid):
        return {"User": CACHED[jid]} if jid in CACHED else {"Error": "no such job"}

    opts = {**master_opts, "rate_limiting": {"criteria": "capacity"}, "user": "salt"}
    return {runner: {"__opts__": opts, "__salt__": {"jobs.list_job": list_job}}}


@pytest.fixture
def asked():
    """
    What the job handler is asked to do with a job.
    """
    ret = []

    def ask(opts, request):
        if request["cmd"] in ("list", "history"):
            return {"jobs": JOBS[: request["limit"]]}
        if request["cmd"] == "owners":
            return {"owners": TAKEN.get(request["jid"], [])}
        ret.append((request["cmd"], request["jid"]))
        return {"cancelled": 1, "minions": 1}

    with patch("salt.job_handler.control.ask_sync", ask):
        yield ret


def _as(user, **opts):
    # pylint: disable-next=no-member
    opts = {**runner.__opts__, **opts}
    return patch.multiple(runner, create=True, __user__=user, __opts__=opts)


@pytest.mark.parametrize("name", ["list_", "history"])
def test_jobs_of_a_user(asked, name):
    function = getattr(runner, name)
    with _as("alice"):
        assert [job["jid"] for job in function()] == ["1", "3"]
        assert [job["jid"] for job in function(limit=1)] == ["1"]
        assert [job["jid"] for job in function(limit=None)] == ["1", "3"]
    with _as("carol"):
        assert function() == []


@pytest.mark.parametrize("user", ["root", "salt", "Reactor", "UNKNOWN"])
def test_root_and_the_master_itself_see_all(asked, user):
    with _as(user):
        assert len(runner.list_()) == len(runner.history()) == 3
        assert runner.cancel("2") == 1


@pytest.mark.parametrize("user", ["root", "salt", "Reactor", "UNKNOWN"])
def test_a_user_with_a_name_of_the_master(asked, user):
    """
    A kind of account may let somebody have any name.
    """
    with _as(user, external_auth={"sharedsecret": {"*": ["@runner"]}}):
        assert runner.list_() == []
        with pytest.raises(salt.exceptions.CommandExecutionError):
            runner.cancel("2")
    with _as(user, external_auth={"pam": {"alice": ["@runner"]}}):
        assert len(runner.list_()) == 3
    # who is in a group is not known here
    for group in ("admins%", "^.*"):
        with _as(user, external_auth={"ldap": {group: ["@runner"]}}):
            assert bool(runner.list_()) == (user in ("Reactor", "UNKNOWN"))


def test_salt_run_without_eauth(asked):
    """
    It needs root, or the master's user, to reach the job handler at all.
    """
    with _as("sudo_alice", __cli="salt-run"):
        assert len(runner.list_()) == 3
        assert runner.cancel("2") == 1


@pytest.mark.parametrize("name", ["show", "cancel", "hold", "release", "prioritize"])
def test_acting_on_a_job(asked, name):
    with _as("alice"):
        more = {"priority": -1} if name == "prioritize" else {}
        getattr(runner, name)("3", **more)
        assert [jid for _, jid in asked] == ["3"]
        for jid in ("2", "4"):
            with pytest.raises(
                salt.exceptions.CommandExecutionError, match=f"^Job {jid} is none of"
            ):
                getattr(runner, name)(jid, **more)
        assert len(asked) == 1


@pytest.mark.parametrize("name", ["show", "cancel", "hold", "release", "prioritize"])
def test_a_job_id_that_somebody_else_chose_too(asked, name):
    """
    The job cache knows the last user of a job id; the queue knows whose jobs wait.
    """
    more = {"priority": -1} if name == "prioritize" else {}
    with _as("alice"):
        for jid in ("5", "6"):
            with pytest.raises(
                salt.exceptions.CommandExecutionError, match=f"^Job {jid} is none of"
            ):
                getattr(runner, name)(jid, **more)
        getattr(runner, name)("7", **more)
        assert [jid for _, jid in asked] == ["7"]


def test_only_root_lets_a_job_pass_others(asked):
    with _as("alice"):
        with pytest.raises(salt.exceptions.SaltInvocationError, match="^Only root"):
            runner.prioritize("3", 1)
    with _as("root"):
        runner.prioritize("3", 1)
    assert asked == [("order", "3")]


def test_operators_see_all(asked):
    settings = {"criteria": "capacity", "operators": ["ops-*"]}
    with _as("ops-ann", rate_limiting=settings):
        assert len(runner.list_()) == 3
        runner.cancel("2")
    with _as("ann", rate_limiting=settings):
        assert runner.list_() == []
    assert asked == [("cancel", "2")]


def test_only_root_pauses_for_a_target():
    rules = []

    def ask(opts, request):
        rules.append(request["rule"])
        return {"paused": request["paused"]}

    with patch("salt.job_handler.control.ask_sync", ask):
        for function in (runner.pause, runner.resume):
            with _as("alice"), pytest.raises(salt.exceptions.SaltInvocationError):
                function(target="E@(a+)+$")
        assert not rules
        with _as("root"):
            assert runner.pause(target="E@(a+)+$")
        with _as("alice"):
            assert runner.pause(function="test.*")
    assert len(rules) == 2
