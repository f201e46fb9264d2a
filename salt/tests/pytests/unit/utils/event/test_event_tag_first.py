"""
Events are told by their tag: what is for somebody else is not unpacked
"""

# pylint: disable=protected-access

import asyncio

import pytest

import salt.master
import salt.netapi.rest_tornado.saltnado as saltnado
import salt.payload
import salt.transport.tcp
import salt.utils.batch_manager
import salt.utils.event
import salt.utils.msgpack
from tests.support.events import eventpublisher_process
from tests.support.mock import AsyncMock, MagicMock, patch

OTHERS = 200


class Subscriber:
    """
    A connection to the event bus that brings several events with each read
    """

    def __init__(self, *reads):
        self.reads = [list(read) for read in reads]
        self.buffered = []

    def close(self):
        pass

    def recv(self, timeout=None):
        if self.buffered:
            return self.buffered.pop(0)
        if not self.reads:
            return None
        self.buffered = self.reads.pop(0)
        return self.buffered.pop(0)

    def recv_buffered(self):
        return self.buffered.pop(0) if self.buffered else None


def _raw(tag, data=None):
    return salt.utils.event.SaltEvent.pack(tag, data or {})


@pytest.fixture
def bus(minion_opts):
    with salt.utils.event.SaltEvent("master", opts=minion_opts, listen=False) as event:
        event.cpub = True
        yield event
        event.cpub = False
        event.subscriber = None


@pytest.fixture
def loads():
    with patch("salt.payload.loads", wraps=salt.payload.loads) as function:
        yield function


def test_events_of_others_are_not_unpacked(bus, loads):
    others = [_raw(f"salt/job/2/ret/m{number}", {"x": 1}) for number in range(OTHERS)]
    bus.subscriber = Subscriber([*others, _raw("salt/job/1/ret/a", {"id": "a"})])
    assert bus.get_event(wait=1, tag="salt/job/1/", full=True) == {
        "tag": "salt/job/1/ret/a",
        "data": {"id": "a"},
    }
    assert loads.call_count == 1


def test_events_of_others_are_read_past_without_blocking(bus):
    """
    One call reads all that came with one read of the socket
    """
    others = [_raw(f"salt/job/2/ret/m{number}") for number in range(OTHERS)]
    bus.subscriber = Subscriber([*others, _raw("salt/job/1/ret/a")], others)
    found = bus.get_event(wait=30, tag="salt/job/1/", full=True, no_block=True)
    assert found["tag"] == "salt/job/1/ret/a"
    # and none when there is none, after one read
    assert bus.get_event(wait=30, tag="salt/job/1/", no_block=True) is None
    assert not bus.subscriber.reads and not bus.subscriber.buffered


def test_subscribed_events_of_others_are_kept_in_order(bus):
    kept = [_raw(f"salt/job/3/ret/{name}", {"id": name}) for name in "abc"]
    bus.subscriber = Subscriber([*kept[:2], _raw("salt/job/1/ret/a"), kept[2]])
    bus.subscribe("salt/job/3/")
    assert bus.get_event(wait=1, tag="salt/job/1/") == {}
    found = [bus.get_event(wait=1, tag="salt/job/3/")["id"] for _ in "abc"]
    assert found == ["a", "b", "c"]


def test_an_event_that_can_not_be_unpacked_is_skipped(bus):
    broken = b"salt/job/%d/ret/a\n\n\xc1"
    bus.subscriber = Subscriber([broken % 2, broken % 1, _raw("salt/job/1/ret/b")])
    found = bus.get_event(wait=1, tag="salt/job/1/", full=True)
    assert found["tag"] == "salt/job/1/ret/b"


def test_an_event_for_another_subproxy_is_not_taken(bus, loads):
    bus.opts["subproxy"] = True
    bus.opts["id"] = "mine"
    bus.subscriber = Subscriber(
        [
            _raw("refresh", {"proxy_target": "other"}),
            _raw("something", {"proxy_target": "mine"}),
            _raw("refresh", {"proxy_target": "mine"}),
        ]
    )
    assert bus.get_event(wait=1, tag="refresh") == {"proxy_target": "mine"}
    assert loads.call_count == 2


def test_a_function_tells_which_events_are_wanted(bus):
    bus.subscriber = Subscriber([_raw("a/1"), _raw("b/2"), _raw("c/1")])
    found = bus.get_event(
        wait=1, full=True, match_type=lambda tag, search: tag.startswith(("b", "c"))
    )
    assert found["tag"] == "b/2"


@pytest.mark.slow_test
def test_on_a_real_bus_one_unpacks_what_is_ones_own(tmp_path, loads):
    sock_dir = tmp_path / "s"
    sock_dir.mkdir()
    with eventpublisher_process(str(sock_dir)):
        with salt.utils.event.MasterEvent(str(sock_dir), listen=True) as event:
            for number in range(OTHERS):
                event.fire_event({"number": number}, f"other/{number}")
            event.fire_event({"number": -1}, "mine")
            assert event.get_event(wait=30, tag="mine")["number"] == -1
            assert loads.call_count == 1
            # nothing came twice or stayed behind
            assert event.get_event(wait=0.2, tag="") is None


@pytest.mark.slow_test
def test_order_on_a_real_bus(tmp_path):
    """
    Small and large events come as they were sent, whoever reads past others
    """
    sock_dir = tmp_path / "s"
    sock_dir.mkdir()
    sizes = [1, 5000, 70000, 10, 200000, 3]
    with eventpublisher_process(str(sock_dir)):
        with salt.utils.event.MasterEvent(str(sock_dir), listen=True) as event:
            for number, size in enumerate(sizes):
                event.fire_event({"other": "x" * size}, "other")
                event.fire_event({"number": number, "text": "x" * size}, "mine")
            found = [event.get_event(wait=30, tag="mine") for _ in sizes]
            assert [one["number"] for one in found] == list(range(len(sizes)))
            assert [len(one["text"]) for one in found] == sizes


