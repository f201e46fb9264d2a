"""A minion's life with a master of Salt's own server code: start, jobs, new keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import salt.crypt
import salt.master
import salt.payload

from evil_minions.errors import PendingError
from evil_minions.fleet import worker
from evil_minions.functions import job
from evil_minions.minion.runtime import Phase
from evil_minions.samples import JobRow, ReturnRow, StartRow, read_samples
from tests.unit.evil_minions import fleets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

SECONDS = 20.0
LOAD = {"fun": "test.echo", "arg": ["hi"], "tgt": "*", "tgt_type": "glob", "jid": "1", "ret": "", "user": "root"}


class Line:
    """A wire whose other end is the test's master."""

    def __init__(self, town: Town, owner: Any) -> None:
        """Begin open."""
        self.town = town
        self.owner = owner
        self.open = True

    def send(self, data: bytes) -> None:
        """Have the master answer a request."""
        self.town.spawn(self._answer(data))

    async def _answer(self, data: bytes) -> None:
        """Pass a request to the master and its reply back."""
        reply = await self.town.handle(salt.payload.loads(data))
        if self.open:
            self.owner.wire_message(salt.payload.dumps(reply))

    def close(self, *, reset: bool = False) -> None:  # noqa: ARG002 - a wire's signature
        """Hang up."""
        self.open = False


class Town:
    """A worker's minions whose endpoints lead to the test's master instead of a network."""

    def __init__(self, master: Any, folder: Path, minions: int) -> None:
        """Make the minions; none of them does anything yet."""
        self.master = master
        self.loop = asyncio.get_running_loop()
        minion_set, self.ramp = worker.make(fleets.settings(folder, minions), self.loop)
        minion_set.populate()
        self.minions = minion_set.minions
        self.shared = minion_set.shared
        self.counters = self.shared.runtime.counters
        self.shared.ports.requests.open = self.dial  # type: ignore[method-assign, assignment]
        self.shared.ports.publisher(4505).open = self.subscribe  # type: ignore[method-assign, assignment]
        self.subscribers: list[Line] = []
        self.handle: Callable[[dict[str, Any]], Awaitable[Any]] = master.channel.handle_message
        self._tasks: set[asyncio.Task[None]] = set()
        master.seen.clear()

    def spawn(self, coroutine: Any) -> None:
        """Run a coroutine and keep it."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def dial(self, owner: Any) -> Line:
        """Connect a request channel."""
        line = Line(self, owner)
        self.loop.call_soon(owner.wire_ready, line)
        return line

    def subscribe(self, owner: Any) -> Line:
        """Connect a subscription."""
        line = self.dial(owner)
        self.subscribers.append(line)
        return line

    def publish(self, serial: int, **load: object) -> None:
        """Publish a job to every subscriber."""
        frame = self.master.publish(LOAD | load, serial)
        for line in self.subscribers:
            line.owner.wire_message(frame)

    def loads(self, cmd: str) -> list[dict[str, Any]]:
        """Return what the master got of one kind."""
        return [load for load in self.master.seen if load["cmd"] == cmd]

    async def start(self) -> None:
        """Bring all minions up, one after the other."""
        for minion in self.minions:
            await minion.sign_in()
            await minion.tune_in()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(SECONDS):
            while not condition():  # noqa: ASYNC110 - what is waited for sets no event
                await asyncio.sleep(0.005)


@pytest.fixture
def town(master: Any, key_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what runs a scenario in a town of a number of minions whose jobs start at once."""
    monkeypatch.setattr(job, "start_delay", lambda *_: 0.0)
    (tmp_path / "keys").symlink_to(key_folder / "keys")

    def run(scenario: Callable[[Town], Awaitable[None]], minions: int = 1) -> None:
        async def inside() -> None:
            place = Town(master, tmp_path, minions)
            await scenario(place)
            for minion in place.minions:
                minion.close()
            place.shared.journal.flush()
            assert place.counters.errors == 0

        asyncio.run(inside())

    return run


def test_start_sequence(town: Callable[..., None], tmp_path: Path) -> None:
    """A start is: signing in, pillar, the old start event, resources, the new start event."""

    async def scenario(place: Town) -> None:
        await place.start()
        seen = [(load["cmd"], load.get("tag")) for load in place.master.seen]
        assert seen == [
            ("_pillar", None),
            ("_minion_event", "minion_start"),
            ("_register_resources", None),
            ("_minion_event", "salt/minion/minion-00000/start"),
        ]
        minion = place.minions[0]
        assert (minion.phase, minion.connected) == (Phase.READY, True)
        assert place.shared.inventory.pillars.get(0) == place.master.pillar
        assert place.loads("_pillar")[0]["grains"]["id"] == "minion-00000"

    town(scenario)
    assert (tmp_path / "master.pub").exists()


