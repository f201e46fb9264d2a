"""What minions are: here their grains, thousands from one template; in `targets` their pillars and who is meant.

Nothing is held for a minion: its grains are the template of its operating system and a few values worked out from its
id and number, put together when somebody asks.

The grains of the systems themselves are long; they come from the package's template, and a file names them by their
`osfinger` or says how another system differs from one of them.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import UsageError
from evil_minions.tables import Table, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_TEMPLATE: Final = Path(__file__).parent.parent / "data" / "grains.json"
FORMAT: Final = 1
_HOSTS: Final = 254
_FIRST_NET: Final = 16
_SPECIMEN: Final = "specimen"
_REMOVED: Final = object()

Grains = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """Values with their shares, of which each minion gets one."""

    values: tuple[Any, ...]
    shares: tuple[int, ...]

    def pick(self, seed: int, name: str, minion_id: str) -> int:
        """Return the number of the value that a minion gets; the same for the same seed."""
        digest = hashlib.blake2b(f"{seed}\0{name}\0{minion_id}".encode(), digest_size=8).digest()
        point = int.from_bytes(digest, "big") % sum(self.shares)
        for number, share in enumerate(self.shares):
            if point < share:
                return number
            point -= share
        return 0


@dataclass(frozen=True, slots=True)
class Template:
    """Grains that minions share: some common to all, one set for each family, choices, and a DNS domain."""

    families: tuple[Grains, ...]
    family: Choice
    custom: tuple[tuple[str, Choice], ...]
    domain: str


def load_template(path: Path | None = None) -> Template:
    """Read a template file, or the one that comes with the package.

    A file is either in the format of `data/grains.json`, or what `salt-call --local grains.items --out=json` prints.

    Raises:
        UsageError: if the file can't be read as either.
    """
    source = path or DEFAULT_TEMPLATE
    try:
        data = json.loads(source.read_text())
        if data.get("format") == FORMAT:
            return _template(data)
        if list(data) == ["local"]:
            data = data["local"]
        return template_of(data)
    except OSError as error:
        raise UsageError(f"The grains file can't be read: {error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{source} is no grains file: take {DEFAULT_TEMPLATE} as an example.") from error


def template_of(grains: Grains) -> Template:
    """Return the template of minions that are like one."""
    return Template((grains,), Choice((0,), (1,)), (), "fleet.example")


def _template(data: Mapping[str, Any]) -> Template:
    families = tuple({**data["common"], **family["grains"]} for family in data["families"])
    shares = tuple(int(family["share"]) for family in data["families"])
    custom = tuple(
        (name, Choice(tuple(values), tuple(int(share) for share in values.values())))
        for name, values in data["custom"].items()
    )
    return Template(families, Choice(tuple(range(len(families))), shares), custom, str(data["domain"]))


def address(number: int) -> ipaddress.IPv4Address:
    """Return the private address of the minion with this number in its fleet: unique up to 15 million of them."""
    net, host = divmod(number, _HOSTS)
    return ipaddress.IPv4Address((10 << 24) + ((_FIRST_NET << 16) + (net << 8)) + host + 1)


class GrainsFactory:
    """Puts the grains of any minion together."""

    def __init__(self, template: Template, seed: int, master: str, connects_from: str | None = None) -> None:
        """Take a template, the seed of all choices, and the address of the master that minions report.

        `connects_from` is one that they report beside their own: a master calls a minion present whose grains have an
        address that is connected to it.
        """
        self._further = [connects_from] if connects_from else []
        self._template = template
        self._seed = seed
        self._master = master
        self.own: frozenset[str] = frozenset(self._overlay(_SPECIMEN, 0))
        self._set: dict[str, Grains] = {}
        # grows whenever a minion's grains change, so that match results can be cached
        self.version = 0

    def family(self, minion_id: str) -> int:
        """Return the number of the family of a minion: grains that are not `own` are equal within a family."""
        return self._template.family.pick(self._seed, "family", minion_id)

    def shared(self, family: int) -> Grains:
        """Return what the minions of a family have in common; don't change it."""
        return self._template.families[family]

    def build(self, minion_id: str, number: int) -> Grains:
        """Return all grains of a minion; the top level is a new dictionary, what is below is shared."""
        grains = {**self._template.families[self.family(minion_id)], **self._overlay(minion_id, number)}
        changes = self._set.get(minion_id)
        if changes is None:
            return grains
        return {name: value for name, value in {**grains, **changes}.items() if value is not _REMOVED}

    def change(self, minion_id: str, changes: Mapping[str, Any], removed: Iterable[str] = ()) -> None:
        """Set grains of one minion, as its grains file does, and remove others."""
        found = {**self._set.get(minion_id, {}), **changes, **dict.fromkeys(removed, _REMOVED)}
        self._set[minion_id] = found
        self.own |= frozenset(found)
        self.version += 1

    def _identity(self, digest: str) -> Grains:
        """Return what identifies hardware, for templates that say anything of it."""
        found = {
            "uuid": f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}",
            "serialnumber": digest[32:48],
        }
        return {name: value for name, value in found.items() if name in self._template.families[0]}

    def _overlay(self, minion_id: str, number: int) -> Grains:
        host = minion_id.partition(".")[0]
        domain = minion_id.partition(".")[2] or self._template.domain
        ip4 = str(address(number))
        mac = "52:54:00:" + ":".join(f"{byte:02x}" for byte in number.to_bytes(3, "big"))
        ip6 = f"fe80::5054:ff:fe{number >> 16 & 255:02x}:{number & 0xFFFF:x}"
        digest = hashlib.sha256(minion_id.encode()).hexdigest()
        overlay: Grains = {
            "id": minion_id,
            "master": self._master,
            "server_id": int(digest, 16) % 2**31,
            "machine_id": digest[:32],
            **self._identity(digest),
            "pid": 400 + int(digest[48:52], 16) % 4000,
            "localhost": host,
            "nodename": host,
            "host": host,
            "domain": domain,
            "fqdn": f"{host}.{domain}",
            "fqdns": [f"{host}.{domain}"],
            "fqdn_ip4": [ip4],
            "fqdn_ip6": [],
            "hwaddr_interfaces": {"lo": "00:00:00:00:00:00", "eth0": mac},
            "ip4_interfaces": {"lo": ["127.0.0.1"], "eth0": [ip4]},
            "ip6_interfaces": {"lo": ["::1"], "eth0": [ip6]},
            "ip_interfaces": {"lo": ["127.0.0.1", "::1"], "eth0": [ip4, ip6]},
            "ipv4": [ip4, "127.0.0.1", *self._further],
            "ipv6": ["::1", ip6],
        }
        for name, choice in self._template.custom:
            overlay[name] = choice.values[choice.pick(self._seed, name, minion_id)]
        return overlay


