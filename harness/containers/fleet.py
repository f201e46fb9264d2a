"""A fleet of several containers, which answers as one: `Fleets`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evil_minions import Status
from harness.containers import roles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.containers.channel import Channel

# what may take as long as a fleet takes to start
REQUEST_S = 600.0


@dataclass(frozen=True)
class Share:
    """The minions of one container: numbers `first` to `first + minions - 1`, by the line to it."""

    channel: Channel
    first: int
    minions: int


def split(minions: int, containers: int) -> list[tuple[int, int]]:
    """Return the first number and the number of minions of each container, as equal as can be."""
    sizes = [minions // containers + (number < minions % containers) for number in range(containers)]
    return [(sum(sizes[:number]), size) for number, size in enumerate(sizes)]


def sizes(shares: Sequence[tuple[int, int]], minions: int) -> list[int]:
    """Return how many minions each container has when the fleet has `minions`; every container keeps one.

    Ids are numbered through, so that only the last container can grow; a fleet shrinks from its end.
    """
    wanted = [max(1, min(size, minions - first)) for first, size in shares]
    first, size = shares[-1]
    wanted[-1] = max(wanted[-1], minions - first) if minions > first + size else wanted[-1]
    return wanted


class Fleets:
    """The fleets of all containers as one."""

    def __init__(self, shares: Iterable[Share]) -> None:
        """Take the containers, in order of their minions' numbers."""
        self._shares = tuple(shares)

    def status(self) -> Status:
        """Return the state of all together; a publication is one whichever containers saw it."""
        answers = self._each(lambda _: {"do": "status"})
        total = dict(answers[0])
        for answer in answers[1:]:
            total |= {
                name: value + answer[name]
                for name, value in total.items()
                if isinstance(value, int) and name != "format"
            }
            total["processes"] = [*total["processes"], *answer["processes"]]
            total["counters"] = {
                name: max(value, answer["counters"][name])
                if name == "publications"
                else value + answer["counters"][name]
                for name, value in total["counters"].items()
            }
        return Status.from_dict(total)

    def match(self, tgt: str, tgt_type: str) -> int:
        """Return how many minions a target matches."""
        request = {"do": "match", "tgt": tgt, "tgt_type": tgt_type, "delimiter": ":"}
        return sum(len(answer["ids"]) for answer in self._each(lambda _: request))

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Send a request to every container and return the answer with the sum of the minions affected."""
        if request["do"] == "scale":
            shares = [(share.first, share.minions) for share in self._shares]
            wanted = sizes(shares, int(str(request["minions"])))
            answers = self._each(lambda number: {"do": "scale", "minions": wanted[number]})
        else:
            answers = self._each(lambda _: request)
        return {"minions": sum(int(answer.get("minions", 0)) for answer in answers)}

    def unseen(self, jids: Sequence[str]) -> list[str]:
        """Return those of the job ids that no minion of any container has heard of."""
        found = [set(answer["unseen"]) for answer in self._each(lambda _: {"do": "unseen", "jids": list(jids)})]
        return [jid for jid in jids if all(jid in unseen for unseen in found)]

    def flush(self) -> None:
        """Have all samples written."""
        self._each(lambda _: {"do": "flush"})

    def close(self) -> None:
        """Leave the fleets to the end of their containers."""

    def _each(self, request: Callable[[int], Mapping[str, object]]) -> list[dict[str, Any]]:
        return [
            dict(share.channel.ask("fleet", {"request": dict(request(number))}, REQUEST_S)["answer"])
            for number, share in enumerate(self._shares)
        ]


def options(extra: Iterable[str]) -> tuple[list[str], dict[str, Path | bytes]]:
    """Return the options of the fleet's command as they are within a container, and the files that they name."""
    found: list[str] = []
    entries: dict[str, Path | bytes] = {}
    for option in extra:
        name, _, text = option.partition("=")
        file, share = (text, "") if Path(text).is_file() else text.rpartition("=")[::2]
        path = Path(file)
        if path.is_absolute() and path.is_file():
            entries[f"{roles.FILES.name}/{len(entries)}-{path.name}"] = path
            found.append(f"{name}={roles.FILES}/{len(entries) - 1}-{path.name}{f'={share}' if share else ''}")
        else:
            found.append(option)
    return found, entries
