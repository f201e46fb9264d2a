"""
How Salt itself calls a runner, so that a release that does it in another way is noticed.
"""

import sys
import types

import pytest
import saltext.query.caller

import salt.config
import salt.daemons.masterapi
import salt.runner
import salt.thorium.runner
import salt.utils.files
import salt.utils.parsers


@pytest.fixture
def config(tmp_path):
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\nuser: root\n")
    return str(tmp_path)


@pytest.fixture
def called(monkeypatch):
    """
    The options of the runners that have been called.
    """
    seen = []

    class Runner:
        def __init__(self, opts):
            seen.append(opts)

        def run(self):
            return seen[-1]["fun"]

    monkeypatch.setattr(salt.runner, "Runner", Runner)
    return seen


@pytest.mark.parametrize("more", ("", "async: True\nkwarg: {}\n__cli: salt-run\n"))
def test_a_minion_by_peer_run(config, called, more, monkeypatch):
    """
    Whatever the configuration of the master has besides
    """
    monkeypatch.setattr(sys, "argv", ["/usr/bin/salt-master"])
    with salt.utils.files.fopen(config + "/master", "a") as handle:
        handle.write(more)
    opts = salt.config.master_config(config + "/master")
    assert ("async" in opts) == bool(more)
    opts["peer_run"] = {"web1": ["query.*"]}
    load = {"fun": "query.items", "arg": ["node", "name"], "id": "web1"}
    salt.daemons.masterapi.RemoteFuncs.minion_runner(
        types.SimpleNamespace(opts=opts), load
    )
    (found,) = called
    caller = saltext.query.caller.of_runner(found, "root")
    assert (type(caller), caller.only) == (saltext.query.caller.MinionCaller, "web1")


def test_the_command_salt_run(config, monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["salt-run", "-c", config, "query.items", "node", "name"]
    )
    parser = salt.utils.parsers.SaltRunOptionParser()
    parser.parse_args()
    assert parser.config["fun"] == "query.items"
    caller = saltext.query.caller.of_runner(parser.config, "root")
    assert caller.only is None


def test_thorium(config, called, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/salt-master"])
    opts = salt.config.master_config(config + "/master")
    monkeypatch.setattr(salt.thorium.runner, "__opts__", opts, raising=False)
    salt.thorium.runner.cmd("x", func="query.items")
    (found,) = called
    assert saltext.query.caller.of_runner(found, "root").only is None


@pytest.mark.parametrize("kind", ("master_config", "client_config", "api_config"))
def test_everybody_else(config, kind):
    """
    salt-api, external_auth, schedules, reactors and orchestrations run runners with the
    options of the master.
    """
    opts = getattr(salt.config, kind)(config + "/master")
    assert "fun" not in opts
    assert saltext.query.caller.of_runner(opts, "root").only is None
