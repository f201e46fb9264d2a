"""Targets: the fleet picks the minions that Salt's own matchers pick."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import salt.config
import salt.loader
import salt.utils.minions

from evil_minions.inventory import GrainsFactory, load_template
from evil_minions.inventory.targets import PillarStore, Target, Targets, target_of

# Salt's loader warns of its own use of importlib
pytestmark = pytest.mark.filterwarnings("ignore")

COUNT = 24
FIRST = 100
NODEGROUPS = {
    "web": "G@role:web",
    "north": "L@minion-00101,minion-00103 or G@site:north",
    "both": "N@web and N@north",
    "not-web": "not N@web",
}


def minion_id(index: int) -> str:
    """Return the id of the minion with this index."""
    return f"minion-{FIRST + index:05d}"


def pillar(index: int) -> dict[str, Any]:
    """Return a pillar with values of its own, of a group, and of all."""
    return {
        "app": {"port": 8000 + index % 3, "owner": minion_id(index), "tags": ["a", "b"] if index % 2 else ["c"]},
        "tier": ["gold", "silver", "bronze"][index % 3],
        "nested": {"deep": {"deeper": {"flag": index % 4 == 0}}},
        "note": "a|b:c" if index % 5 == 0 else "plain",
    }


GLOBS = [
    "*",
    "minion-*",
    "minion-0010?",
    "minion-001[0-1]*",
    "minion-00100",
    "minion-00100,minion-00101",
    "",
    "nobody",
    "[",
    "MINION-*",
    "*7",
    "minion-001[!0]*",
]
LISTS = [
    "minion-00100",
    "minion-00100,minion-00123",
    "minion-00100, minion-00101",
    "nobody,minion-00110",
    "",
    ",",
    ["minion-00102", "minion-00104"],
    [],
    ["nobody", 3],
]
PCRES = ["minion-.*", "minion-001(0[0-5]|2.)$", ".*7$", "^$", "(", "minion", "0010", "(?i)MINION-00100", ""]
GRAINS = [
    "os:Debian",
    "os:*",
    "os:Deb*",
    "os_family:RedHat",
    "role:web",
    "role:[wd]*",
    "site:north",
    "id:minion-0010*",
    "ipv4:10.16.0.101",
    "ipv4:10.*",
    "osmajorrelease:12",
    "osrelease_info:24",
    "saltversioninfo:*",
    "systemd:version:25*",
    "systemd:*",
    "ip4_interfaces:eth0:10.16.0.1*",
    "ip4_interfaces:*:127.0.0.1",
    "hwaddr_interfaces:eth0:52:54:00:00:00:64",
    "*:Debian",
    "efi-secure-boot:False",
    "num_cpus:4",
    "no_such:thing",
    "os",
    "",
    ":",
    "os:",
    ":Debian",
    "selinux:enabled:True",
    "gpus:vendor:unknown",
]
GRAIN_PCRES = [
    "os:^(Debian|Rocky)$",
    "os:D.*",
    "role:(web|db)",
    "id:minion-001.*0$",
    "fqdn:.*fleet\\.example",
    "osrelease:\\d+\\.\\d+",
    "ipv4:10\\.16\\.0\\.1[01].*",
    "os",
    "os:(",
    "kernel:linux",
    "systemd:version:25[0-9]",
    "*:Rocky",
]
PILLARS = [
    "tier:gold",
    "tier:*",
    "app:port:8001",
    "app:port:80*",
    "app:tags:a",
    "app:owner:minion-0010*",
    "nested:deep:deeper:flag:True",
    "nested:*",
    "nested:deep:*:flag:True",
    "note:a|b:c",
    "no:such",
    "tier",
    "",
    "app:*",
]
IPS = [
    "10.16.0.101",
    "10.16.0.0/25",
    "10.0.0.0/8",
    "192.168.0.0/16",
    "127.0.0.1",
    "::1",
    "fe80::/10",
    "nonsense",
    "10.16.0.1/8",
    "0.0.0.0/0",
]
TERMS = [
    "minion-0010*",
    "G@role:web",
    "G@os:Debian",
    "P@os:(Debian|Rocky)",
    "I@tier:gold",
    "J@app:port:800[01]",
    "L@minion-00101,minion-00107,minion-00111",
    "E@minion-001.[02468]",
    "S@10.16.0.96/28",
    "M@minion-00105",
    "N@north",
]
ODD_COMPOUNDS = [
    "",
    "and G@os:Debian",
    "( and )",
    "not not G@os:Debian",
    "G@os:Debian and",
    "X@unknown",
    "G|@role|web",
    "I|@tier|gold and G@site:*",
    "T@vcf_host",
    "N@no-such-group",
    "minion-00101 or ( minion-00102 and not ( G@role:web or I@tier:* ) )",
    ["G@role:web", "or", "minion-00100"],
    ["(", "minion-00100", "or", "minion-00101", ")"],
    [],
]


def compounds() -> list[Any]:
    """Return compound targets: all pairs of terms with the three ways to join them, and some deeper ones."""
    pairs = list(itertools.combinations(TERMS, 2))
    joins = ["{0} and {1}", "{0} or {1}", "{0} and not {1}", "not {0} or ( {1} and not {0} )"]
    joined = [joins[number % len(joins)].format(*pair) for number, pair in enumerate(pairs)]
    deep = [
        f"( {a} or {b} ) and not ( {b} and ( {c} or not {a} ) )" for a, b, c in itertools.combinations(TERMS[:7], 3)
    ]
    return [*TERMS, *joined, *deep, *ODD_COMPOUNDS]


TARGETS = [
    *(Target(expression, "glob") for expression in GLOBS),
    *(Target(expression, "list") for expression in LISTS),
    *(Target(expression, "pcre") for expression in PCRES),
    *(Target(expression, "grain") for expression in GRAINS),
    *(Target(expression, "grain_pcre") for expression in GRAIN_PCRES),
    *(Target(expression, kind) for expression in PILLARS for kind in ("pillar", "pillar_pcre", "pillar_exact")),
    *(Target(expression, "ipcidr") for expression in IPS),
    *(Target(expression, "compound") for expression in compounds()),
    *(Target(salt.utils.minions.nodegroup_comp(name, NODEGROUPS), "compound") for name in NODEGROUPS),
    Target("os|Debian", "grain", "|"),
    Target("app|port|8001", "pillar", "|"),
    Target("note|a*", "pillar", "|"),
    Target("role/(web|db)", "grain_pcre", "/"),
    Target("anything", "no_such_type"),
    Target("web", "nodegroup"),
    Target(None, "glob"),
    Target(7, "list"),
]


def salt_matches(matchers: Any, target: Target) -> bool:
    """Return whether a minion would run a publication; source: Minion._target_load in salt/minion.py."""
    function = matchers.get(f"{target.kind}_match.match", None)
    if function is None:
        return False
    try:
        if target.kind in ("grain", "grain_pcre", "pillar"):
            return bool(function(target.expression, delimiter=target.delimiter))
        return bool(function(target.expression))
    except Exception:  # noqa: BLE001 - what raises in a real minion runs no job
        return False


@pytest.fixture(scope="module")
def factory() -> GrainsFactory:
    """Return the grains of the fleet."""
    return GrainsFactory(load_template(), 1, "127.0.0.1")


@pytest.fixture(scope="module")
def yardstick(factory: GrainsFactory) -> dict[str, list[str]]:
    """Return, by target, the minions that Salt's own matchers pick.

    One minion after the other: the modules of Salt's loader belong to the minion that was loaded last.
    """
    chosen: dict[str, list[str]] = {repr(target): [] for target in TARGETS}
    for index in range(COUNT):
        opts = salt.config.minion_config(None)
        grains = factory.build(minion_id(index), FIRST + index)
        opts.update(id=minion_id(index), grains=grains, pillar=pillar(index), resources={})
        matchers = salt.loader.matchers(opts)
        for target in TARGETS:
            if salt_matches(matchers, target):
                chosen[repr(target)].append(minion_id(index))
    return chosen


@pytest.fixture(scope="module")
def pillars() -> PillarStore:
    """Return the pillars of the fleet."""
    store = PillarStore(COUNT)
    for index in range(COUNT):
        store.put(index, pillar(index))
    return store


@pytest.fixture(scope="module")
def targets(factory: GrainsFactory, pillars: PillarStore) -> Targets:
    """Return the fleet as targets see it."""
    return Targets([minion_id(index) for index in range(COUNT)], FIRST, factory, pillars)


def picked(targets: Targets, target: Target) -> list[str]:
    """Return the ids that the fleet picks."""
    return [minion_id(index) for index, hit in enumerate(targets.select(target)) if hit]


def test_enough_targets() -> None:
    """There are at least 200 different targets, of every type."""
    assert len({repr(target) for target in TARGETS}) >= 200
    assert {target.kind for target in TARGETS} >= {
        "compound",
        "glob",
        "grain",
        "grain_pcre",
        "ipcidr",
        "list",
        "pcre",
        "pillar",
        "pillar_exact",
        "pillar_pcre",
    }


@pytest.mark.parametrize("target", TARGETS, ids=repr)
def test_same_as_salt(target: Target, targets: Targets, yardstick: dict[str, list[str]]) -> None:
    """The fleet picks the minions that Salt's matchers pick."""
    assert picked(targets, target) == yardstick[repr(target)]


