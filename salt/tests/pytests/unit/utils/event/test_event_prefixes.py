"""
Who needs few of the events tells the event bus so, which leaves the others out
"""

# pylint: disable=protected-access

import asyncio
import time
from contextlib import contextmanager

import pytest

import salt.master
import salt.transport
import salt.utils.batch_state
import salt.utils.event
from salt.utils.batch_manager import SECOND_LOOK_AFTER, BatchManager
from salt.utils.process import Process, clean_proc
from tests.support.mock import MagicMock, patch

pytestmark = [
    pytest.mark.skip_on_windows(reason="Unix sockets"),
]

JID = "20261122000000000000"
# tries until the bus has heard of a wish, 0.1 s each
TRIES = 300


@contextmanager
def _bus(sock_dir):
    """
    The event bus of a master, as a process of its own
    """
    server = salt.transport.ipc_publish_server(
        "master", {"sock_dir": str(sock_dir), "ipc_mode": "ipc", "ipv6": None}
    )
    process = Process(target=server.publish_daemon, args=[server.publish_payload])
    process.start()
    try:
        assert server.started.wait(60)
        yield
    finally:
        clean_proc(process)
        server.close()


def _left_out(sender, heard):
    """
    Fire events until none of them is heard: the bus knows
    """
    for number in range(TRIES):
        sender.fire_event({}, f"b/{number}")
        sender.fire_event({}, f"a/{number}")
        tags = []
        while not tags or tags[-1] not in (f"a/{number}", None):
            tags.append(heard())
        if tags[-1] and f"b/{number}" not in tags:
            return True
        time.sleep(0.1)
    return False


def test_on_a_real_bus(tmp_path):
    sock_dir = tmp_path / "s"
    sock_dir.mkdir()
    with _bus(sock_dir), salt.utils.event.MasterEvent(
        str(sock_dir), listen=True
    ) as event:

        def heard():
            # the bus may not know of a connection yet that is there
            found = event.get_event(wait=10, tag="", full=True)
            return found["tag"] if found else None

        event.receive_only(["a/"])
        assert _left_out(event, heard)
        # a connection of another day begins with the same wish
        event.close_pub()
        assert event.connect_pub(timeout=30)
        assert _left_out(event, heard)
        event.receive_only(None)
        for _ in range(TRIES):
            event.fire_event({}, "b/last")
            event.fire_event({}, "a/last")
            if heard() == "b/last":
                break
            time.sleep(0.1)
        else:
            raise AssertionError("The bus still leaves events out")


def test_confirmed_by_a_real_bus(tmp_path):
    """
    From the confirmation on everything else is left out, or comes again
    """
    sock_dir = tmp_path / "s"
    sock_dir.mkdir()
    with _bus(sock_dir), salt.utils.event.MasterEvent(
        str(sock_dir), listen=True
    ) as event:
        # what comes meanwhile is kept for whoever subscribed to it
        event.subscribe("b/kept")
        event.fire_event({"number": 1}, "b/kept")
        assert event.receive_only(["a/", "b/kept"], wait=30)
        event.fire_event({}, "b/1")
        event.fire_event({}, "a/1")
        assert event.get_event(wait=30, tag="", full=True)["tag"] == "b/kept"
        assert event.get_event(wait=30, tag="", full=True)["tag"] == "a/1"
        assert event.receive_only(None, wait=30)
        event.fire_event({}, "b/2")
        assert event.get_event(wait=30, tag="", full=True)["tag"] == "b/2"


def test_confirmed_by_nobody(tmp_path):
    """
    Not connected there is nothing to wait for, and an older bus says nothing
    """
    sock_dir = tmp_path / "s"
    sock_dir.mkdir()
    with salt.utils.event.MasterEvent(str(sock_dir), listen=False) as event:
        with patch.object(event, "get_event") as get_event:
            assert not event.receive_only(["a/"], wait=30)
        assert not get_event.called
    with patch.object(salt.transport.tcp.PubServer, "_confirm_prefixes"), _bus(
        sock_dir
    ), salt.utils.event.MasterEvent(str(sock_dir), listen=True) as event:
        assert not event.receive_only(["a/"], wait=0.1)
        event.fire_event({}, "a/1")
        assert event.get_event(wait=30, tag="", full=True)["tag"] == "a/1"


