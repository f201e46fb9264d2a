"""
What a master does after each pillar: the backends get its options back, which the
pillar's own file client may have replaced.
"""

import pytest

import salt.fileserver
from tests.support.mock import patch


class Opts(dict):
    """
    Options that count how often they are updated
    """

    updates = 0

    def update(self, *args, **kwargs):
        self.updates += 1
        super().update(*args, **kwargs)


def _function(opts):
    """
    Return a function of a backend with these options.
    """
    names = {} if opts is None else {"__opts__": opts}
    exec("def func(): return __opts__", names)  # pylint: disable=exec-used
    return names["func"]


@pytest.fixture
def fileserver(master_opts):
    master_opts["fileserver_backend"] = ["roots"]
    return salt.fileserver.Fileserver(master_opts)


def test_each_backend_is_updated_once(fileserver):
    roots, git = Opts(), Opts()
    fileserver.servers = {
        f"{name}.{fun}": _function(opts)
        for name, opts in (("roots", roots), ("git", git))
        for fun in ("envs", "update", "find_file", "serve_file", "file_hash")
    }
    fileserver.opts = {"file_roots": {"base": ["/srv/salt"]}}
    fileserver.update_opts()
    assert roots == git == fileserver.opts
    assert (roots.updates, git.updates) == (1, 1)


def test_equal_options_are_not_the_same(fileserver):
    """
    Two backends may have equal options that are two objects
    """
    roots, git = Opts(a=1), Opts(a=1)
    fileserver.servers = {"roots.envs": _function(roots), "git.envs": _function(git)}
    fileserver.opts = {"b": 2}
    fileserver.update_opts()
    assert roots == git == {"a": 1, "b": 2}


def test_what_is_no_function_of_a_backend(fileserver):
    roots = Opts()
    fileserver.servers = {
        "none": None,
        "without": _function(None),
        "roots.envs": _function(roots),
    }
    fileserver.opts = {"b": 2}
    fileserver.update_opts()
    assert roots == {"b": 2}


def test_real_backends_get_the_options_back(fileserver, tmp_path):
    opts = fileserver.servers["roots.envs"].__globals__["__opts__"]
    with patch.dict(fileserver.opts, {"file_roots": {"base": [str(tmp_path)]}}):
        fileserver.update_opts()
        assert opts["file_roots"] == {"base": [str(tmp_path)]}