def test_targets_tell_minions_apart(targets: Targets) -> None:
    """The generated targets aren't all or nothing: most pick some minions and leave others."""
    sizes = [len(picked(targets, target)) for target in TARGETS]
    assert sum(0 < size < COUNT for size in sizes) > len(TARGETS) // 3


def test_cache_follows_pillars(factory: GrainsFactory) -> None:
    """A target that asks for pillars is matched anew once a pillar has changed."""
    store = PillarStore(2)
    fleet = Targets(["minion-00100", "minion-00101"], FIRST, factory, store)
    target = Target("tier:gold", "pillar")
    before = fleet.select(target)
    store.put(1, {"tier": "gold"})
    assert (before, fleet.select(target)) == (b"\0\0", b"\0\1")


def test_target_of_a_load() -> None:
    """What a load leaves out has Salt's defaults."""
    assert target_of({"tgt": "*"}) == Target("*", "glob", ":")
    assert target_of({"tgt": "a|b", "tgt_type": "grain", "delimiter": "|"}) == Target("a|b", "grain", "|")


def test_matchers_of_this_salt_are_all_there() -> None:
    """No matcher of Salt's that a publication could name is missing here."""
    folder = Path(salt.loader.__file__).parent.parent / "matchers"
    found = {path.stem.removesuffix("_match") for path in folder.glob("*_match.py")}
    # these have no `match` function, need a data store of the minion, or are for states only
    assert found - {"cache", "compound_pillar_exact", "data", "nodegroup"} == {
        "compound",
        "glob",
        "grain",
        "grain_pcre",
        "ipcidr",
        "list",
        "managing_minion",
        "pcre",
        "pillar",
        "pillar_exact",
        "pillar_pcre",
        "range",
        "resource",
    }
