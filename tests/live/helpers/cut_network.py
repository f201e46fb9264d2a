"""A network of its own for minions, with a router between them and the master that can stop forwarding at any moment.

What is cut then vanishes as a machine does that loses its power: no FIN, no RST, no complaint of a neighbour.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class CutNetwork:
    """The network: the master's address in it, the minions', and the names of the two namespaces."""

    master: str
    minions: str
    router: str
    far: str

    def inside(self) -> list[str]:
        """Return the start of a command line that runs where the minions are."""
        return ["ip", "netns", "exec", self.far]

    def cut(self) -> None:
        """Let the router drop everything from now on."""
        _run("ip", "netns", "exec", self.router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=0")

    def mend(self) -> None:
        """Let the router forward again."""
        _run("ip", "netns", "exec", self.router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")


@contextmanager
def cut_network() -> Iterator[CutNetwork]:
    """Make the network, in the range that is kept for benchmarks of networks; needs root."""
    number = os.getpid() % 250
    near, first, second, far = (f"198.18.{number}.{host}" for host in (1, 2, 5, 6))
    router, minions = f"sb{number}r", f"sb{number}m"
    with ExitStack() as stack:
        for name in (router, minions):
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "delete", name)
        _run("ip", "link", "add", f"sb{number}a", "type", "veth", "peer", "name", "near", "netns", router)
        # it would go with the namespace of its peer, but some time after
        stack.callback(_run, "ip", "link", "delete", f"sb{number}a")
        _run("ip", "address", "add", f"{near}/30", "dev", f"sb{number}a")
        _run("ip", "link", "set", f"sb{number}a", "up")
        _run("ip", "-n", router, "link", "add", "far", "type", "veth", "peer", "name", "eth0", "netns", minions)
        for namespace, address, device in ((router, first, "near"), (router, second, "far"), (minions, far, "eth0")):
            _run("ip", "-n", namespace, "address", "add", f"{address}/30", "dev", device)
            _run("ip", "-n", namespace, "link", "set", device, "up")
        _run("ip", "-n", minions, "link", "set", "lo", "up")
        _run("ip", "netns", "exec", router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        _run("ip", "route", "add", f"{far}/32", "via", first)
        _run("ip", "-n", minions, "route", "add", "default", "via", second)
        yield CutNetwork(near, far, router, minions)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=30)