def test_job_and_its_return(town: Callable[..., None], tmp_path: Path) -> None:
    """A published job runs on every minion that it is for, and is sampled."""

    async def scenario(place: Town) -> None:
        await place.start()
        place.publish(1, tgt="minion-0000[01]")
        await place.until(lambda: place.counters.returns_acked == 2)
        assert {load["id"]: load["return"] for load in place.loads("_return")} == {
            "minion-00000": "hi",
            "minion-00001": "hi",
        }

    town(scenario, minions=3)
    assert [(row.jid, row.fun, row.targeted) for row in read_samples(tmp_path, JobRow)] == [("1", "test.echo", 2)]
    rows = [(row.minion, row.attempts, row.acknowledged) for row in read_samples(tmp_path, ReturnRow)]
    assert sorted(rows) == [("minion-00000", 1, True), ("minion-00001", 1, True)]


def test_job_runs_once(town: Callable[..., None]) -> None:
    """The same job again, and a publication older than the last one, are left."""

    async def scenario(place: Town) -> None:
        await place.start()
        place.publish(5)
        place.publish(6)
        place.publish(4, jid="2")
        place.publish(7, jid="3")
        await place.until(lambda: place.counters.returns_acked == 2)
        assert [load["jid"] for load in place.loads("_return")] == ["1", "3"]

    town(scenario)


def test_what_is_heard_is_counted(town: Callable[..., None]) -> None:
    """Each publication counts once for each minion it comes to, whoever it is for, and also where it has to wait."""

    async def scenario(place: Town) -> None:
        first, second = place.minions
        await first.sign_in()
        await second.sign_in()
        place.publish(1, tgt="minion-00000")
        await first.tune_in()
        await second.tune_in()
        place.publish(2, tgt="minion-00001", jid="2")
        await place.until(lambda: place.counters.returns_acked == 2)
        counters = place.counters
        sizes = [len(place.master.publish(LOAD | {"tgt": f"minion-0000{number}"}, number + 1)) for number in range(2)]
        assert (counters.heard, counters.heard_bytes) == (4, 2 * sum(sizes))

    town(scenario, 2)


def test_publication_during_the_start_waits(town: Callable[..., None]) -> None:
    """A job that is published before the pillar is there runs afterwards."""

    async def scenario(place: Town) -> None:
        minion = place.minions[0]
        await minion.sign_in()
        place.publish(1)
        assert place.counters.publications == 0
        await minion.tune_in()
        await place.until(lambda: place.counters.returns_acked == 1)

    town(scenario)


