"""
Tests of the time after which the master's sockets drop peers that vanished
"""

# pylint: disable=protected-access

import pytest
import zmq

import salt.transport.zeromq
from tests.support.mock import MagicMock, patch

pytestmark = [
    pytest.mark.skipif(
        not hasattr(zmq, "TCP_MAXRT"), reason="Needs a libzmq of 4.2 or newer"
    ),
]

# what stock's heartbeats allow: one is sent each 10 s, and has 30 s for its answer
LIMIT_MS = 40000
ON = {"tcp_keepalive": True, "zmq_kernel_keepalive": True}


@pytest.fixture
def sock():
    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    try:
        yield socket
    finally:
        socket.close(linger=0)
        context.term()


@pytest.fixture(autouse=True)
def linux():
    with patch("salt.utils.platform.is_linux", return_value=True):
        yield


def _options(socket):
    return {
        name: socket.getsockopt(getattr(zmq, name))
        for name in (
            "HEARTBEAT_IVL",
            "HEARTBEAT_TIMEOUT",
            "TCP_KEEPALIVE",
            "TCP_KEEPALIVE_IDLE",
            "TCP_KEEPALIVE_INTVL",
            "TCP_KEEPALIVE_CNT",
            "TCP_MAXRT",
        )
    }


def test_the_kernel_drops_peers_as_soon_as_heartbeats_did(sock):
    salt.transport.zeromq._set_tcp_keepalive(
        sock, {"tcp_keepalive": True, "tcp_keepalive_idle": 300}
    )
    salt.transport.zeromq._set_peer_timeout(sock, ON)
    found = _options(sock)
    assert found["TCP_KEEPALIVE"] == 1
    # what is sent and not acknowledged, and what is idle
    assert found["TCP_MAXRT"] == LIMIT_MS
    idle, interval, count = (
        found[f"TCP_KEEPALIVE_{name}"] for name in ("IDLE", "INTVL", "CNT")
    )
    assert (idle + interval * count) * 1000 == LIMIT_MS
    # a probe that is lost in a crowd of them does not come again with the same crowd
    assert idle % interval
    assert count >= 8


def test_heartbeats_remain_for_peers_that_only_a_kernel_answers_for(sock):
    salt.transport.zeromq._set_peer_timeout(sock, ON)
    found = _options(sock)
    assert found["HEARTBEAT_IVL"] == 180000
    assert found["HEARTBEAT_TIMEOUT"] == 30000


@pytest.mark.parametrize(
    "opts, expected",
    (
        ({"zmq_heartbeat_ivl": 5000}, (5000, 30000, 40000)),
        ({"zmq_heartbeat_timeout": 60000}, (180000, 60000, 70000)),
        ({"zmq_heartbeat_timeout": 3600000}, (180000, 3600000, 3610000)),
        ({"zmq_heartbeat_timeout": 1000}, (180000, 1000, 11000)),
        ({"zmq_heartbeat_ivl": 0}, (0, 30000, 40000)),
    ),
)
def test_heartbeats_are_as_set(sock, opts, expected):
    salt.transport.zeromq._set_peer_timeout(sock, {**ON, **opts})
    found = _options(sock)
    names = ("HEARTBEAT_IVL", "HEARTBEAT_TIMEOUT", "TCP_MAXRT")
    assert tuple(found[name] for name in names) == expected


@pytest.mark.parametrize("opts", (None, {}, {"zmq_kernel_keepalive": False}))
def test_off_by_default(sock, opts):
    """
    Then heartbeats do it alone, as before
    """
    before = _options(sock)
    salt.transport.zeromq._set_peer_timeout(sock, opts)
    found = _options(sock)
    assert (found["HEARTBEAT_IVL"], found["HEARTBEAT_TIMEOUT"]) == (10000, 30000)
    for name in ("TCP_KEEPALIVE", "TCP_KEEPALIVE_IDLE", "TCP_MAXRT"):
        assert found[name] == before[name]


def test_default(master_opts):
    assert master_opts["zmq_kernel_keepalive"] is False


def test_other_kernels_leave_it_to_heartbeats(sock):
    before = _options(sock)
    with patch("salt.utils.platform.is_linux", return_value=False):
        salt.transport.zeromq._set_peer_timeout(sock, ON)
    found = _options(sock)
    assert (found["HEARTBEAT_IVL"], found["HEARTBEAT_TIMEOUT"]) == (10000, 30000)
    assert found["TCP_MAXRT"] == before["TCP_MAXRT"]


def test_an_old_libzmq_leaves_it_to_heartbeats(sock):
    with patch.object(salt.transport.zeromq, "zmq", MagicMock(wraps=zmq)) as old:
        old.HEARTBEAT_IVL, old.HEARTBEAT_TIMEOUT = (
            zmq.HEARTBEAT_IVL,
            zmq.HEARTBEAT_TIMEOUT,
        )
        del old.TCP_MAXRT
        salt.transport.zeromq._set_peer_timeout(sock, ON)
    assert sock.getsockopt(zmq.HEARTBEAT_IVL) == 10000


def test_the_publish_socket_is_looked_after(master_opts):
    """
    The publish socket is made with it
    """
    master_opts["sock_dir"] = "/tmp"
    server = salt.transport.zeromq.PublishServer(
        master_opts, pub_host="127.0.0.1", pub_port=0, pull_host="127.0.0.1"
    )
    context = MagicMock()
    with patch.object(salt.transport.zeromq, "ZeroMQSocketMonitor"), patch.object(
        salt.transport.zeromq, "_set_peer_timeout"
    ) as looked_after:
        _, pub_sock, _ = server._get_sockets(context, MagicMock())
    looked_after.assert_called_once_with(pub_sock, master_opts)


def test_the_request_socket_is_looked_after(master_opts):
    """
    The socket that minions send their requests to is made with it
    """

    class Enough(Exception):
        """What comes after it is not run"""

    server = salt.transport.zeromq.RequestServer(master_opts)
    with patch.object(salt.transport.zeromq.zmq, "Context"), patch.object(
        server, "_RequestServer__setup_signals"
    ), patch.object(
        salt.transport.zeromq, "_set_peer_timeout", side_effect=Enough
    ) as looked_after, pytest.raises(
        Enough
    ):
        server.zmq_device_pooled({"default": {"worker_count": 1}})
    looked_after.assert_called_once_with(server.clients, master_opts)