def test_what_is_subscribed_to(minion_opts):
    """
    Where the beginning of a tag does not tell it, everything is received
    """
    with salt.utils.event.SaltEvent("master", opts=minion_opts, listen=False) as event:
        event.receive_subscribed()
        assert event.prefixes == []
        event.subscribe("a/")
        event.subscribe("b/", "startswith")
        event.receive_subscribed()
        assert event.prefixes == ["a/", "b/"]
        with patch.object(event, "receive_only") as receive_only:
            event.receive_subscribed()
        assert not receive_only.called
        event.subscribe("c/.*", "regex")
        event.receive_subscribed()
        assert event.prefixes is None
        event.unsubscribe("c/.*", "regex")
        event.receive_subscribed()
        assert event.prefixes == ["a/", "b/"]
        for number in range(salt.utils.event.MAX_PREFIXES - 1):
            event.subscribe(f"d/{number}")
        event.receive_subscribed()
        assert event.prefixes is None


def test_on_a_real_bus_with_an_event_handler(tmp_path):
    sock_dir = tmp_path / "s"
    sock_dir.mkdir()
    tags = []

    async def handler(raw):
        tags.append(salt.utils.event.SaltEvent.unpack_tag(raw))

    async def listen(sender):
        with salt.utils.event.MasterEvent(
            str(sock_dir), listen=True, io_loop=asyncio.get_running_loop()
        ) as event:
            event.receive_only(["a/"])
            event.set_event_handler(handler)
            for number in range(TRIES):
                sender.fire_event({}, f"b/{number}")
                sender.fire_event({}, f"a/{number}")
                for _ in range(TRIES):
                    if f"a/{number}" in tags:
                        break
                    await asyncio.sleep(0.01)
                if f"a/{number}" in tags and f"b/{number}" not in tags:
                    return True
            return False

    with _bus(sock_dir), salt.utils.event.MasterEvent(
        str(sock_dir), listen=False
    ) as sender:
        assert asyncio.run(listen(sender))


def test_subscriber_of_another_kind(minion_opts):
    """
    A transport of somebody else's may not know of wishes: it brings everything
    """

    class Subscriber:
        def close(self):
            pass

    with salt.utils.event.SaltEvent("master", opts=minion_opts, listen=False) as event:
        event.cpub, event.subscriber = True, Subscriber()
        event.receive_only(["a/"])
        event.cpub, event.subscriber = False, None


@pytest.mark.parametrize("cluster_id", ["", "blue"])
def test_event_monitor(master_opts, cluster_id):
    """
    A master of its own has nothing to take over from peers
    """
    monitor = salt.master.EventMonitor({**master_opts, "cluster_id": cluster_id}, None)
    bus = MagicMock()
    with patch("salt.utils.event.get_master_event") as get_master_event, patch(
        "asyncio.new_event_loop"
    ), patch("asyncio.set_event_loop"):
        get_master_event.return_value.__enter__.return_value = bus
        monitor.run()
    assert bus.set_event_handler.called  # pylint: disable=no-member
    if cluster_id:
        assert not bus.receive_only.called
    else:
        (prefixes,) = bus.receive_only.call_args.args
        # it acts upon nothing without a cluster, and this tag has no sender then
        assert not monitor._wanted("rotate_cluster_aes_key")
        assert "rotate_cluster_aes_key".startswith(tuple(prefixes))
        assert not "salt/job/1/ret/m".startswith(tuple(prefixes))


class Bus:
    """
    An event bus that notes what is wished for
    """

    def __init__(self):
        self.prefixes = None
        self.wishes = []

    def receive_only(self, prefixes):
        self.prefixes = prefixes
        self.wishes.append(prefixes)

    def fire_event(self, data, tag):
        pass


@pytest.fixture
def opts(tmp_path):
    return {
        "cachedir": str(tmp_path),
        "hash_type": "sha256",
        "sock_dir": str(tmp_path),
        "conf_file": str(tmp_path / "master"),
        "master_job_cache": "local_cache",
    }


@pytest.fixture
def manager(opts):
    made = BatchManager(opts)
    made.event = Bus()
    made.local = MagicMock()
    made.local.returners = {"local_cache.get_jid": MagicMock(return_value={})}
    made.output = MagicMock()
    return made