@pytest.mark.parametrize(("size", "kept"), [(1, 1000), (400_000, 2), (2_000_000, 1)])
def test_what_waits_for_the_pillar_does_not_fill_the_memory(
    town: Callable[..., None], size: int, kept: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A megabyte of publications waits, or a single larger one, or a thousand; others are dropped, counted and told."""

    async def scenario(place: Town) -> None:
        minion = place.minions[0]
        await minion.sign_in()
        for _ in range(kept):
            minion.on_publication(bytes(size))
        assert (place.counters.bad_frames, capsys.readouterr().err) == (0, "")
        for _ in range(1002 - kept):
            minion.on_publication(bytes(size))
        assert capsys.readouterr().err.count("further ones are dropped") == 1
        assert len(minion._held or ()) == kept
        assert place.counters.bad_frames == 1002 - kept

    town(scenario)


def test_start_event_of_a_job(town: Callable[..., None]) -> None:
    """A publication that asks for it makes the minion say that it begins."""

    async def scenario(place: Town) -> None:
        await place.start()
        place.publish(1, start_event=True)
        await place.until(lambda: place.counters.returns_acked == 1)
        event = place.loads("_minion_event")[-1]
        assert event["tag"] == "salt/job/1/start/minion-00000"
        assert event["data"] == {
            "id": "minion-00000",
            "jid": "1",
            "fun": "test.echo",
            "tgt": "*",
            "tgt_type": "glob",
            "user": "root",
        }

    town(scenario)


def test_new_key_of_publications(town: Callable[..., None]) -> None:
    """A publication in a new key makes each minion sign in once, and the job runs."""

    async def scenario(place: Town) -> None:
        await place.start()
        secret = salt.master.SMaster.secrets["aes"]["secret"]
        secret.value = salt.crypt.Crypticle.generate_key_string().encode()
        place.publish(1)
        place.publish(2, jid="2")
        await place.until(lambda: place.counters.returns_acked == 4)
        assert place.counters.auth_ok == 4

    town(scenario, minions=2)


def test_new_key_keeps_the_order(town: Callable[..., None]) -> None:
    """What comes in the moment in which the new key is there does not overtake what waits for it."""

    async def scenario(place: Town) -> None:
        await place.start()
        secret = salt.master.SMaster.secrets["aes"]["secret"]
        secret.value = salt.crypt.Crypticle.generate_key_string().encode()
        minion = place.minions[0]
        old = minion.aes
        place.publish(1)
        place.publish(2, jid="2")
        await asyncio.sleep(0)
        assert minion._signing is not None
        # before the ones that wait are told
        minion._signing.add_done_callback(lambda _: place.publish(3, jid="3"))
        await place.until(lambda: place.counters.returns_acked == 3)
        assert minion.aes != old
        assert [load["jid"] for load in place.loads("_return")] == ["1", "2", "3"]
        assert minion._held is None

    town(scenario)


def test_session_that_the_master_forgot(town: Callable[..., None]) -> None:
    """A return that the master calls a bad load is sent again after signing in."""

    async def scenario(place: Town) -> None:
        await place.start()
        name = place.minions[0].id
        place.master.channel.sessions.clear()
        salt.crypt.Crypticle.write_key(f"{place.master.opts['cachedir']}/sessions/{name}")
        place.publish(1)
        await place.until(lambda: place.counters.returns_acked == 1)
        assert place.counters.auth_ok == 2
        assert place.counters.return_sends == 2

    town(scenario)


def test_pending_key(town: Callable[..., None]) -> None:
    """A key that waits to be accepted leaves the minion pending, without sockets."""

    async def pending(_payload: dict[str, Any]) -> dict[str, Any]:
        return {"enc": "clear", "load": {"ret": True}}

    async def scenario(place: Town) -> None:
        place.handle = pending
        with pytest.raises(PendingError):
            await place.minions[0].sign_in()
        assert (place.minions[0].phase, place.minions[0].connected) == (Phase.PENDING, False)
        assert place.counters.auth_sent == 1

    town(scenario)


def test_refreshed_pillar(town: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """saltutil.refresh_pillar fetches what targets see, and registers resources again."""

    async def scenario(place: Town) -> None:
        await place.start()
        # the master is that of all tests
        monkeypatch.setattr(place.master, "pillar", {"new": True})
        place.publish(1, fun="saltutil.refresh_pillar", arg=[{"__kwarg__": True, "wait": True}])
        await place.until(lambda: place.counters.returns_acked == 1)
        await place.until(lambda: len(place.loads("_register_resources")) == 2)
        assert place.shared.inventory.pillars.get(0) == {"new": True}
        assert place.loads("_pillar")[-1]["clean_cache"] is True

    town(scenario)


@pytest.mark.slow
def test_running_job_is_found(town: Callable[..., None]) -> None:
    """While a job runs, find_job finds it; once it has returned, it doesn't."""

    async def scenario(place: Town) -> None:
        await place.start()
        place.publish(1, fun="test.sleep", arg=[1])
        place.publish(2, jid="2", fun="saltutil.find_job", arg=["1"])
        await place.until(lambda: place.counters.returns_acked == 2)
        place.publish(3, jid="3", fun="saltutil.find_job", arg=["1"])
        await place.until(lambda: place.counters.returns_acked == 3)
        found = {load["jid"]: load["return"] for load in place.loads("_return")}
        assert (found["2"]["fun"], found["2"]["jid"], found["3"]) == ("test.sleep", "1", {})
        assert (place.counters.executions, place.counters.find_jobs) == (3, 2)

    town(scenario)


def test_ramp_brings_everyone_up(town: Callable[..., None], tmp_path: Path) -> None:
    """All minions get ready, and each has a sample of its start."""

    async def scenario(place: Town) -> None:
        ramp = place.ramp
        ramp.run()
        await place.until(lambda: ramp.assembled)
        assert all(minion.connected and minion.phase == Phase.AUTHENTICATED for minion in place.minions)
        ramp.begin()
        await place.until(lambda: all(minion.phase == Phase.READY for minion in place.minions))

    town(scenario, minions=5)
    rows = list(read_samples(tmp_path, StartRow))
    assert {row.minion for row in rows} == {f"minion-{number:05d}" for number in range(5)}
    assert all(row.auth_s <= row.pillar_s <= row.ready_s for row in rows)
