"""
After each pillar, the master gives the backends its options back, which the pillar's own
file client may have replaced.
"""

import types

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
    Return a function of a module with these options
    """
    return types.FunctionType(_function.__code__, {"__opts__": opts})


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


def test_functions_of_a_real_backend_share_its_options(fileserver):
    """
    So one update is enough for all of them
    """
    functions = [func for name, func in fileserver.servers.items() if "roots." in name]
    options = {id(func.__globals__["__opts__"]) for func in functions}
    assert len(functions) > 1
    assert len(options) == 1


def test_real_backends_get_the_options_back(fileserver, tmp_path):
    opts = fileserver.servers["roots.envs"].__globals__["__opts__"]
    with patch.dict(fileserver.opts, {"file_roots": {"base": [str(tmp_path)]}}):
        fileserver.update_opts()
        assert opts["file_roots"] == {"base": [str(tmp_path)]}
