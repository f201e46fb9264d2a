"""How a bed of containers is made, as its user asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.containers.image import BASE


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
