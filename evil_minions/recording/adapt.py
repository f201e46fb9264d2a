"""Adapting: what identifies the recorded minion becomes what identifies each simulated one.

A recorded value is cut once into pieces of JSON, with slots between them where something identifies the minion. For a
simulated minion only the slots are filled and the text is read again: a tenth of a millisecond for a highstate of 20
states.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_UUID: Final = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_LEFT, _RIGHT = "\ue000", "\ue001"
_MARK: Final = re.compile(f'"{_LEFT}#([^{_RIGHT}]+){_RIGHT}"|{_LEFT}([^{_RIGHT}]+){_RIGHT}')
_NAMES: Final = ("id", "host", "fqdn", "nodename", "localhost", "machine_id", "server_id", "uuid", "serialnumber")
_SHORTEST: Final = 2
_COMMON: Final = frozenset({"localhost", "None", "Not Specified", "unknown", "00000000-0000-0000-0000-000000000000"})
# what a second address of a host becomes: shared address space, which no simulated minion has otherwise
_SPARE_NET: Final = int(ipaddress.IPv4Address("100.64.0.0"))
_SPARE_HOSTS: Final = 2**22
JID: Final = "jid"


def _mac(grains: Mapping[str, Any]) -> list[str]:
    """Return the hardware addresses of a minion, the first real one first."""
    found = grains.get("hwaddr_interfaces") or {}
    return [address for address in found.values() if address.strip("0:")]


def _addresses(grains: Mapping[str, Any], version: int) -> list[str]:
    """Return the addresses of a minion that other hosts can reach."""
    preferred = grains.get(f"fqdn_ip{version}") or []
    found = [str(address) for address in (*preferred, *(grains.get(f"ipv{version}") or []))]
    return [address for address in dict.fromkeys(found) if not ipaddress.ip_address(address).is_loopback]


_LISTS: Final[dict[str, Callable[[Mapping[str, Any]], list[str]]]] = {
    "mac": _mac,
    "ipv4": lambda grains: _addresses(grains, 4),
    "ipv6": lambda grains: _addresses(grains, 6),
}


def identity(grains: Mapping[str, Any]) -> dict[str, str]:
    """Return what identifies a minion: the name of a slot for each text, which `own` turns into another's text."""
    slots: dict[str, str] = {}
    for name, addresses in _LISTS.items():
        for number, address in enumerate(addresses(grains)):
            slots.setdefault(address, f"{name}|{address}" if number else name)
    for name in _NAMES:
        text = str(grains.get(name) or "")
        if len(text) >= _SHORTEST and text not in _COMMON:
            slots.setdefault(text, name)
    return slots


def own(grains: Mapping[str, Any], jid: str) -> Callable[[str], str]:
    """Return what fills a slot for the minion with these grains in the job `jid`."""
    minion = str(grains["id"])

    def fill(slot: str) -> str:
        name, _, original = slot.partition("|")
        if name == JID:
            return jid
        if name in _LISTS:
            found = [] if original else _LISTS[name](grains)
            return found[0] if found else _derived(name, f"{minion}\0{original}")
        value = None if original else grains.get(name)
        return str(value) if value else _derived(name, f"{minion}\0{original}")

    return fill


def _derived(name: str, source: str) -> str:
    """Return a further address or UUID of a minion: always the same for the same minion and recorded one."""
    digest = hashlib.blake2b(source.encode(), digest_size=16).digest()
    if name == "ipv4":
        return str(ipaddress.IPv4Address(_SPARE_NET + int.from_bytes(digest[:4], "big") % _SPARE_HOSTS))
    if name == "ipv6":
        return str(ipaddress.IPv6Address(b"\xfd" + digest[1:]))
    if name == "mac":
        return "52:54:01:" + ":".join(f"{byte:02x}" for byte in digest[:3])
    return str(uuid.UUID(bytes=digest, version=4))


class Adapter:
    """Takes recorded values apart; one for a recorded minion."""

    def __init__(self, grains: Mapping[str, Any]) -> None:
        """Find the recorded minion's identity in its grains."""
        self._slots = identity(grains)
        texts = sorted(self._slots, key=len, reverse=True)
        pattern = "|".join([*map(re.escape, texts), _UUID])
        self._pattern = re.compile(rf"(?<![0-9A-Za-z])(?:{pattern})(?![0-9A-Za-z])")
        server = grains.get("server_id")
        self._server = server if isinstance(server, int) and server > 1 else None

    def _marked(self, value: Any, jid: str) -> Any:
        """Return a value with marks where identities are."""
        if isinstance(value, dict):
            return {self._marked(key, jid): self._marked(child, jid) for key, child in value.items()}
        if isinstance(value, list):
            return [self._marked(child, jid) for child in value]
        if isinstance(value, str):
            text = self._pattern.sub(self._place, value)
            return text.replace(jid, f"{_LEFT}{JID}{_RIGHT}") if jid else text
        if self._server is not None and value == self._server:
            return f"{_LEFT}#server_id{_RIGHT}"
        return value

    def _place(self, found: re.Match[str]) -> str:
        """Return the mark of one identity."""
        text = found.group()
        if text in _COMMON:
            return text
        return f"{_LEFT}{self._slots.get(text, f'uuid|{text}')}{_RIGHT}"

    def template(self, value: Any, jid: str = "") -> Template:
        """Take a value apart; `jid` is that of the job that it belongs to."""
        text = json.dumps(self._marked(value, jid), ensure_ascii=False)
        pieces: list[str] = []
        slots: list[str] = []
        end = 0
        for mark in _MARK.finditer(text):
            pieces.append(text[end : mark.start()])
            slots.append(mark.group(1) or mark.group(2))
            end = mark.end()
        return Template((*pieces, text[end:]), tuple(slots))


class Template:
    """A recorded value with slots for identities."""

    __slots__ = ("_pieces", "_slots")

    def __init__(self, pieces: tuple[str, ...], slots: tuple[str, ...]) -> None:
        """Take the pieces of JSON, and the slots between them."""
        self._pieces = pieces
        self._slots = slots

    def fill(self, identity_of: Callable[[str], str]) -> Any:
        """Return a new value for one minion."""
        known: dict[str, str] = {}
        text = [self._pieces[0]]
        for slot, piece in zip(self._slots, self._pieces[1:], strict=True):
            if slot not in known:
                known[slot] = json.dumps(identity_of(slot))[1:-1]
            text += (known[slot], piece)
        return json.loads("".join(text))
