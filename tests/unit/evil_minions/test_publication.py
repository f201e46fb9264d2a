"""Publications: opened once, matched once, run once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import salt.crypt
import salt.payload

from evil_minions.errors import CryptoError
from evil_minions.inventory import GrainsFactory, load_template
from evil_minions.inventory.targets import PillarStore, Targets
from evil_minions.minion.publication import Publication, Publications
from evil_minions.protocol.envelope import decrypt
from evil_minions.samples import Counters, Tallies, Tally

if TYPE_CHECKING:
    from evil_minions.protocol.keys import MasterKey

LOAD = {
    "fun": "test.ping",
    "arg": [],
    "tgt": "minion-0*",
    "tgt_type": "glob",
    "jid": "20261121034757208012",
    "ret": "",
    "user": "root",
}


class Reader:
    """The publications of a worker with two minions, and what it was told."""

    def __init__(self, master_key: MasterKey) -> None:
        """Begin with nothing noted."""
        grains = GrainsFactory(load_template(), 1, "127.0.0.1")
        self.counters = Counters()
        self.told: list[str] = []
        targets = Targets(["minion-0", "minion-1"], 0, grains, PillarStore(2))
        self.publications = Publications(master_key, targets, self.counters, lambda new: self.told.append(new.jid))

    def open(self, frame: bytes, aes: str) -> Publication:
        """Return a publication that opens."""
        publication = self.publications.open(frame, aes)
        assert publication is not None
        return publication


@pytest.fixture
def reader(master_key: MasterKey) -> Reader:
    """Return a reader."""
    return Reader(master_key)


def test_publication(master: Any, reader: Reader) -> None:
    """A publication of Salt's own server opens, with what a minion adds to its load."""
    publication = reader.open(master.publish(LOAD, 5), master.aes)
    added = {"resource_targets": [], "pure_resource_target": False, "minion_is_target": True}
    assert publication.load == LOAD | added
    assert (publication.serial, publication.jid, publication.fun) == (5, LOAD["jid"], "test.ping")
    assert publication.chosen == b"\x01\x00"


def test_same_bytes_same_object(master: Any, reader: Reader) -> None:
    """The bytes that every minion gets are opened once, and the job is told once."""
    frame = master.publish(LOAD, 5)
    assert reader.open(frame, master.aes) is reader.open(bytes(bytearray(frame)), master.aes)
    assert (reader.told, reader.counters.publications) == ([LOAD["jid"]], 1)


def test_same_job_again(master: Any, reader: Reader) -> None:
    """A job id that comes in other bytes shares who has run it, so that nobody runs it twice."""
    first = reader.open(master.publish(LOAD, 5), master.aes)
    second = reader.open(master.publish(LOAD, 6), master.aes)
    assert first is not second
    assert first.seen is second.seen
    assert reader.counters.publications == 1


def test_jobs_of_a_small_fleet_are_remembered(master: Any, reader: Reader) -> None:
    """A job that comes again after hundreds of others is still known; after thousands it is not."""
    first = reader.open(master.publish(LOAD, 5), master.aes)
    for others, known in ((900, True), (1100, False)):
        for number in range(others):
            reader.open(master.publish({**LOAD, "jid": f"{others}-{number}"}, 6), master.aes)
        again = reader.open(master.publish({**LOAD, "user": f"after {others}"}, 7), master.aes)
        assert (again.seen is first.seen) is known


def test_wrong_key(master: Any, reader: Reader) -> None:
    """With another key a publication doesn't open, and opens once the key is there."""
    frame = master.publish(LOAD, 5)
    assert reader.publications.open(frame, salt.crypt.Crypticle.generate_key_string()) is None
    assert reader.open(frame, master.aes).jid == LOAD["jid"]


def test_wrong_signature(master: Any, master_key: MasterKey) -> None:
    """A publication that somebody else signed isn't taken, though its key is right."""
    payload = salt.payload.loads(master.publish(LOAD, 5))
    forged = salt.payload.dumps({**payload, "sig": payload["sig"][::-1]})
    with pytest.raises(CryptoError, match="isn't signed"):
        decrypt(forged, master.aes, master_key)


@pytest.mark.parametrize(
    "frame", [b"", b"\xc1", b"\x80", b"abc", salt.payload.dumps({"enc": "clear", "load": {}}), salt.payload.dumps([1])]
)
def test_nonsense(master: Any, reader: Reader, frame: bytes) -> None:
    """Whatever else comes is for nobody, and nothing breaks; no minion signs in anew because of it."""
    publication = reader.open(frame, master.aes)
    assert (publication.chosen, reader.told, reader.counters.bad_frames) == (b"", [], 1)


def test_forgery_is_ignored(master: Any, reader: Reader) -> None:
    """A wrong signature leads to no new sign-in, as with a real minion that checks signatures."""
    payload = salt.payload.loads(master.publish(LOAD, 5))
    forged = salt.payload.dumps({**payload, "sig": payload["sig"][::-1]})
    assert reader.open(forged, master.aes).chosen == b""


def test_large_frames_are_not_kept(master: Any, reader: Reader) -> None:
    """What a hostile master sends doesn't fill the memory: a few thousand usual frames are kept, and no large ones."""
    for number in range(6):
        reader.publications.open(bytes([number]) * 400_000, master.aes)
    assert sum(len(frame) for frame, _ in reader.publications._frames) <= 2**20


@pytest.mark.parametrize(
    "change",
    [{"jid": 5}, {"fun": None}, {"fun": []}, {"fun": [1]}, {"arg": "x"}, {"tgt": None, "fun": 3}],
)
def test_a_load_that_is_no_job(master: Any, reader: Reader, change: dict[str, Any]) -> None:
    """A load without the types of a job is for nobody."""
    publication = reader.open(master.publish(LOAD | change, 5), master.aes)
    assert (publication.chosen, reader.told, reader.counters.bad_frames) == (b"", [], 1)


def test_several_functions_have_one_name(master: Any, reader: Reader) -> None:
    """A job of several functions is sampled under all their names."""
    load = LOAD | {"fun": ["test.ping", "test.echo"], "arg": [[], ["a"]]}
    assert reader.open(master.publish(load, 5), master.aes).fun == "test.ping;test.echo"


def test_parts_of_a_job_share_its_tally(
    master: Any,
    reader: Reader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What becomes of a job is counted once, in however many parts it comes, and however late to one of its minions."""
    tally = reader.open(master.publish(LOAD, 5), master.aes).tally
    assert reader.open(master.publish(LOAD | {"tgt": "minion-1"}, 6), master.aes).tally is tally
    # a thousand jobs later nobody remembers who ran it, and then the network of a minion heals
    for number in range(1100):
        reader.open(master.publish(LOAD | {"jid": str(number)}, 7 + number), master.aes)
    assert LOAD["jid"] not in reader.publications._jobs
    assert reader.open(master.publish(LOAD, 5), master.aes).tally is tally
    assert reader.counters.publications == 1101
    # a job that is over for long begins anew
    monkeypatch.setattr("evil_minions.minion.publication._COUNTED_JOBS", 1101)
    reader.open(master.publish(LOAD | {"jid": "new"}, 2001), master.aes)
    assert reader.open(master.publish(LOAD, 5000), master.aes).tally is not tally


def test_minions_that_a_job_is_for_are_counted_once() -> None:
    """A minion that takes a job which it was counted for is no further one."""
    tally = Tally(0, "1", "test.ping")
    for index in (0, 2, 2, 4000):
        tally.asks(index)
    Tallies().reached(tally, 2)
    assert (tally.targeted, tally.reached) == (3, 1)
