"""Scenario files: what is read from them, and how wrong ones are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from harness.errors import ScenarioError, SettingsError
from harness.scenarios import scenario
from harness.scenarios.clients import Arrival, Clients
from harness.scenarios.fleet import resolve_roots
from harness.scenarios.scenario import Scenario
from harness.scenarios.thresholds import Threshold

if TYPE_CHECKING:
    from pathlib import Path

SMALL = """
description = "A ping"
minions = 10

[[clients]]
kind = "api"
function = "test.ping"
tgt = "*"
burst = 3
"""


def _load(folder: Path, text: str) -> Scenario:
    path = folder / "mine.toml"
    path.write_text(text)
    return scenario.load(path)


def _problem(folder: Path, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        _load(folder, text)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_defaults(tmp_path: Path) -> None:
    """A scenario needs a description, minions and one block of clients; everything else has a default."""
    clients = Clients("api test.ping", "api", "test.ping", "*", Arrival("burst", burst=3))
    assert _load(tmp_path, SMALL) == Scenario("mine", "A ping", 10, (clients,))


def test_everything(tmp_path: Path) -> None:
    """Every key is read."""
    text = """
description = "All"
minions = 20
seed = 7
pillar = "none"
ready_s = 30
settle_s = 5.5
master = { worker_threads = 8 }
trees.patched.master = { worker_threads = 9, sock_pool_size = 2 }

[[clients]]
name = "states"
kind = "cli"
function = "state.apply"
args = ["web"]
kwarg = { test = true }
tgt = "os:SUSE"
tgt_type = "grain"
mode = "async"
timeout_s = 9
give_up_s = 90
rate = 2
duration_s = 10
arrival = "constant"
start_s = 4

[thresholds]
client_errors = { max = 1, trees = ["patched"] }
client_latency_s.p95 = { max = 2.5 }
peak_memory_mb.MWorker = { min = 1, max = 900 }
"""
    arrival = Arrival("constant", rate=2.0, duration_s=10.0, start_s=4.0)
    expected = Scenario(
        name="mine",
        description="All",
        minions=20,
        seed=7,
        pillar="none",
        ready_s=30.0,
        settle_s=5.5,
        master={"worker_threads": 8},
        tree_master={"patched": {"worker_threads": 9, "sock_pool_size": 2}},
        clients=(
            Clients(
                name="states",
                kind="cli",
                function="state.apply",
                args=("web",),
                kwarg={"test": True},
                tgt="os:SUSE",
                tgt_type="grain",
                mode="async",
                timeout_s=9,
                give_up_s=90.0,
                arrival=arrival,
            ),
        ),
        thresholds=(
            Threshold("client_errors", maximum=1.0, trees=("patched",)),
            Threshold("client_latency_s.p95", maximum=2.5),
            Threshold("peak_memory_mb.MWorker", minimum=1.0, maximum=900.0),
        ),
    )
    assert _load(tmp_path, text) == expected


def test_options_of_a_tree(tmp_path: Path) -> None:
    """A tree's master gets the common options and its own, which take precedence."""
    text = SMALL.replace("minions = 10", "minions = 10\nmaster = {a = 1, b = 2}\ntrees.patched.master = {b = 3}")
    loaded = _load(tmp_path, text)
    assert loaded.master_options("stock") == {"a": 1, "b": 2}
    assert loaded.master_options("patched") == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            SMALL.replace("minions", "minoins"),
            "mine.toml: `minoins` is no key here; the nearest one is `minions`.",
        ),
        (
            SMALL.replace("tgt", "target"),
            "mine.toml: `clients[1].target` is no key here; the nearest one is `tgt`.",
        ),
        (
            SMALL + "\n[thresholds]\nclient_error = { max = 0 }",
            "mine.toml: `thresholds.client_error` is no field of a result; the nearest one is `client_errors`.",
        ),
        (
            SMALL + "\n[trees.patch]\nmaster = {}",
            "mine.toml: `trees.patch` is no key here; the nearest one is `patched`.",
        ),
        (
            SMALL.replace("api", "rest"),
            "mine.toml: `clients[1].kind` is 'rest', but has to be one of api, cli, runner, salt-run.",
        ),
        (
            SMALL.replace('"api"', '"ap"'),
            (
                "mine.toml: `clients[1].kind` is 'ap', but has to be one of api, cli, runner, salt-run; "
                "the nearest one is api."
            ),
        ),
        (
            SMALL.replace("minions = 10", "minions = 0"),
            "mine.toml: `minions` is 0, but has to be from 1 to 100000.",
        ),
        (
            SMALL.replace("minions = 10", 'minions = "10"'),
            "mine.toml: `minions` is '10', but has to be a whole number.",
        ),
        (
            SMALL.replace("minions = 10", "minions = true"),
            "mine.toml: `minions` is True, but has to be a whole number.",
        ),
        (SMALL.replace("minions = 10", ""), "mine.toml: `minions` is missing: give it a whole number."),
        (
            SMALL.replace("burst = 3", ""),
            "mine.toml: `clients[1].rate` is missing: give `rate` and `duration_s`, or `burst`.",
        ),
        (
            SMALL.replace("burst = 3", "burst = 3\nrate = 1"),
            "mine.toml: `clients[1].rate` can't stand beside `burst`: give `burst`, or `rate` and `duration_s`.",
        ),
        (
            SMALL + SMALL[SMALL.index("[[") :],
            "mine.toml: `clients[2].name` is 'api test.ping' a second time: give every block its own `name`.",
        ),
        (
            'description = "x"\nminions = 1\nclients = []',
            "mine.toml: `clients` has to be 1 or more tables, each under a line [[clients]].",
        ),
        (
            SMALL + "\n[thresholds]\nclient_errors = {}",
            "mine.toml: `thresholds.client_errors.max` is missing: a threshold needs `min` or `max`.",
        ),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    """A wrong file is refused in one sentence that names the file, the key and what would be right."""
    assert _problem(tmp_path, text) == problem


