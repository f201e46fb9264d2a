"""A simulated minion beside a real one: what each returns, and which of them a target reaches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from evil_minions import Selection
from evil_minions.inventory import GrainsFactory, load_template
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from tests.live.helpers import real_minion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.bed.fleet import Fleet

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

REAL, TWIN = "real-00000", "twin-00000"
MINIONS = 12
READY_S = 120.0
SCRIPT = Path(__file__).parents[1] / "helpers" / "fleet_loads.py"
STATES = Path(__file__).with_name("states.json")
# differ from minion to minion or from moment to moment
MOMENTARY = {"_stamp", "ts", "jid", "pid", "start_time", "duration"}
PILLAR = """\
app:
  port: {{ 8000 + grains['id'][-1:] | int(0) % 3 }}
  owner: {{ grains['id'] }}
  tags: [a, b]
mine_functions:
  test.echo: [in the mine]
  short: {mine_function: grains.get, key: os}
beacons:
  load:
  - averages: {1m: [0.0, 0.0], 5m: [0.0, 0.0], 15m: [0.0, 0.0]}
  - interval: 2
tier: {{ 'gold' if grains['id'][-1:] in '02468' else 'silver' }}
nested: {deep: {flag: true, empty: '', list: [{x: 1}, {y: two}]}}
"""
NODEGROUPS = {"web": "G@role:web", "rest": "minion-* and not N@web"}


def state_files(folder: Path) -> None:
    """Write the state files whose results the simulated tree holds."""
    trees: dict[str, dict[str, Any]] = {}
    for state in json.loads(STATES.read_text())["states"]:
        trees.setdefault(state["sls"], {})[state["identifier"]] = {state["function"]: [{"name": state["name"]}]}
    trees["top"] = {"base": {"*": list(trees)}}
    for name, content in trees.items():
        (folder / f"{name}.sls").write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture(scope="module")
def bed(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a bed with a real minion."""
    folder = tmp_path_factory.mktemp("fleet")
    for name in ("states", "pillar"):
        (folder / name).mkdir()
    state_files(folder / "states")
    # more than the file server sends at once
    (folder / "states" / "large").write_text("0123456789abcde\n" * 20000)
    (folder / "pillar" / "top.sls").write_text("base: {'*': [common]}\n")
    (folder / "pillar" / "common.sls").write_text(PILLAR)
    options = {
        "file_roots": {"base": [str(folder / "states")]},
        "pillar_roots": {"base": [str(folder / "pillar")]},
        "nodegroups": NODEGROUPS,
        # seconds until the master notices that it has to change the key of publications
        "loop_interval": 1,
    }
    wanted = BedSettings(
        tree=stock, folder=folder, master_options=options, pillar="none", postgres="none", api=None, minions=MINIONS
    )
    with Bed(wanted) as found:
        real_minion.start(found, REAL)
        yield found


@pytest.fixture(scope="module")
def twin(bed: Bed) -> Iterator[Fleet]:
    """Start a simulated minion with the real one's grains as its template."""
    grains = json.loads(bed.salt([REAL, "grains.items", "--out=json"]).stdout)[REAL]
    template = bed.folder / "grains.json"
    template.write_text(json.dumps({"local": grains}))
    extra = ["--grains", str(template), "--id-format", "twin-{:05d}"]
    fleet = bed.start_fleet(1, extra=extra, name="twin")
    fleet.wait_ready(READY_S)
    yield fleet
    fleet.stop()


@pytest.fixture(scope="module")
def fleet(bed: Bed) -> Iterator[Fleet]:
    """Start a dozen simulated minions as they come."""
    fleet = bed.start_fleet(MINIONS)
    fleet.wait_ready(READY_S)
    yield fleet
    fleet.stop()


def loads(bed: Bed, tgt: object, fun: object, tgt_type: str = "list", **job: object) -> dict[str, dict[str, Any]]:
    """Return what each minion sent in return to a job."""
    job = {"arg": [], **job, "tgt": tgt, "tgt_type": tgt_type, "fun": fun}
    argv = [sys.executable, str(SCRIPT), str(bed.master.config_dir / "master"), json.dumps(job)]
    done = subprocess.run(argv, env=bed.environment, capture_output=True, text=True, timeout=120, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1])["loads"])


