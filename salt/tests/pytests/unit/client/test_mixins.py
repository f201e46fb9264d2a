import logging
import os

import pytest

import salt.cli.run
import salt.runner
import salt.wheel
from tests.support.mock import MagicMock, patch

GRACEFUL = (
    "ArgumentValueError",
    "CommandExecutionError",
    "NotImplemented",
    "SaltInvocationError",
    "SaltRunnerError",
    "SaltWheelError",
)


@pytest.fixture
def run(master_opts):
    """
    Return a function that calls the runner ``error.error`` and returns all that
    the event and the job cache get
    """
    os.makedirs(os.path.join(master_opts["cachedir"], "proc"))

    def run(*args, **kwargs):
        with (
            patch("salt.utils.event.get_event", MagicMock()),
            patch("salt.utils.job.store_job") as stored,
            salt.runner.RunnerClient(master_opts) as client,
        ):
            ret = client.cmd(
                "error.error", args, kwarg=kwargs, print_event=False, full_return=True
            )
        assert stored.call_args[0][1]["return"] == ret
        return ret

    return run


@pytest.mark.parametrize("name", GRACEFUL)
def test_low_errors_for_people(run, name, caplog):
    """
    The return is the message. The call has failed, and the log has the traceback.
    """
    with caplog.at_level(logging.DEBUG):
        ret = run(name=name, message="Give me another name.")
    assert ret["return"] == "Give me another name."
    assert ret["success"] is False
    assert ret["retcode"] == 1
    assert "Traceback" in caplog.text


def test_low_errors_without_a_message(run):
    """
    The return says at least which exception it was
    """
    ret = run(name="CommandExecutionError", message="")
    assert ret["return"].startswith("CommandExecutionError(")
    assert ret["success"] is False


@pytest.mark.parametrize("name", GRACEFUL)
def test_low_errors_of_wheel(master_opts, name):
    """
    Functions of wheel take the same way
    """
    os.makedirs(os.path.join(master_opts["cachedir"], "proc"))
    wheel = salt.wheel.WheelClient(master_opts)
    with (
        patch("salt.utils.event.get_event", MagicMock()),
        patch("salt.utils.job.store_job"),
    ):
        ret = wheel.low(
            "error.error",
            {"arg": [], "kwarg": {"name": name, "message": "Give me another name."}},
            print_event=False,
            full_return=True,
        )
    assert ret["return"] == "Give me another name."
    assert ret["success"] is False
    assert ret["retcode"] == 1


def test_low_missing_function(master_opts):
    """
    A function that does not exist is a job that has failed, and no error of low()
    """
    with (
        patch("salt.utils.event.get_event", MagicMock()),
        patch("salt.utils.job.store_job"),
        salt.runner.RunnerClient(master_opts) as client,
    ):
        ret = client.low("jobs.nosuch", {}, print_event=False, full_return=True)
    assert ret["return"] == "'jobs.nosuch' is not available."
    assert ret["success"] is False
    assert ret["retcode"] == 1


@pytest.mark.parametrize("name", ("SaltCacheError", "ValueError"))
def test_low_other_errors(run, name):
    """
    The return of any other exception has the traceback
    """
    ret = run(name=name, message="what is that")
    assert ret["return"].startswith(
        "Exception occurred in runner error.error: Traceback"
    )
    assert ret["success"] is False
    assert ret["retcode"] == 1


def test_low_wrong_arguments(run):
    """
    A TypeError that Python raises comes with the usage
    """
    ret = run(1, 2, 3, 4, 5, 6)
    assert ret["return"].startswith("\nPassed invalid arguments: ")
    assert "CLI Example" in ret["return"]


def test_low_missing_argument(master_opts):
    """
    format_call raises SaltInvocationError before the function is called
    """
    with (
        patch("salt.utils.event.get_event", MagicMock()),
        patch("salt.utils.job.store_job"),
        salt.runner.RunnerClient(master_opts) as client,
    ):
        ret = client.low("jobs.lookup_jid", {}, print_event=False, full_return=True)
    assert ret["return"] == "lookup_jid takes at least 1 argument (0 given)"
    assert ret["success"] is False
    assert ret["retcode"] == 1


@pytest.mark.parametrize("name", GRACEFUL)
def test_salt_run_exit_code(run, name):
    """
    The exit code of salt-run is 1
    """
    ret = run(name=name, message="Give me another name.")
    command = salt.cli.run.SaltRun()
    command.options = MagicMock(doc=False, profiling_enabled=False)
    command.config = {"user": "root"}
    with (
        patch.object(command, "parse_args"),
        patch("salt.cli.run.check_user", return_value=True),
        patch("salt.runner.Runner") as runner,
    ):
        runner.return_value.run.return_value = ret
        with pytest.raises(SystemExit) as exc:
            command.run()
    assert exc.value.code == 1