def test_not_toml(tmp_path: Path) -> None:
    """A file that is no TOML at all is refused in one sentence too."""
    assert _problem(tmp_path, "minions = ").startswith("mine.toml is no TOML file: ")


def test_scenarios_of_ours_are_as_documented(root: Path) -> None:
    """The scenarios that come with the harness can be loaded, and those of the page are there, with their sizes."""
    text = (root / "docs" / "load-testing.md").read_text(encoding="utf-8")
    table = text.partition("\n## Scenarios\n")[2].partition("|---|---|\n")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", table, re.MULTILINE))
    assert rows
    assert set(rows) <= set(scenario.names())
    for name in scenario.names():
        found = scenario.load(scenario.find(name))
        assert f"{found.minions:,} " in rows.get(name, f"{found.minions:,} "), name


def test_unknown_scenario() -> None:
    """A name that isn't there brings the nearest one."""
    with pytest.raises(SettingsError) as caught:
        scenario.find("brust")
    assert str(caught.value) == "There is no scenario brust: did you mean burst?"


def test_missing_file() -> None:
    """A file that isn't there brings the names."""
    with pytest.raises(SettingsError) as caught:
        scenario.find("no/such.toml")
    names = ", ".join(scenario.names())
    assert names.startswith("burst, calm, day-of-trouble, default")
    assert str(caught.value) == (
        f"There is no scenario file no/such.toml: give the path of a TOML file or one of {names}."
    )


def test_transport(tmp_path: Path) -> None:
    """A scenario names a transport of Salt's; a command may name another one."""
    typed = SMALL.replace('"api"', '"cli"')
    found = _load(tmp_path, 'transport = "ws"\n' + typed)
    assert (found.transport, found.changed(transport="tcp").transport) == ("ws", "tcp")
    assert "transport" in _problem(tmp_path, 'transport = "udp"\n' + SMALL)


def test_no_salt_api_over_ws(tmp_path: Path) -> None:
    """salt-api takes a master of ws for dead, so nobody waits for it: neither from a file nor from an option."""
    sentence = "give the clients 'api test.ping' the kind 'cli' or 'salt-run', or take zeromq or tcp."
    assert _problem(tmp_path, 'transport = "ws"\n' + SMALL).endswith(sentence)
    with pytest.raises(SettingsError, match="salt-api does not work over ws"):
        _load(tmp_path, SMALL).changed(transport="ws")
    found = _load(tmp_path, SMALL.replace('"api"', '"salt-run"').replace("test.ping", "manage.up"))
    assert (found.asks_api, found.changed(transport="ws").asks_api) == (False, False)


