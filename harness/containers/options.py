"""The options of a load run in containers, on the command line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.containers.image import BASE
from harness.errors import SettingsError

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True)
class ContainerSettings:
    """How a bed of containers is made."""

    # the image that all containers are made on
    base: str = BASE
    # the number of containers with minions on each engine
    fleets: int = 1
    # further engines for minions, by address
    engines: tuple[str, ...] = ()
    # where these engines reach the machine of the first one; needed when there are any
    master_address: str = ""


NAMES = ("base", "fleets", "fleet_engine", "master_address")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("a bed of containers (docs/docker.md)")
    group.add_argument("--docker", action="store_true", help="make the bed of containers instead of processes")
    group.add_argument("--base", metavar="IMAGE", help=f"image with Python to make them on (default: {BASE})")
    group.add_argument("--fleets", type=int, metavar="N", help="containers with minions on each engine (default: 1)")
    group.add_argument(
        "--fleet-engine", action="append", metavar="URL", help="a further engine for minions; may be repeated"
    )
    group.add_argument("--master-address", metavar="IP", help="where further engines reach the first one's machine")


def settings(options: argparse.Namespace) -> ContainerSettings | None:
    """Return how the bed's containers are made, None for a bed of processes.

    Raises SettingsError for options that need others, or a number that makes no sense.
    """
    given = [name for name in NAMES if getattr(options, name) is not None]
    if not options.docker:
        if given:
            raise SettingsError(f"--{given[0].replace('_', '-')} needs --docker beside it.")
        return None
    if options.fleets is not None and options.fleets < 1:
        raise SettingsError("--fleets has to be at least 1.")
    if bool(options.fleet_engine) != bool(options.master_address):
        raise SettingsError(
            "--fleet-engine and --master-address belong together: minions on other machines need to know where the "
            "master's machine is."
        )
    found = ContainerSettings(engines=tuple(options.fleet_engine or ()), master_address=options.master_address or "")
    return dataclasses.replace(found, base=options.base or found.base, fleets=options.fleets or found.fleets)
