"""Free ports on the loopback interface, reserved for one bed.

A port that is free now may be taken before its server binds it, by another bed that looks at the same moment or by an
outgoing connection. So ports come from below the range that the kernel gives to connections, and each one is reserved
through an abstract Unix socket of its number: only one bed can hold it, and the kernel drops it with the process,
however that ends.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import SettingsError, StartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

HOST = "127.0.0.1"
FIRST, LAST = 20_000, 29_999
# of the kernel: its sockets, the state of those that listen, and an address as it stands there
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENS = "0A"
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def as_listed(host: str) -> str:
    """Return an address as it stands in the kernel's tables."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}"


def is_free(port: int) -> bool:
    """Say whether a server could listen on this port of the loopback interface now."""
    with socket.socket() as probe:
        # as servers do: connections of an earlier server that linger do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def listens(family: socket.AddressFamily, address: tuple[str, int] | str) -> bool:
    """Say whether a server takes connections at a port or a Unix socket."""
    with socket.socket(family) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(address) == 0


def is_ours(port: int, uid: int | None = None, host: str = HOST) -> bool:
    """Say whether a server of this user, or of `uid`, listens at a port of an address of the loopback interface.

    A port is reserved among beds only: another user of the machine may take it before the bed's server does, and would
    be told passwords, or followed by minions.

    Raises:
        SettingsError: if that is so.
    """
    owners = {owner for table in TABLES if table.exists() for owner in _owners(table, port, host)}
    wanted = os.geteuid() if uid is None else uid
    if owners - {wanted}:
        raise SettingsError(
            f"Port {port} on {host} was taken by a server of another user (number {min(owners - {wanted})}) before the "
            "bed could use it: see what that user runs, and start the bed again."
        )
    return bool(owners)


def _owners(table: Path, port: int, host: str) -> Iterator[int]:
    """Yield the users whose servers listen at a port, by one of the kernel's tables of sockets."""
    wanted = as_listed(host)
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        _, local, _, state, _, _, _, owner, *_ = line.split()
        address, _, number = local.partition(":")
        if state == LISTENS and int(number, 16) == port and (address.endswith(wanted) or not int(address, 16)):
            yield int(owner)


def candidates(outgoing: tuple[int, int]) -> Sequence[int]:
    """Return the ports to choose from, given the kernel's range for outgoing connections."""
    low, high = outgoing
    return [port for port in range(FIRST, LAST + 1) if not low <= port <= high] or range(FIRST, LAST + 1)


class Ports(AbstractContextManager["Ports"]):
    """The ports of one bed; a context manager that gives its reservations back."""

    def __init__(self, random: Random) -> None:
        """Choose by `random`, so that beds that start together rarely ask for the same port."""
        self._random = random
        self._reservations: list[socket.socket] = []

    def __exit__(self, *_error: object) -> None:
        """Give the reservations back."""
        for reservation in self._reservations:
            reservation.close()
        self._reservations.clear()

    def take(self, purpose: str, wanted: int | None = None) -> int:
        """Return a port that is free and now reserved: `wanted`, or one of the bed's choice.

        Raises:
            SettingsError: if the wanted one is taken.
            StartError: if there is no free one.
        """
        if wanted is not None:
            if self._reserve(wanted):
                return wanted
            raise SettingsError(
                f"Port {wanted} on {HOST}, asked for as the {purpose} port, is taken: stop the server that has it, "
                "or leave the port out and let the bed choose."
            )
        low, high = map(int, OUTGOING.read_text().split())
        ports = candidates((low, high))
        start = self._random.randrange(len(ports))
        for port in [*ports[start:], *ports[:start]]:
            if self._reserve(port):
                return port
        raise StartError(f"No port between {FIRST} and {LAST} on {HOST} is free for the {purpose}: stop other servers.")

    def _reserve(self, port: int) -> bool:
        """Reserve one port, unless a bed has reserved it or a server listens there."""
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0saltbed-port-{port}")
        except OSError:
            reservation.close()
            return False
        if not is_free(port):
            reservation.close()
            return False
        self._reservations.append(reservation)
        return True
