"""Workers of other hosts that share in a load, as its user asks for them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import SettingsError
from harness.load.wire import PORT, address_of
from harness.scenarios.clients import OVER_API

if TYPE_CHECKING:
    import argparse

    from harness.scenarios.scenario import Scenario

NAMES = ("remote_workers", "workers_address", "workers_key")


@dataclass(frozen=True)
class Remote:
    """Workers of other hosts: how many, where they find the bed, and the word that lets them in."""

    workers: int
    address: str
    port: int = PORT
    key: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def told(self) -> str:
        """Return what has to be done on the other hosts."""
        several = "s" if self.workers > 1 else ""
        return (
            f"{self.workers} worker{several} of other hosts may join. On each, in a checkout of the same version: "
            f"build/venv/bin/python -m harness worker {self.address}:{self.port} --key {self.key}"
        )

    def check(self, scenario: Scenario) -> None:
        """Raise SettingsError if a scenario has clients that can be at work on the master's machine only."""
        names = [f"`{clients.name}` ({clients.kind})" for clients in scenario.clients if clients.kind not in OVER_API]
        if names:
            raise SettingsError(
                f"Workers of other hosts reach salt-api only, and the clients {', '.join(names)} run Salt's own "
                "commands: leave them out of the scenario, or --remote-workers."
            )


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("workers of other hosts (docs/bed.md)")
    group.add_argument(
        "--remote-workers", type=int, metavar="N", help="so many workers of other hosts send a part of the requests too"
    )
    group.add_argument(
        "--workers-address", metavar="IP[:PORT]", help=f"where they reach this machine (default port: {PORT})"
    )
    group.add_argument("--workers-key", metavar="TEXT", help="the word that lets them in (default: a random one)")


def settings(options: argparse.Namespace) -> Remote | None:
    """Return which workers of other hosts are asked for, None for none.

    Raises SettingsError for options that need others, or a number that makes no sense.
    """
    given = [name for name in NAMES if getattr(options, name) is not None]
    if not given:
        return None
    if options.remote_workers is None or options.workers_address is None:
        raise SettingsError("--remote-workers and --workers-address belong together: give both.")
    if options.remote_workers < 1:
        raise SettingsError("--remote-workers has to be at least 1.")
    if options.docker:
        raise SettingsError("--remote-workers and --docker exclude each other: leave one out.")
    host, port = address_of(options.workers_address)
    key = {"key": options.workers_key} if options.workers_key else {}
    return Remote(options.remote_workers, host, port, **key)


def words(options: argparse.Namespace) -> list[str]:
    """Return these options as words of a command line; a random key is another one the next time."""
    found = []
    for name in NAMES:
        if getattr(options, name) is not None:
            found += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return found