def plain(value: object, minion: str) -> object:
    """Return a value without what must differ between two minions."""
    if isinstance(value, dict):
        return {name: "*" if name in MOMENTARY else plain(child, minion) for name, child in value.items()}
    if isinstance(value, list):
        return [plain(child, minion) for child in value]
    if isinstance(value, str):
        # which of Python's lines led to an exception can't be the same
        value = re.sub(r"(?s)(Traceback \(most recent call last\):\n).*\n(?=\w+Error: )", r"\1", value)
        return value.replace(minion, "<id>")
    return value


CASES: list[dict[str, Any]] = [
    {"fun": "test.ping"},
    {"fun": "test.ping", "arg": ["foo"]},
    {"fun": "test.ping", "metadata": {"a": 1}},
    {"fun": "test.echo", "arg": ["hi"]},
    {"fun": "test.echo"},
    {"fun": "test.echo", "arg": ["text=3"]},
    {"fun": "test.echo", "arg": ["bad=3"]},
    {"fun": "test.echo", "kwarg": {"text": "x"}},
    {"fun": "test.sleep", "arg": [1]},
    {"fun": "test.sleep", "arg": ["x"]},
    {"fun": "grains.item", "arg": ["os", "id", "systemd:version", "no_such"]},
    {"fun": "grains.item"},
    {"fun": "grains.get", "arg": ["id"]},
    {"fun": "grains.get", "arg": ["no_such", "default"]},
    {"fun": "grains.get"},
    {"fun": "grains.ls"},
    {"fun": "pillar.items"},
    {"fun": "pillar.items", "kwarg": {"unmask": True}},
    {"fun": "pillar.items", "arg": ["app"]},
    {"fun": "pillar.items", "kwarg": {"pillar": {"x": "y"}, "unmask": True}},
    {"fun": "cmd.run", "arg": ["echo hi"]},
    {"fun": "cmd.run", "arg": ["exit 3"]},
    {"fun": "cmd.run", "arg": ["no_such_command a"]},
    {"fun": "cmd.run", "arg": ["echo a; echo b && false || echo c"]},
    {"fun": "cmd.run"},
    {"fun": "state.apply"},
    {"fun": "state.apply", "kwarg": {"test": True}},
    {"fun": "state.apply", "arg": ["app"]},
    {"fun": "state.apply", "arg": ["no_such"]},
    {"fun": "state.highstate"},
    {"fun": "saltutil.find_job", "arg": ["20250101000000000000"]},
    {"fun": "saltutil.running"},
    {"fun": "saltutil.is_running", "arg": ["state.*"]},
    {"fun": "saltutil.sync_all"},
    {"fun": "saltutil.refresh_pillar"},
    {"fun": "saltutil.refresh_pillar", "kwarg": {"wait": True}},
    {"fun": "saltutil.kill_job", "arg": ["20250101000000000000"]},
    {"fun": "saltutil.term_all_jobs"},
    {"fun": "mine.send", "arg": ["test.ping"]},
    {"fun": "mine.send", "arg": ["alias", "mine_function=grains.get", "os"]},
    {"fun": "mine.send", "arg": ["no.such"]},
    {"fun": "mine.update"},
    {"fun": "mine.get", "arg": ["nobody", "test.ping"]},
    {"fun": "mine.delete", "arg": ["alias"]},
    {"fun": "cp.list_master"},
    {"fun": "cp.list_master_dirs"},
    {"fun": "cp.envs"},
    {"fun": "cp.hash_file", "arg": ["salt://top.sls"]},
    {"fun": "cp.hash_file", "arg": ["salt://no.such"]},
    {"fun": "cp.get_file_str", "arg": ["salt://top.sls"]},
    {"fun": "cp.get_file_str", "arg": ["salt://large"]},
    {"fun": "cp.get_file_str", "arg": ["salt://no.such"]},
    {"fun": "cp.cache_file", "arg": ["salt://no.such"]},
    {"fun": "cp.get_file", "arg": ["salt://no.such", "/nowhere"]},
    {"fun": "event.send", "arg": ["saltbed/test", {"a": 1}]},
    {"fun": "event.fire_master", "arg": [{"a": 1}, "saltbed/test"]},
    {"fun": "event.send"},
    {"fun": "pkg.version", "arg": ["no-such-package"]},
    {"fun": "service.status", "arg": ["no-such-service"]},
    {"fun": "network.hw_addr", "arg": ["lo"]},
    {"fun": "network.ip_addrs", "arg": ["lo"], "kwarg": {"include_loopback": True}},
    {"fun": "no.such"},
    {"fun": ["test.ping", "test.echo"], "arg": [[], ["hello"]]},
    {"fun": ["test.ping", "no.such", "test.echo"], "arg": [[], [], []]},
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_return_is_a_real_minions(bed: Bed, twin: Fleet, case: dict[str, Any]) -> None:
    """The load of a return differs from a real minion's only in ids, times and process ids."""
    assert twin.minions == 1
    found = loads(bed, [REAL, TWIN], **case)
    assert plain(found[TWIN], TWIN) == plain(found[REAL], REAL)


@pytest.mark.parametrize(
    ("seconds", "fun", "arg"), [(5, "saltutil.running", []), (6, "saltutil.is_running", ["test.*"])]
)
def test_running_jobs_are_a_real_minions(bed: Bed, twin: Fleet, seconds: int, fun: str, arg: list[str]) -> None:
    """A job that runs shows with the data that a real minion shows."""
    assert twin.minions == 1
    found = loads(bed, "*", "test.sleep", "glob", arg=[seconds], after={"fun": fun, "arg": arg})
    real, simulated = (
        [plain(job, minion) for job in found[minion]["return"] if job["arg"] == [seconds]] for minion in (REAL, TWIN)
    )
    assert simulated == real
    assert len(simulated) == 1


def shape(value: object, *, named: bool) -> object:
    """Return the types in a value; with `named` the names in a dictionary too, else what kinds of entries it has."""
    if isinstance(value, dict) and named:
        return {name: shape(child, named=True) for name, child in value.items()}
    if isinstance(value, dict):
        return {name for child in value.values() for name in (child if isinstance(child, dict) else [type(child)])}
    return {type(child) for child in value} if isinstance(value, list) else type(value)


@pytest.mark.parametrize(
    ("fun", "named"),
    [
        ("network.interfaces", False),
        ("network.ip_addrs", False),
        ("network.subnets", False),
        ("network.get_hostname", False),
        ("status.uptime", True),
        ("status.loadavg", True),
        ("status.nproc", True),
        ("status.time", True),
        ("status.diskusage", False),
        ("disk.usage", False),
        ("pkg.list_pkgs", False),
        ("service.get_all", False),
    ],
)
def test_machine_looks_like_a_real_one(bed: Bed, twin: Fleet, fun: str, named: bool) -> None:  # noqa: FBT001 - a parameter
    """What describes a machine has the form of a real minion's, with values of its own."""
    assert twin.minions == 1
    found = loads(bed, [REAL, TWIN], fun)
    real = found[REAL]["return"]
    if fun == "network.interfaces":
        # half of a pair, a VLAN or a tunnel: containers make such, and simulated minions have none
        real = {name: interface for name, interface in real.items() if "parent" not in interface}
    assert shape(found[TWIN]["return"], named=named) == shape(real, named=named)
    assert found[TWIN].get("out") == found[REAL].get("out")


def test_memory_looks_like_a_real_ones(bed: Bed, twin: Fleet) -> None:
    """A kernel's memory figures are some of those that a real one has."""
    assert twin.minions == 1
    found = loads(bed, [REAL, TWIN], "status.meminfo")
    real, simulated = found[REAL]["return"], found[TWIN]["return"]
    assert set(simulated) <= set(real)
    assert simulated["MemTotal"].keys() == real["MemTotal"].keys()


def test_files_are_fetched(bed: Bed, twin: Fleet) -> None:
    """A file is kept below the minion's cache, and one for another place is said to be there."""
    assert twin.minions == 1
    found = loads(bed, [REAL, TWIN], "cp.cache_file", arg=["salt://top.sls"])
    assert all(found[minion]["return"].endswith("/files/base/top.sls") for minion in (REAL, TWIN))
    found = loads(bed, [REAL, TWIN], "cp.get_file", arg=["salt://top.sls", str(bed.folder / "fetched")])
    assert found[TWIN]["return"] == found[REAL]["return"] == str(bed.folder / "fetched")


def test_the_mine_has_what_both_gave(bed: Bed, twin: Fleet) -> None:
    """The mine was filled at the start of both minions, by the functions in their pillar, and answers both alike."""
    assert twin.minions == 1
    wanted = {"test.echo": "in the mine", "short": "Linux"}

    def mined() -> bool:
        found = {name: loads(bed, [TWIN], "mine.get", arg=[f"{REAL},{TWIN}", name, "list"]) for name in wanted}
        return all(set(each[TWIN]["return"]) == {REAL, TWIN} for each in found.values())

    until(mined, Deadline(READY_S), lambda: "the mine doesn't have both minions")
    real, simulated = (loads(bed, [minion], "mine.get", arg=["*", "test.echo"]) for minion in (REAL, TWIN))
    assert simulated[TWIN]["return"] == real[REAL]["return"]
    assert simulated[TWIN]["return"][TWIN] == "in the mine"


def watched(bed: Bed, tag: str, fun: str, arg: list[object]) -> dict[str, Any]:
    """Run a job on both minions and return the events that come meanwhile, by minion."""
    job = {"tgt": [REAL, TWIN], "tgt_type": "list", "fun": fun, "arg": arg, "watch": tag}
    argv = [sys.executable, str(SCRIPT), str(bed.master.config_dir / "master"), json.dumps(job)]
    done = subprocess.run(argv, env=bed.environment, capture_output=True, text=True, timeout=120, check=True)
    return {event["data"]["id"]: event for event in json.loads(done.stdout.splitlines()[-1])["watched"]}


@pytest.mark.parametrize(
    "arg",
    [
        ["saltbed/x", {"a": 1}],
        ["saltbed/x", "b=2"],
        ["saltbed/x", "with_grains=[os, id]"],
        ["saltbed/x", "with_env_opts=True"],
    ],
)
def test_events_are_a_real_minions(bed: Bed, twin: Fleet, arg: list[object]) -> None:
    """An event that a job sends shows on the bus as a real minion's."""
    assert twin.minions == 1
    found = watched(bed, "saltbed/x", "event.send", arg)
    real, simulated = found[REAL]["data"]["data"], found[TWIN]["data"]["data"]
    assert set(simulated) == set(real)
    # of the publication, which Salt packs in too, the names are compared
    for name in [name for name in real if name.startswith("__pub_")]:
        del real[name], simulated[name]
    assert plain(found[TWIN], TWIN) == plain(found[REAL], REAL)


def test_beacons_are_a_real_minions(bed: Bed) -> None:
    """An event of a beacon has the form of a real one's."""
    fleet = bed.start_fleet(1, extra=["--id-format", "beat-{:05d}", "--beacon-interval", "1"], name="beacon")
    try:
        fleet.wait_ready(READY_S)
        found = watched(bed, "salt/beacon/*", "test.sleep", [4])
    finally:
        fleet.stop()
    assert found["beat-00000"]["tag"].replace("beat-00000", REAL) == found[REAL]["tag"]
    assert shape(found["beat-00000"]["data"], named=True) == shape(found[REAL]["data"], named=True)


def test_killed_jobs_return_nothing(bed: Bed, twin: Fleet) -> None:
    """A job that is killed ends without a return, and the kill says so in Salt's words."""
    assert twin.minions == 1

    def idle() -> bool:
        found = loads(bed, [REAL, TWIN], "saltutil.running")
        return not any(found[minion]["return"] for minion in (REAL, TWIN))

    # a test before this one may have left a job at work, which would be killed too
    until(idle, Deadline(90), lambda: "jobs of an earlier test still run")
    job = {"tgt": [REAL, TWIN], "tgt_type": "list", "fun": "test.sleep", "arg": [33]}
    found = loads(bed, [REAL, TWIN], "test.sleep", arg=[33], after={"fun": "saltutil.kill_all_jobs", "arg": []})
    texts = {minion: [re.sub(r"\d{2,}", "<n>", text) for text in found[minion]["return"]] for minion in (REAL, TWIN)}
    assert texts[TWIN] == ["Signal 9 sent to job <n> at pid <n>"]
    assert texts[REAL] == texts[TWIN]
    running = loads(bed, [REAL, TWIN], "saltutil.running")
    assert all(not [each for each in running[minion]["return"] if each["arg"] == job["arg"]] for minion in (REAL, TWIN))


def test_grains_are_a_real_minions(bed: Bed, twin: Fleet) -> None:
    """With a real minion's grains as template, all are there, and only what identifies a machine differs."""
    assert twin.minions == 1
    found = loads(bed, [REAL, TWIN], "grains.items")
    real, simulated = found[REAL]["return"], found[TWIN]["return"]
    own = GrainsFactory(load_template(bed.folder / "grains.json"), 1, "127.0.0.1").own
    assert set(simulated) == set(real)
    assert {name for name in real if real[name] != simulated[name]} <= own
    assert {name: type(value) for name, value in simulated.items()} == {
        name: type(value) for name, value in real.items()
    }


TARGETS: list[tuple[str, object, Callable[[Mapping[str, Any], int], bool]]] = [
    ("glob", "minion-*", lambda _grains, _number: True),
    ("glob", "minion-0000[135]", lambda _grains, number: number in {1, 3, 5}),
    ("list", "minion-00002,minion-00004,nobody", lambda _grains, number: number in {2, 4}),
    ("list", ["minion-00001", "minion-00011"], lambda _grains, number: number in {1, 11}),
    ("pcre", "minion-0000[0-4]|minion-.*9$", lambda _grains, number: number in {0, 1, 2, 3, 4, 9}),
    ("grain", "role:web", lambda grains, _number: grains["role"] == "web"),
    ("grain", "ip4_interfaces:eth0:10.16.0.[1-4]", lambda _grains, number: number < 4),
    ("grain_pcre", "os:^(Debian|Rocky)$", lambda grains, _number: grains["os"] in {"Debian", "Rocky"}),
    ("pillar", "tier:gold", lambda _grains, number: number % 2 == 0),
    ("pillar", "app:owner:minion-0000[12]", lambda _grains, number: number in {1, 2}),
    ("pillar_pcre", "app:port:800[01]", lambda _grains, number: number % 10 % 3 in {0, 1}),
    ("pillar_exact", "app:port:8002", lambda _grains, number: number % 10 % 3 == 2),
    ("ipcidr", "10.16.0.0/29", lambda _grains, number: number < 7),
    ("ipcidr", "10.16.0.3", lambda _grains, number: number == 2),
    (
        "compound",
        "G@role:web and not E@minion-0000[0-5]",
        lambda grains, number: grains["role"] == "web" and number > 5,
    ),
    (
        "compound",
        "minion-* and ( ( I@tier:gold or S@10.16.0.2 ) and not ( P@os:Deb.* or L@minion-00004 ) )",
        lambda grains, number: (number % 2 == 0 or number == 1) and not (grains["os"] == "Debian" or number == 4),
    ),
    ("compound", "N@web or minion-00000", lambda grains, number: grains["role"] == "web" or number == 0),
    ("nodegroup", "web", lambda grains, _number: grains["role"] == "web"),
    ("nodegroup", "rest", lambda grains, _number: grains["role"] != "web"),
]


@pytest.mark.parametrize(
    ("kind", "expression", "expected"), TARGETS, ids=[f"{kind} {text}" for kind, text, _ in TARGETS]
)
def test_publication_reaches_its_targets(
    bed: Bed, fleet: Fleet, kind: str, expression: object, expected: Callable[[Mapping[str, Any], int], bool]
) -> None:
    """A target of each type, published for real, is run by the minions that it means and by no other."""
    factory = GrainsFactory(load_template(), 1, "127.0.0.1")
    wanted = {
        minion
        for number, minion in enumerate(bed.settings.minion_ids())
        if expected(factory.build(minion, number), number)
    }
    assert fleet.minions == MINIONS
    found = loads(bed, expression, "test.ping", kind, quiet=5.0, wanted=sorted(wanted))
    assert {minion for minion in found if minion.startswith("minion-")} == wanted


def test_ping_by_command(bed: Bed, fleet: Fleet) -> None:
    """Salt's own command sees every minion, and the samples say the same."""
    before = fleet.control.status().counters
    shown = json.loads(bed.salt(["minion-*", "test.ping", "--out=json", "--static"]).stdout)
    assert shown == dict.fromkeys(bed.settings.minion_ids(), True)
    after = fleet.control.status().counters
    assert after.returns - before.returns == after.returns_acked - before.returns_acked >= MINIONS


def test_new_key_of_publications(bed: Bed, fleet: Fleet) -> None:
    """When a key is deleted the master changes the key of publications; every minion signs in anew and answers."""
    before = fleet.control.status().counters
    bed.run("salt-key", ["--delete=minion-00003", "--yes"])
    others = set(bed.settings.minion_ids()) - {"minion-00003"}

    def renewed() -> bool:
        shown = json.loads(bed.salt(["minion-*", "test.ping", "--out=json", "--static", "--timeout=20"]).stdout)
        assert set(shown) >= others
        return fleet.control.status().counters.auth_ok - before.auth_ok >= len(others)

    until(renewed, Deadline(READY_S), lambda: "the minions haven't signed in anew")
    assert fleet.control.status().counters.errors == 0
    # the one whose key is gone hands it in again when it starts
    one = Selection(None, "minion-00003")
    assert (fleet.control.order("kill", one), fleet.control.order("revive", one)) == (1, 1)
    until(lambda: fleet.status().ready == MINIONS, Deadline(READY_S), lambda: "the minion stays away")
