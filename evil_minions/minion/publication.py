"""Publications: opened once for each process, though the same bytes reach every minion.

A worker verifies, decrypts and matches a publication when the first of its minions gets it; the others find the result
by the bytes themselves. Which minion has already run which job is kept here too, one byte for each, because a real
minion runs no job twice.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import CryptoError, ForgeryError
from evil_minions.inventory.targets import target_of
from evil_minions.protocol.envelope import decrypt, is_job
from evil_minions.samples import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.inventory.targets import Targets
    from evil_minions.protocol.envelope import Load
    from evil_minions.protocol.keys import MasterKey
    from evil_minions.samples import Counters

# opened frames are remembered, so that each is opened once; a hostile master's must not fill the memory
_FRAMES: Final = 256
_FRAME_BYTES: Final = 1024 * 1024
# a real minion remembers the last hundred jobs of its own (minion_jid_queue_hwm); here they are those of all minions
_JOBS: Final = 100
_MOST_JOBS: Final = 1000
_JOB_BYTES: Final = 256 * 1024
# those whose counts go on when one of them reaches a minion late
_COUNTED_JOBS: Final = 5000


class Publication:
    """One job as published, and which minions of this worker it is for.

    `chosen` and `seen` hold one byte for each minion index. `load` is what a real minion's job holds, shared by all.
    """

    __slots__ = ("chosen", "fun", "jid", "load", "nth", "seen", "serial", "stream", "tally")

    def __init__(self, load: Load, serial: int, chosen: bytes) -> None:
        """Keep the load, with what a minion adds before it starts a job."""
        self.load: Load = {**load, "resource_targets": [], "pure_resource_target": False, "minion_is_target": True}
        self.serial = serial
        # copied from the job's tally
        self.stream = self.nth = 0
        self.jid: str = load["jid"]
        self.fun: str = load["fun"] if isinstance(load["fun"], str) else ";".join(load["fun"])
        self.chosen = chosen
        self.seen = bytearray(len(chosen))
        self.tally = Tally(0, self.jid, self.fun)


class Publications:
    """The publications that a worker has seen lately."""

    def __init__(
        self, master: MasterKey, targets: Targets, counters: Counters, on_new: Callable[[Publication], None]
    ) -> None:
        """Take the master's key, the minions, and whom to tell of each new job."""
        self._master = master
        self._targets = targets
        self._counters = counters
        self._on_new = on_new
        self._frames: OrderedDict[tuple[bytes, str], Publication | None] = OrderedDict()
        self._frame_bytes = 0
        self._jobs: OrderedDict[str, Publication] = OrderedDict()
        self._tallies: OrderedDict[str, Tally] = OrderedDict()
        self._numbers = count()

    def open(self, frame: bytes, aes: str) -> Publication | None:
        """Return the publication in `frame`, or None if it doesn't open with this key (perhaps a newer one is needed).

        A load without the keys of a job counts as one for nobody, as it does for a real minion; so does a forgery.
        """
        key = (frame, aes)
        try:
            return self._frames[key]
        except KeyError:
            pass
        try:
            publication = self._new(decrypt(frame, aes, self._master))
        except ForgeryError:
            publication = self._nobodys()
        except CryptoError:
            publication = None
        self._frames[key] = publication
        self._frame_bytes += len(frame)
        while len(self._frames) > _FRAMES or self._frame_bytes > _FRAME_BYTES:
            (oldest, _), _ = self._frames.popitem(last=False)
            self._frame_bytes -= len(oldest)
        return publication

    def _nobodys(self) -> Publication:
        """Count what isn't a job, and return it as one for nobody."""
        self._counters.bad_frames += 1
        return Publication({"jid": "", "fun": ""}, 0, b"")

    def _new(self, load: dict[str, Any]) -> Publication:
        """Match a load that came for the first time; a job id seen before shares who has run it."""
        serial = load.pop("serial", 0)
        if not is_job(load) or not isinstance(serial, int):
            return self._nobodys()
        publication = Publication(load, serial, self._targets.select(target_of(load)))
        known = self._jobs.get(publication.jid)
        if known is not None:
            # a part of a job, as batches publish them, or the same one again
            publication.seen = known.seen
        else:
            self._jobs[publication.jid] = publication
            room = min(_MOST_JOBS, max(_JOBS, _JOB_BYTES // max(1, len(publication.seen))))
            while len(self._jobs) > room:
                self._jobs.popitem(last=False)
        publication.tally = self._tally(publication)
        self._on_new(publication)
        return publication

    def _tally(self, publication: Publication) -> Tally:
        """Return the counts of the publication's job; one that has none yet is counted as a new one."""
        tally = self._tallies.get(publication.jid)
        if tally is None:
            tally = Tally(next(self._numbers), publication.jid, publication.fun)
            self._tallies[publication.jid] = tally
            if len(self._tallies) > _COUNTED_JOBS:
                self._tallies.popitem(last=False)
            self._counters.publications += 1
        return tally

    def grow(self, more: int) -> None:
        """Have the jobs so far be for nobody of `more` more minions."""
        known = [publication for publication in self._frames.values() if publication is not None]
        every = (*known, *self._jobs.values())
        for marks in {id(publication.seen): publication.seen for publication in every}.values():
            marks.extend(bytes(more))
        for publication in {id(found): found for found in every}.values():
            publication.chosen += bytes(more)