DEFAULT: Final = Path(__file__).parent.parent / "data" / "population.toml"
_MOST: Final = 1_000_000_000


def load_population(path: Path = DEFAULT) -> Template:
    """Return the template of grains that a population file describes.

    Raises:
        UsageError: if it can't be read, or makes no sense.
    """
    table = read_table(path).allow("format", "description", "domain", "systems", "grains")
    if table.count("format", FORMAT) != FORMAT:
        raise table.error("format", f"is {table.values['format']!r}, but has to be {FORMAT}")
    base = load_template()
    known = {str(family["osfinger"]): family for family in base.families}
    families, shares = _systems(table, known)
    grains = table.table("grains")
    custom = tuple((name, _choice(grains, name)) for name in grains)
    _some(table, "systems", shares)
    return Template(
        tuple(families),
        Choice(tuple(range(len(families))), tuple(shares)),
        custom,
        table.take("domain", str, base.domain),
    )


def _systems(table: Table, known: Mapping[str, Grains]) -> tuple[list[Grains], list[int]]:
    systems = table.table("systems")
    families, shares = [], []
    for name in systems:
        if not isinstance(systems.values[name], dict):
            families.append(_known(systems, name, name, known))
            shares.append(systems.count(name, high=_MOST))
            continue
        inner = systems.table(name).allow("share", "like", "grains")
        like = _known(inner, "like", inner.take("like", str), known)
        families.append({**like, "osfinger": name, **inner.take("grains", dict, {})})
        shares.append(inner.count("share", high=_MOST))
    return families, shares


def _known(table: Table, key: str, name: str, known: Mapping[str, Grains]) -> Grains:
    if name not in known:
        raise table.error(key, f"names no system of the package; there are {', '.join(known)}")
    return known[name]


def _choice(grains: Table, name: str) -> Choice:
    """Return the values of a grain with their shares: a table, or for other values than texts a list of tables."""
    values: list[Any] = []
    shares: list[int] = []
    if isinstance(grains.values[name], list):
        for inner in grains.tables(name):
            inner.allow("value", "share")
            if "value" not in inner:
                raise inner.error("value", "is missing: give it what the grain is to be")
            values.append(inner.values["value"])
            shares.append(inner.count("share", high=_MOST))
    else:
        inner = grains.table(name)
        values = list(inner)
        shares = [inner.count(value, high=_MOST) for value in inner]
    _some(grains, name, shares)
    return Choice(tuple(values), tuple(shares))


def _some(table: Table, key: str, shares: list[int]) -> None:
    """Raise UsageError unless somebody gets something."""
    if not sum(shares):
        raise table.error(key, "has no shares: give at least one more than 0")
