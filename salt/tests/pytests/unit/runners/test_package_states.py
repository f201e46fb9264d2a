"""
What the runner refuses before it asks PostgreSQL, and how it tells that
"""

import os

import pytest

import salt.runner
import salt.runners.package_states as package_states
from salt.package_states.errors import InvalidInput, PackageStateError
from tests.support.mock import MagicMock, patch

pytest.importorskip("psycopg2")


@pytest.fixture
def configure_loader_modules(master_opts):
    # nobody listens there
    master_opts["postgres"] = {"host": "127.0.0.1", "port": 1}
    return {package_states: {"__opts__": master_opts}}


@pytest.fixture
def run(master_opts, configure_loader_modules):
    """
    Return a function that returns all that the event of a runner has
    """
    os.makedirs(os.path.join(master_opts["cachedir"], "proc"))

    def run(function, **kwargs):
        with (
            patch("salt.utils.event.get_event", MagicMock()),
            patch("salt.utils.job.store_job"),
            salt.runner.RunnerClient(master_opts) as client,
        ):
            return client.cmd(
                f"package_states.{function}",
                kwarg=kwargs,
                print_event=False,
                full_return=True,
            )

    return run


REFUSED = (
    ("create", {"name": "../x"}, "'../x' is no state name; "),
    ("set", {"name": "a", "package": "{{ x }}", "wanted": "latest"}, "'{{ x }}' is no"),
    ("set", {"name": "a", "package": "vim", "wanted": "there"}, "vim can't be that; "),
    ("set_many", {"name": "a", "packages": "vim"}, "Give a list of entries"),
    ("set_many", {"name": ["a"], "packages": []}, "['a'] is no state name; "),
    ("unset", {"name": "a", "package": ["vim"]}, "['vim'] is no package name; "),
    (
        "assign",
        {"name": "a", "kind": "group", "target": "b", "priority": 1.5},
        "The priority must be a whole number; ",
    ),
    ("upgrade", {"name": "a", "version": "1.5"}, "A version is one of a package; "),
    # as the command line reads version=1.5
    (
        "upgrade",
        {"name": "a", "package": "vim", "version": 1.5},
        "1.5 is a number; put the version into quotes",
    ),
    ("import_file", {"name": "a", "path": 5}, "5 is no path; give that of a file"),
    ("import_file", {"name": "a", "path": "/nope/x"}, "'/nope/x' can't be read: "),
    ("list", {}, "PostgreSQL says: "),
)


@pytest.mark.parametrize("function, kwargs, message", REFUSED)
def test_salt_run_tells_what_is_refused(run, function, kwargs, message):
    """
    One sentence, no traceback, and the exit code 1
    """
    ret = run(function, **kwargs)
    assert ret["return"].startswith(message)
    assert "\n" not in ret["return"]
    assert (ret["success"], ret["retcode"]) == (False, 1)


def test_python_gets_an_exception(configure_loader_modules):
    with pytest.raises(InvalidInput, match="no state name"):
        package_states.create("../x")
    with pytest.raises(PackageStateError, match="PostgreSQL says"):
        package_states.list_()


@pytest.mark.parametrize("path", ("folder", "nope/file", "nul\0"))
def test_export_to_what_cannot_be_written(tmp_path, path):
    (tmp_path / "folder").mkdir()
    # pylint: disable=protected-access
    with pytest.raises(InvalidInput, match="can't be written: .*; give the path"):
        with package_states._file(str(tmp_path / path), "w"):
            pass
