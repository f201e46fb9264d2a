"""Grains: one template, thousands of minions that differ where they must."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import salt.payload

from evil_minions.errors import UsageError
from evil_minions.inventory import GrainsFactory, address, load_template

if TYPE_CHECKING:
    from pathlib import Path

FLEET = 2000


@pytest.fixture(scope="module")
def factory() -> GrainsFactory:
    """Return the grains of the built-in template."""
    return GrainsFactory(load_template(), 1, "127.0.0.1")


def test_unique(factory: GrainsFactory) -> None:
    """What identifies a machine is unique in the fleet."""
    fleet = [factory.build(f"minion-{number:05d}", number) for number in range(FLEET)]
    for name in ("id", "fqdn", "host", "machine_id", "uuid", "server_id", "serialnumber"):
        assert len({grains[name] for grains in fleet}) == FLEET, name
    assert len({grains["hwaddr_interfaces"]["eth0"] for grains in fleet}) == FLEET
    assert len({grains["ipv4"][0] for grains in fleet}) == FLEET


def test_shares(factory: GrainsFactory) -> None:
    """Operating systems, roles and sites come in the template's shares."""
    fleet = [factory.build(f"minion-{number:05d}", number) for number in range(FLEET)]
    systems = Counter(grains["os"] for grains in fleet)
    roles = Counter(grains["role"] for grains in fleet)
    assert [name for name, _ in systems.most_common()] == ["Debian", "Ubuntu", "Rocky", "SUSE"]
    assert 0.40 < systems["Debian"] / FLEET < 0.50
    assert 0.35 < roles["web"] / FLEET < 0.45
    assert {grains["site"] for grains in fleet} == {"north", "south", "east", "west"}


def test_seed(factory: GrainsFactory) -> None:
    """The same seed gives the same grains, another one other choices."""
    again = GrainsFactory(load_template(), 1, "127.0.0.1")
    other = GrainsFactory(load_template(), 2, "127.0.0.1")
    ids = [(f"minion-{number:05d}", number) for number in range(50)]
    assert [factory.build(*who) for who in ids] == [again.build(*who) for who in ids]
    assert [factory.build(*who)["role"] for who in ids] != [other.build(*who)["role"] for who in ids]


def test_size(factory: GrainsFactory) -> None:
    """The grains are as large as those of a real minion: about four kilobytes packed, eighty names."""
    grains = factory.build("minion-00001", 1)
    assert 4000 < len(salt.payload.dumps(grains)) < 12000
    assert len(grains) > 80


def test_own_grains_are_those_that_differ(factory: GrainsFactory) -> None:
    """Grains outside of `own` are equal within a family, so that targets may be matched by family."""
    first, *others = [
        (f"minion-{number:05d}", number) for number in range(50) if not factory.family(f"minion-{number:05d}")
    ]
    one = factory.build(*first)
    for who in others:
        another = factory.build(*who)
        assert {name for name in one if one[name] != another.get(name)} <= factory.own


def test_what_is_shared_is_shared(factory: GrainsFactory) -> None:
    """Large values exist once, however many minions have them."""
    assert factory.build("minion-1", 1)["cpu_flags"] is factory.build("minion-2", 2)["cpu_flags"]


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "10.16.0.1"), (253, "10.16.0.254"), (254, "10.16.1.1"), (70_000, "10.17.19.151")]
)
def test_addresses(number: int, expected: str) -> None:
    """Addresses are private, in order, and never end in 0 or 255."""
    assert str(address(number)) == expected


def test_domain_in_the_id(factory: GrainsFactory) -> None:
    """An id with dots is a full name."""
    grains = factory.build("web1.example.org", 1)
    assert (grains["host"], grains["domain"], grains["fqdn"]) == ("web1", "example.org", "web1.example.org")


def test_another_template(tmp_path: Path) -> None:
    """What `salt-call --local grains.items --out=json` prints is a template, and no grain is made up beside it."""
    file = tmp_path / "grains.json"
    file.write_text(json.dumps({"local": {"os": "Gentoo", "id": "x", "kernel": "Linux"}}))
    factory = GrainsFactory(load_template(file), 1, "127.0.0.1")
    grains = factory.build("minion-1", 1)
    assert (grains["os"], grains["id"]) == ("Gentoo", "minion-1")
    assert not {"uuid", "role", "site"} & set(grains)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 1, "common": {}, "families": 3}'])
def test_template_of_nonsense(tmp_path: Path, text: str) -> None:
    """A file that isn't a template is a usage error that names an example."""
    file = tmp_path / "grains.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"take .*grains\.json as an example"):
        load_template(file)


def test_missing_template(tmp_path: Path) -> None:
    """A file that isn't there is a usage error."""
    with pytest.raises(UsageError, match="can't be read"):
        load_template(tmp_path / "nosuch.json")