def test_subscriber_that_keeps_no_messages(bus):
    """
    A transport of somebody else's may not know of kept messages
    """

    class Subscriber:
        def __init__(self):
            self.messages = [_raw("other"), _raw("mine", {"number": 1})]

        def recv(self, timeout=None):
            return self.messages.pop(0) if self.messages else None

    bus.subscriber = Subscriber()
    assert bus.get_event(wait=1, tag="mine")["number"] == 1


async def test_buffered_messages_of_the_publish_client(io_loop, master_opts):
    client = salt.transport.tcp.PublishClient(master_opts, io_loop, path="unused")
    assert client.recv_buffered() is None
    frames = [salt.utils.msgpack.dumps({"body": name}) for name in (b"a", b"b", b"c")]
    client.unpacker.feed(b"".join(frames)[:-1])
    assert [client.recv_buffered() for _ in range(3)] == [b"a", b"b", None]
    client.unpacker.feed(frames[-1][-1:])
    assert client.recv_buffered() == b"c"
    client.close()


async def test_messages_of_one_read_leave_the_loop_its_turns(io_loop, master_opts):
    """
    However many messages one read brings: a few are handled, then others come
    """
    client = salt.transport.tcp.PublishClient(master_opts, io_loop, path="unused")
    client._stream = object()
    frames = [salt.utils.msgpack.dumps({"body": b"x"}) for _ in range(1000)]
    client.unpacker.feed(b"".join(frames))
    begun = []

    async def handle(msg):
        begun.append(msg)

    taken = []

    def recv_all(original=client.recv):
        async def recv():
            taken.append(len(begun))
            if len(taken) > len(frames):
                raise asyncio.CancelledError
            return await original()

        return recv

    client.recv = recv_all()
    with pytest.raises(asyncio.CancelledError):
        await client.on_recv_handler(handle)
    # how many messages had been taken that nobody had begun to handle
    assert max(number - done for number, done in enumerate(taken)) <= 25
    client._stream = None
    client.close()


@pytest.fixture
def manager(master_opts):
    return salt.utils.batch_manager.BatchManager(master_opts)


@pytest.mark.parametrize(
    "tag, idle, active",
    [
        ("salt/batch/1/new", True, True),
        ("salt/batch/1/stop", True, True),
        ("salt/batch/1/unknown", False, False),
        ("salt/job/1/ret/m", False, True),
        ("salt/job/2/ret/m", False, False),
        ("salt/auth", False, False),
        ("minion/refresh/m", False, False),
    ],
)
def test_events_that_the_batch_manager_acts_on(manager, tag, idle, active):
    # pylint: disable=protected-access
    assert manager._wanted(tag) is idle
    manager.active_batches = {"1"}
    assert manager._wanted(tag) is active


def test_batch_manager_asks_for_these(manager):
    """
    What it asks the bus for is what it acts on, and a silent bus ends its wait
    """
    manager.active_batches = {"1"}
    manager.event = salt.utils.event.SaltEvent(
        "master", opts=manager.opts, listen=False
    )
    manager.event.cpub = True
    manager.event.subscriber = Subscriber(
        [_raw("salt/job/2/ret/m"), _raw("salt/job/1/ret/m", {"id": "m"})]
    )
    seen = []

    class Stopped(BaseException):
        pass

    def tick():
        if len(seen) == 1 and manager.event.subscriber.reads == []:
            raise Stopped

    try:
        with patch.object(manager, "_post_fork_init"), patch.object(
            manager, "_handle_event", seen.append
        ), patch.object(manager, "_tick", tick), pytest.raises(Stopped):
            manager.run()
    finally:
        manager.event.cpub = False
        manager.event.subscriber = None
        manager.event.destroy()
    assert seen == [{"tag": "salt/job/1/ret/m", "data": {"id": "m"}}]


@pytest.mark.parametrize(
    "tag, clustered",
    [
        ("salt/job/1/publish", True),
        ("salt/jobs/publish", True),
        ("salt/job/1/new", True),
        ("salt/job/1/ret/m", True),
        ("salt/key", True),
        ("rotate_cluster_aes_key", True),
        ("salt/auth", False),
    ],
)
async def test_event_monitor_unpacks_what_it_may_act_on(
    master_opts, loads, tag, clustered
):
    """
    A master of its own has no peers, so nothing on its bus comes from one
    """
    for cluster_id, unpacked in ((None, False), ("c", clustered)):
        loads.reset_mock()
        master_opts["cluster_id"] = cluster_id
        monitor = salt.master.EventMonitor(master_opts, ipc_publisher=MagicMock())
        await monitor.handle_event(_raw(tag, {"jid": "1"}))
        assert loads.call_count == unpacked


async def test_event_monitor_forwards_a_publication_of_a_peer(master_opts):
    master_opts["cluster_id"] = "c"
    channel = MagicMock(publish=AsyncMock())
    monitor = salt.master.EventMonitor(
        master_opts, ipc_publisher=MagicMock(), channels=[channel]
    )
    data = {"jid": "1", "__peer_id": "other", "_stamp": "now"}
    await monitor.handle_event(_raw("salt/job/1/publish", data))
    channel.publish.assert_called_once_with({"jid": "1"})


async def test_saltnado_unpacks_nothing_when_nobody_waits(loads):
    listener = saltnado.EventListener.__new__(saltnado.EventListener)
    listener.event = salt.utils.event.SaltEvent
    listener.tag_map = {}
    # pylint: disable=protected-access
    await listener._handle_event_socket_recv(_raw("salt/job/1/ret/m"))
    assert loads.call_count == 0
