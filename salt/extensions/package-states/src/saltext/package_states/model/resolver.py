"""One verdict for each package of a minion, out of all states that apply to it.

The order is organization < group < grain match < minion < the minion's own state; within each, the
higher priority wins. Two states of equal rank that want different things are a conflict.
"""

from typing import NamedTuple

from saltext.package_states.errors import Conflict
from saltext.package_states.model.item import UNMANAGED, Item, show

ORGANIZATION = "organization"
GROUP = "group"
GRAINS = "grains"
MINION = "minion"
OWN = "own"
LEVELS = (ORGANIZATION, GROUP, GRAINS, MINION, OWN)
# the architectures of packages that suit every system
ANY = ("all", "noarch")
_RANK = {level: number for number, level in enumerate(LEVELS)}


class Source(NamedTuple):
    """A state that applies to a minion"""

    state: str  # the name of the state
    # a digest of its entries: a state that was rolled back has its old one again
    revision: str
    level: str  # one of LEVELS
    target: str  # what the state is assigned to, for people
    priority: int  # among states of one level, the higher one wins
    items: tuple  # the entries of the state

    @property
    def rank(self):
        return _RANK[self.level], self.priority

    @property
    def label(self):
        if self.level == OWN:
            return f"own {self.state}" if self.target else f"state {self.state}"
        return f"{self.level} {self.target}: {self.state}"


class Verdict(NamedTuple):
    item: Item  # the package, and what is wanted of it
    source: Source  # the state that decided
    overruled: tuple  # the other states that name the package, the highest rank first


def bare(item, native):
    """Return an item without its architecture if that is the one of the minion, or any"""
    if item.architecture and item.architecture in (native, *ANY):
        return item._replace(architecture="")
    return item


def resolve(sources, native="", conflicts=None):
    """Return the verdicts for a minion, a tuple in the order of the packages' names

    :param str native: its architecture; ``name:native`` is ``name`` then, as ``name:all`` and
        ``name:noarch`` always are
    :param dict conflicts: where to put conflicts by package; without it, :class:`Conflict` names all
    """
    found = {}
    for source in sources:
        for item in source.items:
            item = bare(item, native)
            found.setdefault(item[:2], []).append((source, item))
    verdicts, wrong = [], {}
    for key in sorted(found):
        entries = found[key]
        if len(entries) == 1:
            ((source, item),) = entries
            verdicts.append(Verdict(item, source, ()))
            continue
        entries.sort(key=lambda entry: (entry[0].rank, entry[0].state), reverse=True)
        (source, item), others = entries[0], entries[1:]
        for other, against in others:
            if other.rank == source.rank and against.policy != item.policy:
                wrong[item.key] = Conflict(_conflict(item, source, against, other))
                break
        else:
            verdicts.append(
                Verdict(item, source, tuple(other.label for other, _ in others))
            )
    if wrong and conflicts is None:
        raise Conflict(" ".join(map(str, wrong.values())))
    if wrong:
        conflicts.update(wrong)
    return tuple(verdicts)


def _conflict(item, source, against, other):
    sides = sorted(
        (where.label, show(entry))
        for entry, where in ((item, source), (against, other))
    )
    said = " and ".join(f"'{label}' says {what}" for label, what in sides)
    return (
        f"{item.key}: {said}, both with priority {source.priority};"
        " change one of them, or give one a higher priority."
    )


def managed(verdicts):
    return tuple(verdict for verdict in verdicts if verdict.item.wanted != UNMANAGED)
