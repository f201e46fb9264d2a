"""The module `network`: addresses, as the grains have them."""

from __future__ import annotations

import ipaddress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from evil_minions.functions import CURRENT, Function

if TYPE_CHECKING:
    from collections.abc import Callable

_ORIGIN: Final = "salt.modules.network"
_PREFIX, _PREFIX6 = 24, 64


def _of(interface: Any, version: int, *, loopback: bool) -> list[str]:
    found = CURRENT.get().host.grains()[f"ip{version}_interfaces"]
    names = list(found) if interface is None else [interface] if isinstance(interface, str) else list(interface)
    addresses = {
        address
        for name, each in found.items()
        if any(fnmatchcase(name, wanted) for wanted in names)
        for address in each
        if loopback or not ipaddress.ip_address(address).is_loopback
    }
    return sorted(addresses)


def ip_addrs(
    interface: Any = None, include_loopback: bool = False, cidr: str | None = None, type: str | None = None
) -> list[str]:
    """Return the IPv4 addresses."""
    found = [ipaddress.ip_address(text) for text in _of(interface, 4, loopback=include_loopback)]
    if cidr:
        return [str(address) for address in found if address in ipaddress.ip_network(cidr, strict=False)]
    if type in {"public", "private"}:
        return [str(address) for address in found if address.is_private == (type == "private")]
    return [str(address) for address in found]


def ip_addrs6(interface: Any = None, include_loopback: bool = False, cidr: str | None = None) -> list[str]:
    """Return the IPv6 addresses."""
    found = _of(interface, 6, loopback=include_loopback)
    net = ipaddress.ip_network(cidr, strict=False) if cidr else None
    return [text for text in found if net is None or ipaddress.ip_address(text) in net]


def interfaces() -> dict[str, dict[str, Any]]:
    """Return the interfaces with all their addresses."""
    grains = CURRENT.get().host.grains()
    found: dict[str, dict[str, Any]] = {}
    for name, hardware in grains["hwaddr_interfaces"].items():
        entry: dict[str, Any] = {"up": True, "hwaddr": hardware}
        four = [_inet(name, text) for text in grains["ip4_interfaces"].get(name, ())]
        six = [_inet6(text) for text in grains["ip6_interfaces"].get(name, ())]
        found[name] = entry | ({"inet": four} if four else {}) | ({"inet6": six} if six else {})
    return found


def _inet(name: str, text: str) -> dict[str, Any]:
    """Return an IPv4 address as Salt reads it from `ip addr`."""
    local = ipaddress.ip_address(text).is_loopback
    net = ipaddress.IPv4Network((text, 8 if local else _PREFIX), strict=False)
    broadcast = None if local else str(net.broadcast_address)
    return {"address": text, "netmask": str(net.netmask), "broadcast": broadcast, "label": name}


def _inet6(text: str) -> dict[str, Any]:
    """Return an IPv6 address as Salt reads it from `ip addr`."""
    address = ipaddress.IPv6Address(text)
    scope = "host" if address.is_loopback else "link" if address.is_link_local else "global"
    return {"address": text, "prefixlen": "128" if address.is_loopback else str(_PREFIX6), "scope": scope}


def subnets(interfaces: Any = None) -> list[str]:
    """Return the IPv4 networks that the host belongs to."""
    nets = {ipaddress.ip_network((text, _PREFIX), strict=False) for text in _of(interfaces, 4, loopback=False)}
    return [str(net) for net in sorted(nets)]


def hw_addr(iface: str) -> str:
    """Return the hardware address of an interface."""
    found = CURRENT.get().host.grains()["hwaddr_interfaces"]
    unknown = f'Interface "{iface}" not in available interfaces: "{", ".join(found)}"'
    return str(found.get(iface, unknown))


def get_hostname() -> str:
    """Return the name of the host."""
    return str(CURRENT.get().host.grains()["host"])


def get_fqdn() -> str:
    """Return the full name of the host."""
    return str(CURRENT.get().host.grains()["fqdn"])


_CALLS: Final[dict[str, Callable[..., Any]]] = {
    "ip_addrs": ip_addrs,
    "ipaddrs": ip_addrs,
    "ip_addrs6": ip_addrs6,
    "ipaddrs6": ip_addrs6,
    "interfaces": interfaces,
    "subnets": subnets,
    "hw_addr": hw_addr,
    "hwaddr": hw_addr,
    "get_hostname": get_hostname,
    "get_fqdn": get_fqdn,
}
FUNCTIONS: Final = {
    f"network.{name}": Function(call, f"{_ORIGIN}:{name}", seconds=0.03) for name, call in _CALLS.items()
}