def _batch(opts, **overrides):
    state = salt.utils.batch_state.create_batch_state(
        {"batch": 2, "fun": "test.ping", "tgt": "*"},
        ["m1", "m2", "m3"],
        JID,
        driver="master",
    )
    state["active"] = dict.fromkeys(["m1", "m2"], state["created"])
    state["pending"] = ["m3"]
    state.update(overrides)
    assert salt.utils.batch_state.write_batch_state(JID, state, opts)


def test_nothing_is_said_unasked(tmp_path):
    """
    A listener that wants everything costs what it did
    """
    with salt.utils.event.MasterEvent(str(tmp_path), listen=False) as event:
        with patch.object(event, "_tell_prefixes") as tell, patch(
            "salt.utils.asynchronous.SyncWrapper"
        ):
            event.connect_pub()
            assert not tell.called
            event.cpub, event.subscriber = False, None
            event.receive_only(["a/"])
            assert not tell.called
            event.connect_pub()
            assert tell.call_count == 1
            event.receive_only(None)
            assert tell.call_count == 2
            event.cpub, event.subscriber = False, None


IDLE = ["salt/batch/"]
BUSY = ["salt/batch/", "salt/job/"]


def test_batch_manager_at_rest(manager):
    manager._listen()
    manager._tick()
    manager._listen()
    assert manager.event.wishes == [IDLE]


def _looked(manager):
    """
    Note what was wished for when the job cache was first asked
    """
    seen = []

    def get_jid(_):
        seen.append(manager.event.prefixes)
        return {}

    manager.local.returners["local_cache.get_jid"] = get_jid
    return seen


@pytest.mark.parametrize("how", ["new", "recover", "index"])
def test_batch_manager_wishes_before_it_looks(manager, opts, how):
    """
    Between the bus and the job cache no return falls through: the bus is told
    before the cache is asked, and the cache is asked again
    """
    _batch(opts)
    manager._listen()
    seen = _looked(manager)
    if how == "index":
        salt.utils.batch_state.add_to_active_index(JID, opts)
    else:
        manager._handle_event({"tag": f"salt/batch/{JID}/{how}", "data": {}})
    manager._tick()
    assert manager.active_batches == {JID}
    assert seen == [BUSY]
    assert manager.event.wishes == [IDLE, BUSY]


def test_batch_manager_that_could_not_look_it_up(manager, opts):
    """
    Returns that no cache keeps may come before their batch is adopted
    """
    manager.opts = {**opts, "job_cache": False}
    manager._listen()
    assert manager.event.wishes == [BUSY]


def test_batch_manager_beside_the_job_handler(manager, opts):
    """
    What that says of a batch's first part stands in the batch
    """
    manager.opts = {**opts, "rate_limiting": {"criteria": "capacity"}}
    manager._listen()
    assert manager.event.wishes == [IDLE]


def test_batch_manager_waits_no_longer_than_for_its_second_look(manager, opts):
    assert manager._patience(5) == 5
    _batch(opts)
    manager._handle_event({"tag": f"salt/batch/{JID}/new", "data": {}})
    manager._tick()
    assert manager._patience(5) == SECOND_LOOK_AFTER
    assert manager._patience(1) == 1
    manager._tick(now=time.time() + SECOND_LOOK_AFTER)
    assert manager._patience(5) == 5


def test_batch_manager_after_its_last_batch(manager, opts):
    _batch(opts)
    manager._handle_event({"tag": f"salt/batch/{JID}/new", "data": {}})
    _batch(opts, halted=True)
    manager._tick()
    manager._listen()
    assert manager.event.wishes == [BUSY, IDLE]


def test_batch_manager_wishes_for_all_that_it_wants(manager):
    for batches, wish in (set(), IDLE), ({JID}, BUSY):
        manager.active_batches = batches
        manager._listen()
        assert manager.event.prefixes == wish
        for tag in (
            f"salt/batch/{JID}/new",
            f"salt/batch/{JID}/stop",
            f"salt/job/{JID}/ret/m1",
            f"salt/job/{JID}/queued",
            f"salt/job/{JID}/discarded",
        ):
            assert not manager._wanted(tag) or tag.startswith(tuple(wish))
