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

from evil_minions.grains import GrainsFactory, load_template
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.bed.fleet import Fleet

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

REAL, TWIN = "real-00000", "twin-00000"
MINIONS = 12
READY_S = 120.0
SCRIPT = Path(__file__).parent / "fleet_loads.py"
STATES = Path(__file__).parent.parent.parent / "evil_minions" / "data" / "states.json"
# differ from minion to minion or from moment to moment
MOMENTARY = {"_stamp", "ts", "jid", "pid", "start_time", "duration"}
PILLAR = """\
app:
  port: {{ 8000 + grains['id'][-1:] | int(0) % 3 }}
  owner: {{ grains['id'] }}
  tags: [a, b]
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
        tree=stock, folder=folder, master_options=options, pillar="none", postgres="none", api=False, minions=MINIONS
    )
    with Bed(wanted) as found:
        found.start_minion(REAL)
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
    found = loads(bed, expression, "test.ping", kind)
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
    bed.salt_key(["--delete=minion-00003", "--yes"])
    others = set(bed.settings.minion_ids()) - {"minion-00003"}

    def renewed() -> bool:
        shown = json.loads(bed.salt(["minion-*", "test.ping", "--out=json", "--static", "--timeout=20"]).stdout)
        assert set(shown) >= others
        return fleet.control.status().counters.auth_ok - before.auth_ok >= len(others)

    until(renewed, Deadline(READY_S), lambda: "the minions haven't signed in anew")
    assert fleet.control.status().counters.errors == 0
