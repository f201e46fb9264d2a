"""What the master, the API, a minion and the fleet are told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.bed import master
from harness.bed.api import Api
from harness.bed.fleet import FleetSpec
from harness.bed.master import Master
from harness.bed.settings import Tree
from tests.live.helpers import real_minion

MASTER = Master(Path("/t/master"), Path("/r/logs/master.log"), 20001, 20002)


def test_paths_lie_in_its_folder() -> None:
    """Every path that the master may write to lies below its folder."""
    options = MASTER.options()
    keys = ("root_dir", "pki_dir", "cachedir", "sock_dir", "pidfile", "log_file", "key_logfile")
    assert [options[key] for key in keys if not str(options[key]).startswith("/t/master")] == []


def test_own_options_win(tmp_path: Path) -> None:
    """Options of the settings replace the bed's own; logs are reached through a link."""
    (tmp_path / "logs").mkdir()
    one = Master(tmp_path / "master", tmp_path / "logs" / "master.log", 20001, 20002)
    master.write(one, {"worker_threads": 3, "auto_accept": False})
    written = yaml.safe_load((one.config_dir / "master").read_text())
    assert (written["worker_threads"], written["auto_accept"], written["ret_port"]) == (3, False, 20001)
    assert Path(written["log_file"]).parent.resolve() == tmp_path / "logs"


def test_pillar_options() -> None:
    """Pillars are fetched by one function query that stock Salt understands too."""
    assert master.pillar_options({"host": "h"}) == {
        "postgres": {"host": "h"},
        "ext_pillar": [{"postgres": [{"query": "SELECT suse_minion_pillars(%s)", "as_json": True}]}],
    }


def test_api_user_is_the_beds_own() -> None:
    """Only the bed's user may use the API, with a secret of the bed's own."""
    options = Api(20003, Path("/t"), Path("/r/logs/api.log"), "saltbed", "secret").options({"thread_pool": 5})
    assert options["rest_cherrypy"] == {"host": "127.0.0.1", "port": 20003, "disable_ssl": True, "thread_pool": 5}
    assert options["external_auth"] == {"sharedsecret": {"saltbed": [".*", "@wheel", "@runner", "@jobs"]}}
    assert options["sharedsecret"] == "secret"


def test_minion_keeps_to_its_folder() -> None:
    """Every path of a real minion lies below its folder, and its timers keep their defaults."""
    options = real_minion.options("m", Path("/t/m"), Path("/r/logs/m.log"), 20001)
    keys = ("root_dir", "pki_dir", "cachedir", "sock_dir", "pidfile", "log_file")
    assert [options[key] for key in keys if not str(options[key]).startswith("/t/m")] == []
    assert [key for key in options if "timeout" in key or "interval" in key or "delay" in key] == []


def test_fleet_arguments() -> None:
    """The fleet's command gets the order, and the user's options last."""
    order = FleetSpec(10, 5, "m{}", 7, ("--auth-rate=9",))
    assert order.arguments(Path("/t/fleet"), 20001) == [
        "run",
        "--master=127.0.0.1",
        "--request-port=20001",
        "--minions=10",
        "--first=5",
        "--id-format=m{}",
        "--seed=7",
        "--folder=/t/fleet",
        "--auth-rate=9",
    ]


def test_environment_of_a_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Salt's commands find the tree's Salt and no other, whatever the caller's environment says."""
    monkeypatch.chdir(tmp_path)
    environment = Tree(Path("build/stock")).environment(
        {"PYTHONPATH": "/other", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/h"}
    )
    assert environment["PYTHONPATH"] == str(tmp_path / "build" / "stock")
    assert environment["HOME"] == "/h"
    assert "PYTHONDONTWRITEBYTECODE" not in environment


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/local/bin:/usr/bin:/bin", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("/usr/sbin:/mine:/usr/local/sbin:/sbin", "/usr/sbin:/mine:/usr/local/sbin:/sbin"),
    ],
)
def test_salt_finds_the_systems_tools(path: str, expected: str) -> None:
    """Like a service of systemd, and unlike an ordinary user's shell, Salt finds what lies in the folders sbin."""
    assert Tree(Path("build/stock")).environment({"PATH": path})["PATH"] == expected


def test_command_of_a_tree() -> None:
    """Salt's commands run from the tree's own scripts."""
    argv = Tree(Path("/x/stock")).command("salt-run", Path("/t/etc"))
    assert argv[1:] == ["/x/stock/scripts/salt-run", "--config-dir=/t/etc"]


def test_environment_of_its_own(tmp_path: Path) -> None:
    """A virtual environment with Salt in it is a tree too, whose commands run as they are and see nothing of ours."""
    (tmp_path / "bin").mkdir()
    assert not Tree(tmp_path).found()
    (tmp_path / "bin" / "salt-master").touch()
    tree = Tree(tmp_path)
    assert tree.found()
    assert tree.command("salt", Path("/c")) == [f"{tmp_path}/bin/salt", "--config-dir=/c"]
    assert "PYTHONPATH" not in tree.environment({"PYTHONPATH": "/ours"})


def test_master_and_minion_speak_one_transport() -> None:
    """The transport is in both configurations."""
    over_tcp = Master(Path("/t/master"), Path("/r/logs/master.log"), 20001, 20002, "tcp")
    assert over_tcp.options()["transport"] == "tcp"
    assert real_minion.options("m", Path("/t/m"), Path("/r/logs/m.log"), 20001, "tcp")["transport"] == "tcp"
