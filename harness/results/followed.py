"""Every job that the master accepted for a client, followed to its end.

Three sources tell of a job, and each knows what the others can't: the master's job cache has every job that it
accepted, also one that waits to be published; a client's answer has the job's id; the fleet knows which minions it
reached and what became of it there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.scenarios.clients import RUNNERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evil_minions import TallyRow
    from harness.results.evidence import Evidence
    from harness.scenarios.runners import Asked


@dataclass(frozen=True)
class Followed:
    """One job and its minions: `targeted` by the master, of these `reached`, and of these again `kept` and `lost`.

    `published` is false for a job that no minion has heard of. `lost` are returns that were over when the run had
    settled, acknowledged or given up, and that the job cache does not hold.
    """

    jid: str
    fun: str
    published: bool
    targeted: int
    reached: int
    kept: int
    lost: int

    @property
    def unreached(self) -> int:
        """Return how many targeted minions never got the job."""
        return self.targeted - self.reached

    @property
    def unfinished(self) -> int:
        """Return how many minions got the job and had not sent a return when the run had settled."""
        return self.reached - self.kept - self.lost


def follow(samples: Evidence, functions: Asked) -> list[Followed]:
    """Return every job of `functions` in the load phase, in the order of their ids."""
    early = {row.jid for row in samples.jobs} - samples.load_jobs().keys()
    names, asked = _asked(samples, functions)
    tallies: dict[str, list[TallyRow]] = defaultdict(list)
    for row in samples.tallies:
        if row.fun in functions:
            tallies[row.jid].append(row)
            names.setdefault(row.jid, row.fun)
    kept: dict[str, set[str]] = defaultdict(set)
    for entry in samples.kept:
        kept[entry.jid].add(entry.minion)
    over: dict[str, set[str]] = defaultdict(set)
    for sent in samples.returns:
        # a return without an attempt was never sent, as its minion died before
        if sent.attempts and sent.fun in functions and sent.time <= samples.timeline.settled:
            over[sent.jid].add(sent.minion)
    found = []
    for jid in sorted(names.keys() - early):
        rows = tallies.get(jid, [])
        found.append(
            Followed(
                jid=jid,
                fun=names[jid],
                published=bool(rows),
                # a worker without a living minion hears of no job, and some parts of a job may never be published
                targeted=max(asked.get(jid, 0), sum(row.targeted for row in rows)),
                reached=sum(row.reached for row in rows),
                kept=len(kept.get(jid, ())),
                lost=len(over.get(jid, set()) - kept.get(jid, set())),
            )
        )
    return found


def _asked(samples: Evidence, functions: Asked) -> tuple[dict[str, str], Mapping[str, int]]:
    """Return the function of each accepted job, and how many minions it is for as far as master or client said."""
    names = {row.jid: row.fun for row in samples.accepted if row.fun in functions}
    asked = Counter({row.jid: row.targeted for row in samples.accepted})
    for request in samples.clients:
        # a runner's id is not the id of a job on minions; master and fleet know the functions of jobs that it published
        for jid in () if request.kind in RUNNERS else request.jids.split():
            names.setdefault(jid, request.function)
            if not asked[jid]:
                asked[jid] = request.expected
    return names, asked
