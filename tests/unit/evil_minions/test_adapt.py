"""Adapting: a recorded value becomes each minion's own."""

from __future__ import annotations

import pytest

from evil_minions.inventory import GrainsFactory, template_of
from evil_minions.recording import adapt

GRAINS = {
    "id": "web1.example.com",
    "host": "web1",
    "fqdn": "web1.example.com",
    "nodename": "web1",
    "localhost": "web1",
    "machine_id": "3d1219c7c4c5404aaa1f6d2a48adfda4",
    "server_id": 1498705111,
    "uuid": "11111111-2222-4333-8444-555555555555",
    "ipv4": ["127.0.0.1", "10.1.2.3", "172.17.0.1"],
    "ipv6": ["::1", "fd00::2"],
    "fqdn_ip4": ["10.1.2.3"],
    "hwaddr_interfaces": {"lo": "00:00:00:00:00:00", "eth0": "02:fc:00:00:00:01"},
}
JID = "20261121100000000000"
OWN = GrainsFactory(template_of(GRAINS), 1, "127.0.0.1").build("minion-00005", 5)


def adapted(value: object, minion: int = 5) -> object:
    """Return a value as one minion returns it."""
    grains = GrainsFactory(template_of(GRAINS), 1, "127.0.0.1").build(f"minion-{minion:05d}", minion)
    return adapt.Adapter(GRAINS).template(value, JID).fill(adapt.own(grains, "20990101000000000000"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("web1.example.com", "minion-00005"),
        ("on web1: web1.", "on minion-00005: minion-00005."),
        ("web10 xweb1 web1x", "web10 xweb1 web1x"),
        ("a\nweb1\tb\\web1", "a\nminion-00005\tb\\minion-00005"),
        ("10.1.2.3/24 110.1.2.3 10.1.2.34 127.0.0.1", "10.16.0.6/24 110.1.2.3 10.1.2.34 127.0.0.1"),
        ("server 1498705111", f"server {OWN['server_id']}"),
        (["3d1219c7c4c5404aaa1f6d2a48adfda4", None, True, 1.5, 1], [OWN["machine_id"], None, True, 1.5, 1]),
        ({"web1": {"uuid": GRAINS["uuid"]}}, {"minion-00005": {"uuid": OWN["uuid"]}}),
        ("02:fc:00:00:00:01", OWN["hwaddr_interfaces"]["eth0"]),
        (f"salt/job/{JID}/prog/web1.example.com/0", "salt/job/20990101000000000000/prog/minion-00005/0"),
        ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"),
        ('quote " and ü', 'quote " and ü'),
        ({}, {}),
    ],
)
def test_identities_are_the_minions_own(value: object, expected: object) -> None:
    """Names, addresses, ids and job ids change wherever they stand alone, and nothing else does."""
    assert adapted(value) == expected


def test_numbers_stay_numbers() -> None:
    """A server id that was a number is a number again."""
    assert adapted({"server_id": 1498705111}) == {"server_id": OWN["server_id"]}


@pytest.mark.parametrize("value", ["172.17.0.1", "7c9e6679-7425-40de-944b-e07fc1f90ae7", "fd00::2"])
def test_other_identities_are_derived(value: str) -> None:
    """Further addresses and UUIDs differ from minion to minion, always in the same way."""
    assert adapted(value, 1) == adapted(value, 1) != adapted(value, 2)
    assert adapted(value, 1) != value


def test_minions_share_nothing() -> None:
    """What one minion does to its value doesn't show in another's."""
    template = adapt.Adapter(GRAINS).template({"list": [1]})
    first = template.fill(adapt.own(OWN, ""))
    first["list"].append(2)
    assert template.fill(adapt.own(OWN, "")) == {"list": [1]}
