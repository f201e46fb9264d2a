"""All minions of a worker, and what is done to them while they run: scale, kill, revive, partition, heal.

The supervisor says which by their numbers in the fleet; what a minion can't do, such as dying twice, is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evil_minions.fleet.orders import ORDERS
from evil_minions.fleet.ramp import Ramp, states
from evil_minions.inventory.inventory import Target
from evil_minions.minion.minion import Minion
from evil_minions.minion.runtime import Phase
from evil_minions.network.path import NetworkPath
from evil_minions.rng import Assignment, assign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.fleet.settings import FleetSettings
    from evil_minions.minion.shared import Shared


def placed(settings: FleetSettings, numbers: range) -> dict[int, NetworkPath]:
    """Return the networks of those minions that get one by a share of the fleet."""
    shares = [region for region in settings.shares.network if region.share is not None]
    assignments = [Assignment(str(number), region.share or 0.0) for number, region in enumerate(shares)]
    found = assign(assignments, numbers, range(*settings.whole), settings.seed, "network")
    return {number: shares[int(name)].path for number, name in found.items()}


class MinionSet:
    """The minions that a worker has made; those beyond the fleet's size after scaling down are GONE."""

    def __init__(self, settings: FleetSettings, shared: Shared, ramp: Ramp) -> None:
        """Begin without minions; those that are made are brought up by the ramp."""
        self.shared = shared
        self.minions = ramp.minions
        self._settings = settings
        self._ramp = ramp
        self._key_states = states(settings)

    def populate(self) -> None:
        """Make the minions of the inventory; none of them does anything yet."""
        self._make(len(self.shared.inventory.ids))

    def _make(self, count: int) -> list[Minion]:
        """Make further minions, and give them the networks and the behaviours that the fleet started with."""
        start = len(self.minions)
        new = [Minion(self.shared, index) for index in range(start, start + count)]
        self.minions.extend(new)
        shares, seed = self._settings.shares, self._settings.seed
        numbers = range(new[0].number, new[-1].number + 1)
        for number, path in placed(self._settings, numbers).items():
            self.shared.ports.networks.place(number - self._settings.size.first, path)
        for region in shares.network:
            if region.tgt is not None:
                chosen = self.shared.inventory.targets.select(Target(region.tgt, region.tgt_type))
                self.network([minion for minion in new if chosen[minion.index]], region.path)
        found = assign(shares.behaviours, numbers, range(*self._settings.whole), seed, "behaviours")
        for name in dict.fromkeys(found.values()):
            self.shared.lifecycle.assign([minion for minion in new if found.get(minion.number) == name], name)
        return new

    def counts(self) -> dict[str, int]:
        """Return how many minions are in which state."""
        here = self.here()
        # those that are ready, mostly all, are looked at once
        others = [minion for minion in here if minion.phase != Phase.READY]
        ready = len(here) - len(others)
        phases = [minion.phase for minion in others]
        return {
            "minions": len(here),
            "connected": sum(minion.connected for minion in here),
            "authenticated": ready + sum(phase >= Phase.AUTHENTICATED for phase in phases),
            "ready": ready,
            "pending": phases.count(Phase.PENDING),
            "dead": phases.count(Phase.DEAD),
            "rejected": sum(minion.phase == Phase.REFUSED and not self._is_denied(minion) for minion in others),
            "denied": sum(minion.phase == Phase.REFUSED and self._is_denied(minion) for minion in others),
            "partitioned": len(self.shared.ports.partition.cut),
            "executing": sum(minion.at_work() for minion in here),
            "expected": ready + sum(map(self._is_expected, others)),
        }

    def _is_denied(self, minion: Minion) -> bool:
        """Return whether a minion that is turned away has another key than the master knows."""
        return minion.key is not minion.first_key()

    def _is_expected(self, minion: Minion) -> bool:
        """Return whether a minion is ready or should be: neither dead nor meant to be turned away or to wait."""
        if minion.phase == Phase.READY:
            return True
        return minion.phase != Phase.DEAD and minion.number not in self._key_states

    def here(self) -> list[Minion]:
        """Return the minions that belong to the fleet now."""
        return [minion for minion in self.minions if minion.phase != Phase.GONE]

    def ids(self, target: Target) -> list[str]:
        """Return the ids of the minions that a target matches."""
        return [minion.id for minion in self._meant(target)]

    def _meant(self, target: Target) -> list[Minion]:
        chosen = self.shared.inventory.targets.select(target)
        return [minion for minion in self.here() if chosen[minion.index]]

    def candidates(self, order: str, target: Target | None) -> list[int]:
        """Return the numbers of the minions that an order could be for."""
        return [
            minion.number
            for minion in (self._meant(target) if target else self.here())
            if ORDERS[order].able(self, minion)
        ]

    def take(self, numbers: Sequence[int]) -> list[Minion]:
        """Return the minions of this worker that have these numbers."""
        first = self._settings.size.first
        return [self.minions[number - first] for number in numbers if 0 <= number - first < len(self.minions)]

    def kill(self, minions: Sequence[Minion], phase: Phase = Phase.DEAD) -> None:
        """End minions as processes that are killed."""
        for minion in minions:
            minion.close(phase)

    def revive(self, minions: Sequence[Minion]) -> None:
        """Start minions that have ended."""
        for minion in minions:
            minion.phase = Phase.IDLE
        self._ramp.bring_up(minions)

    def partition(self, minions: Sequence[Minion]) -> None:
        """Cut minions off from the master."""
        for minion in minions:
            self.shared.ports.partition.cut.add(minion.index)
            for link in minion.links():
                self.shared.ports.partition.sever(minion.index, link)

    def network(self, minions: Sequence[Minion], path: NetworkPath) -> None:
        """Put minions behind a network; one that does nothing puts them beside their master."""
        for minion in minions:
            self.shared.ports.networks.place(minion.index, None if path == NetworkPath() else path)
            for link in minion.links():
                link.reroute(self.shared.ports.side(minion.index, link.endpoint.base))

    def heal(self) -> int:
        """Let every minion reach the master again; return how many couldn't."""
        cut = [self.minions[index] for index in sorted(self.shared.ports.partition.cut)]
        self.shared.ports.partition.heal()
        for minion in cut:
            for link in minion.links():
                self.shared.ports.partition.rejoin(link)
        return len(cut)

    def scale(self, size: int) -> int:
        """Have the first `size` minions only, made new where there never were so many; return how many changed."""
        surplus = [minion for minion in self.minions[size:] if minion.phase != Phase.GONE]
        self.shared.ports.partition.cut.difference_update(minion.index for minion in surplus)
        self.kill(surplus, Phase.GONE)
        missing = [minion for minion in self.minions[:size] if minion.phase == Phase.GONE]
        if size > len(self.minions):
            missing += self._grow(size - len(self.minions))
        self.revive(missing)
        return len(surplus) + len(missing)

    def _grow(self, count: int) -> list[Minion]:
        """Make more minions, whose numbers follow, and room for them."""
        number = self._settings.size.first + len(self.minions)
        id_format = self._settings.size.id_format
        self.shared.inventory.grow([id_format.format(number + more) for more in range(count)])
        self.shared.publications.grow(count)
        return self._make(count)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the supervisor orders, and return what it asks, or how many minions that changed."""
        match request["do"]:
            case "assembled":
                return {"assembled": self._ramp.assembled}
            case "begin":
                self._ramp.begin()
                return {}
            case "scale":
                return {"minions": self.scale(int(request["minions"]))}
            case "heal":
                return {"minions": self.heal()}
            case "candidates":
                target = Target(request["tgt"], request["tgt_type"]) if "tgt" in request else None
                return {"numbers": self.candidates(request["order"], target)}
        minions = self.take(request["numbers"])
        order = ORDERS[request["do"]]
        if order.do is not None:
            order.do(self, minions, request)
        return {"minions": len(minions)}