NETWORK = """
[[fleet.network]]
rtt_ms = 80
jitter_ms = 10
loss = 0.01
share = 0.4

[[fleet.network]]
rtt_ms = 250
bandwidth_mbit = 10
tgt = "G@os:Debian and web*"
tgt_type = "compound"

[[timeline]]
at_s = 5
do = "network"
rtt_ms = 800
share = 0.2
"""


def test_networks(tmp_path: Path) -> None:
    """Networks are options of the fleet's command, and a moment of the timeline asks for one."""
    path = tmp_path / "far.toml"
    path.write_text(SMALL + NETWORK)
    found = scenario.load(path)
    assert found.fleet == (
        "--network=rtt_ms=80 jitter_ms=10 loss=0.01 share=0.4",
        "--network=rtt_ms=250 bandwidth_mbit=10 'tgt=G@os:Debian and web*' tgt_type=compound",
    )
    (moment,) = found.timeline
    assert moment.name == "network rtt 800 20 %"
    assert moment.request() == {"do": "network", "path": {"rtt_ms": 800.0}, "share": 0.2}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[fleet.network]]\nshare = 0.1", "`fleet.network[1].rtt_ms` is missing: a network has one of rtt_ms"),
        ("[[fleet.network]]\nrtt = 5", "`fleet.network[1].rtt` is no key here"),
        ("[[fleet.network]]\nloss = 0.7", "`fleet.network[1].loss` is 0.7, but has to be from 0 to 0.5"),
        ("[[fleet.network]]\nrtt_ms = 5\njitter_ms = 6", "can't be more than `rtt_ms`"),
        ("[[fleet.network]]\nrtt_ms = 5\nshare = 0.1\ntgt = 'a'", "can't stand beside `tgt`"),
        ("[[timeline]]\nat_s = 1\ndo = 'network'", "`timeline[1].rtt_ms` is missing"),
    ],
)
def test_networks_that_make_no_sense(tmp_path: Path, text: str, problem: str) -> None:
    """What can't be is one sentence."""
    path = tmp_path / "wrong.toml"
    path.write_text(SMALL + text)
    with pytest.raises(ScenarioError) as caught:
        scenario.load(path)
    assert problem in str(caught.value)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """Each key of the file, and each block of clients, users, moments or thresholds, is read whatever others hold."""
    text = """
descripton = "Typing error"
minions = "many"
seed = -1
[[clients]]
kind = "apy"
function = "test.ping"
tgt = "*"
burst = 3
[[clients]]
name = "pings"
kind = "api"
function = "test.ping"
tgt = "*"
burst = 0
user = "admins"
[users.admins]
count = 0
permissions = ["*"]
[fleet]
behaviors = "slow"
[trees.stok.master]
worker_threads = 3
[[timeline]]
at_s = 1
do = "explode"
[thresholds]
client_eror = { max = 0 }
"""
    lines = _problem(tmp_path, text).splitlines()
    named = [line.partition("`")[2].partition("`")[0] for line in lines]
    assert named == [
        "descripton",
        "minions",
        "seed",
        "trees.stok",
        "fleet.behaviors",
        "clients[1].kind",
        "clients[2].burst",
        "users.admins.count",
        "timeline[1].do",
        "thresholds.client_eror",
    ]
    assert all(line.startswith("mine.toml: ") and line.endswith(".") for line in lines)


def test_folders_of_the_file_server(tmp_path: Path) -> None:
    """A path in `file_roots` is seen from the scenario's folder, and has to be there."""
    (tmp_path / "states").mkdir()
    options = {"file_roots": {"base": ["states", "/"]}, "timeout": 5}
    assert resolve_roots(options, tmp_path) == {"file_roots": {"base": [str(tmp_path / "states"), "/"]}, "timeout": 5}
    with pytest.raises(ScenarioError, match=r"file_roots. names a folder that is not there"):
        resolve_roots({"file_roots": {"base": ["no-such"]}}, tmp_path)
