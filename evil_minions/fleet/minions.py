"""All minions of a worker, and what is done to them while they run: scale, kill, revive, partition, heal.

The supervisor says which by their numbers in the fleet; what a minion can't do, such as dying twice, is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evil_minions.assignments import Part, cast
from evil_minions.behaviour.director import Director
from evil_minions.inventory.target import Target
from evil_minions.minion.minion import Minion
from evil_minions.minion.phase import Stage
from evil_minions.network.path import NetworkPath
from evil_minions.samples.files import DecisionRow, SampleWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.fleet.ramp import Ramp
    from evil_minions.fleet.settings import FleetSettings
    from evil_minions.minion.context import Context


def placed(settings: FleetSettings, numbers: range) -> dict[int, NetworkPath]:
    """Return the networks of those minions that get one by a share of the fleet."""
    shares = [region for region in settings.network if region.share is not None]
    parts = [Part(str(number), region.share or 0.0) for number, region in enumerate(shares)]
    found = cast(parts, numbers, range(*settings.whole), settings.seed, "network")
    return {number: shares[int(role)].path for number, role in found.items()}


class Crowd:
    """The minions that a worker has made; those beyond the fleet's size after scaling down are GONE."""

    def __init__(self, context: Context) -> None:
        """Make the minions; none of them does anything yet."""
        self.context = context
        self._director: Director | None = None
        self.minions = [Minion(context, index) for index in range(len(context.ids))]
        self._cast(self.minions)

    def _cast(self, minions: Sequence[Minion]) -> None:
        """Give new minions the networks and the behaviours that the fleet started with."""
        settings = self.context.settings
        for number, path in placed(settings, range(minions[0].number, minions[-1].number + 1)).items():
            self.context.atlas.place(number - settings.first, path)
        for region in settings.network:
            if region.tgt is not None:
                chosen = self.context.targets.select(Target(region.tgt, region.tgt_type))
                self.network([minion for minion in minions if chosen[minion.index]], region.path)
        if not settings.behaviours:
            return
        numbers = range(minions[0].number, minions[-1].number + 1)
        roles = cast(settings.behaviours, numbers, range(*settings.whole), settings.seed, "behaviours")
        for name in dict.fromkeys(roles.values()):
            self.behave([minion for minion in minions if roles.get(minion.number) == name], name)

    def behave(self, minions: Sequence[Minion], name: str) -> None:
        """Have minions behave as a preset or a file says."""
        if self._director is None:
            settings = self.context.settings
            self.context.decisions = SampleWriter(settings.folder, DecisionRow, settings.worker)
            self.context.director = self._director = Director(self.context)
        self._director.assign(minions, name)

    def counts(self) -> dict[str, int]:
        """Return how many minions are in which state."""
        here = self.here()
        # those that are ready, mostly all, are looked at once
        others = [minion for minion in here if minion.stage != Stage.READY]
        ready = len(here) - len(others)
        stages = [minion.stage for minion in others]
        return {
            "minions": len(here),
            "connected": sum(minion.connected for minion in here),
            "authenticated": ready + sum(stage >= Stage.AUTHENTICATED for stage in stages),
            "ready": ready,
            "pending": stages.count(Stage.PENDING),
            "dead": stages.count(Stage.DEAD),
            "rejected": sum(minion.stage == Stage.REFUSED and not self._is_denied(minion) for minion in others),
            "denied": sum(minion.stage == Stage.REFUSED and self._is_denied(minion) for minion in others),
            "partitioned": len(self.context.partition.cut),
            "executing": sum(minion.at_work() for minion in here),
            "expected": ready + sum(map(self._is_expected, others)),
        }

    def _is_denied(self, minion: Minion) -> bool:
        """Return whether a minion that is turned away has another key than the master knows."""
        return minion.key is not minion.first_key()

    def _is_expected(self, minion: Minion) -> bool:
        """Return whether a minion is ready or should be: neither dead nor meant to be turned away or to wait."""
        if minion.stage == Stage.READY:
            return True
        return minion.stage != Stage.DEAD and minion.number not in self.context.key_states

    def here(self) -> list[Minion]:
        """Return the minions that belong to the fleet now."""
        return [minion for minion in self.minions if minion.stage != Stage.GONE]

    def ids(self, target: Target) -> list[str]:
        """Return the ids of the minions that a target means."""
        return [minion.id for minion in self._meant(target)]

    def _meant(self, target: Target) -> list[Minion]:
        """Return the minions that a target means."""
        chosen = self.context.targets.select(target)
        return [minion for minion in self.here() if chosen[minion.index]]

    def candidates(self, order: str, target: Target | None) -> list[int]:
        """Return the numbers of the minions that an order could be for."""
        return [
            minion.number for minion in (self._meant(target) if target else self.here()) if self._able(order, minion)
        ]

    def _able(self, order: str, minion: Minion) -> bool:
        """Return whether an order would change a minion."""
        match order:
            case "kill":
                return minion.stage != Stage.DEAD
            case "revive":
                return minion.stage == Stage.DEAD
            case "partition":
                return minion.index not in self.context.partition.cut
        return True

    def take(self, numbers: Sequence[int]) -> list[Minion]:
        """Return the minions of this worker that have these numbers."""
        first = self.context.settings.first
        return [self.minions[number - first] for number in numbers if 0 <= number - first < len(self.minions)]

    def kill(self, minions: Sequence[Minion], stage: Stage = Stage.DEAD) -> None:
        """End minions as processes that are killed."""
        for minion in minions:
            minion.close(stage)

    def revive(self, minions: Sequence[Minion], ramp: Ramp) -> None:
        """Start minions that have ended."""
        for minion in minions:
            minion.stage = Stage.IDLE
        ramp.bring_up(minions)

    def partition(self, minions: Sequence[Minion]) -> None:
        """Cut minions off from the master."""
        for minion in minions:
            self.context.partition.cut.add(minion.index)
            for link in minion.links():
                self.context.partition.sever(minion.index, link)

    def network(self, minions: Sequence[Minion], path: NetworkPath) -> None:
        """Put minions behind a network; one that does nothing puts them beside their master."""
        for minion in minions:
            self.context.atlas.place(minion.index, None if path == NetworkPath() else path)
            for link in minion.links():
                link.reroute(self.context.side(minion.index, link.endpoint.base))

    def heal(self) -> int:
        """Let every minion reach the master again; return how many couldn't."""
        cut = [self.minions[index] for index in sorted(self.context.partition.cut)]
        self.context.partition.heal()
        for minion in cut:
            for link in minion.links():
                self.context.partition.rejoin(link)
        return len(cut)

    def scale(self, size: int, ramp: Ramp) -> int:
        """Have the first `size` minions only, made new where there never were so many; return how many changed."""
        surplus = [minion for minion in self.minions[size:] if minion.stage != Stage.GONE]
        self.context.partition.cut.difference_update(minion.index for minion in surplus)
        self.kill(surplus, Stage.GONE)
        missing = [minion for minion in self.minions[:size] if minion.stage == Stage.GONE]
        if size > len(self.minions):
            self.context.grow(size - len(self.minions))
            start = len(self.minions)
            new = [Minion(self.context, index) for index in range(start, size)]
            self.minions.extend(new)
            self._cast(new)
            missing += new
        self.revive(missing, ramp)
        return len(surplus) + len(missing)

    def answer(self, request: dict[str, Any], ramp: Ramp) -> dict[str, Any]:
        """Do what the supervisor orders, and return what it asks, or how many minions that changed."""
        match request["do"]:
            case "assembled":
                return {"assembled": ramp.assembled}
            case "begin":
                ramp.begin()
                return {}
            case "scale":
                return {"minions": self.scale(int(request["minions"]), ramp)}
            case "heal":
                return {"minions": self.heal()}
            case "candidates":
                target = Target(request["tgt"], request["tgt_type"]) if "tgt" in request else None
                return {"numbers": self.candidates(request["order"], target)}
        minions = self.take(request["numbers"])
        self._order(request, minions, ramp)
        return {"minions": len(minions)}

    def _order(self, request: dict[str, Any], minions: Sequence[Minion], ramp: Ramp) -> None:
        """Carry out an order to some minions."""
        match request["do"]:
            case "kill":
                self.kill(minions)
            case "revive":
                self.revive(minions, ramp)
            case "partition":
                self.partition(minions)
            case "network":
                self.network(minions, NetworkPath.of(request["path"]))
            case "behaviour":
                self.behave(minions, request["name"])
