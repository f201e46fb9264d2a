"""
A command that waits for its answers does not hear those of others
"""

# pylint: disable=protected-access

import time
from contextlib import contextmanager

import pytest
from pytestshellutils.utils.ports import get_unused_localhost_port

import salt.client
import salt.transport
import salt.utils.event
from salt.exceptions import SaltClientError
from salt.utils.process import Process, clean_proc
from tests.support.mock import patch

pytestmark = [
    pytest.mark.skip_on_windows(reason="Unix sockets"),
]

JIDS = [f"2026112200000000000{number}" for number in range(10)]
MINE = f"salt/job/{JIDS[0]}"


@pytest.fixture
def sock_dir(tmp_path):
    path = tmp_path / "s"
    path.mkdir()
    return path


@pytest.fixture
def client(master_opts, sock_dir):
    opts = {**master_opts, "sock_dir": str(sock_dir)}
    with salt.client.LocalClient(mopts=opts) as client:
        yield client


@contextmanager
def _bus(sock_dir, opts=None):
    """
    The event bus of a master, as a process of its own
    """
    server = salt.transport.ipc_publish_server(
        "master",
        opts or {"sock_dir": str(sock_dir), "ipc_mode": "ipc", "ipv6": None},
    )
    process = Process(target=server.publish_daemon, args=[server.publish_payload])
    process.start()
    try:
        assert server.started.wait(60)
        yield
    finally:
        clean_proc(process)
        server.close()


@contextmanager
def _master(client, at_publication=lambda number: None, minions=("minion",)):
    """
    A master that accepts every job; yield what it has been asked
    """
    asked = []

    def pub(tgt, fun, *args, **kwargs):
        assert client.event.connect_pub(timeout=30)
        number = len(asked)
        asked.append((fun, client.event.prefixes))
        at_publication(number)
        return {"jid": JIDS[number], "minions": list(minions)}

    with patch.object(client, "pub", pub):
        yield asked


class _Clock:
    """
    A second goes by with each look at the event bus
    """

    def __init__(self):
        self.now = 1000.0

    def time(self):
        return self.now

    def sleep(self, seconds):
        time.sleep(seconds)
        self.now += 1


def _return(client, number, minion="minion", value=True):
    data = {"id": minion, "return": value, "retcode": 0, "jid": JIDS[number]}
    client.event.fire_event(data, f"salt/job/{JIDS[number]}/ret/{minion}")


@pytest.mark.parametrize("how", ["cmd", "cmd_cli", "cmd_full_return"])
def test_a_command_hears_its_own_job(client, sock_dir, how):
    """
    The answers of others are left out as soon as the job id is known
    """
    found = []

    def wait(jid, *args, **kwargs):
        # what was under way is past
        assert client.event.receive_only(client.event.prefixes, wait=30)
        found.append(client.event.prefixes)
        _return(client, 1)
        _return(client, 0)
        found.append(client.event.get_event(wait=30, tag="", full=True)["tag"])
        return {} if how == "cmd_full_return" else iter(())

    waits = "get_cli_static_event_returns" if how == "cmd_full_return" else ""
    # as the salt command does
    client.exclusive = True
    with _bus(sock_dir), _master(client) as asked, patch.object(
        client, waits or "get_cli_event_returns", wait
    ):
        list(getattr(client, how)("*", "test.ping"))
        assert asked == [("test.ping", None)]
        assert found == [[MINE], f"{MINE}/ret/minion"]
        # the next connection is somebody else's
        assert client.event.prefixes is None
        assert not client.event.cpub
        assert not client.hears_own


def test_answers_that_come_before_the_job_id_is_known(client, sock_dir):
    """
    A publication is heard of by minions before it is by who asked for it
    """

    def publish(number):
        if number == 0:
            _return(client, number)

    with _bus(sock_dir), _master(client, publish), patch.object(
        client, "returns_for_job", return_value={"jid": JIDS[0]}
    ):
        assert client.cmd("*", "test.ping", timeout=30) == {"minion": True}


def test_whether_a_job_still_runs(client, sock_dir):
    """
    Before the question everything is heard again, as its job id is not known;
    the answers to earlier questions are of no use any more
    """
    client.opts["gather_job_timeout"] = 5
    heard = []
    clock = _Clock()

    def publish(number):
        # at once: who does not hear everything by now does not get it
        if number:
            _return(client, number, value={"jid": JIDS[0]})
        if number == 3:
            _return(client, 0)
        if number:
            # they are on their way before the client's clock goes on
            last = JIDS[0] if number == 3 else JIDS[number]
            assert other.get_event(wait=30, tag=f"salt/job/{last}/ret")

    check = client._check_pub_data

    def checked(*args, **kwargs):
        ret = check(*args, **kwargs)
        heard.append(client.event.prefixes)
        return ret

    with _bus(sock_dir), salt.utils.event.MasterEvent(
        str(sock_dir), listen=True
    ) as other, _master(client, publish) as asked, patch.object(
        client, "returns_for_job", return_value={"jid": JIDS[0]}
    ), patch.object(
        client, "_check_pub_data", checked
    ), patch(
        "salt.utils.minions.CkMinions._pki_minions", return_value={"minion"}
    ), patch(
        "salt.client.time", clock
    ), patch.object(
        client.event, "wait_for_events"
    ):
        assert client.cmd("*", "test.ping", timeout=5) == {"minion": True}
    assert asked == [("test.ping", None)] + [("saltutil.find_job", None)] * 3
    assert heard[0] == [MINE]
    assert heard[-1][0] == MINE
    assert f"salt/job/{JIDS[3]}" in heard[-1]
    assert f"salt/job/{JIDS[1]}" not in heard[-1]


def test_a_connection_that_was_there_before(client, sock_dir):
    """
    Somebody else may read it: it hears what it did
    """
    seen = []

    def wait(jid, *args, **kwargs):
        seen.append(client.hears_own)
        return iter(())

    with _bus(sock_dir), _master(client), patch.object(
        client, "get_cli_event_returns", wait
    ):
        assert client.event.connect_pub(timeout=30)
        with patch.object(client.event, "receive_only") as receive_only:
            client.cmd("*", "test.ping")
        assert not receive_only.called
        assert client.event.cpub
    assert seen == [False]


def test_answers_one_by_one(client, sock_dir):
    """
    Whoever takes them may ask something else on the same connection meanwhile,
    and hears the answers
    """
    seen = []

    def wait(jid, *args, **kwargs):
        seen.append(client.event.prefixes)
        return iter(())

    with _bus(sock_dir), _master(client), patch.object(
        client, "get_cli_event_returns", wait
    ):
        list(client.cmd_cli("*", "test.ping"))
    assert seen == [None]


def test_closed_early(client, sock_dir):
    """
    The connection is given back whatever becomes of the command
    """
    client.exclusive = True
    with _bus(sock_dir), _master(client), patch.object(
        client, "get_cli_event_returns", return_value=iter([{"minion": {"ret": 1}}] * 2)
    ):
        answers = client.cmd_cli("*", "test.ping")
        assert next(answers) == {"minion": {"ret": 1}}
        assert client.event.prefixes == [MINE]
        answers.close()
    assert (client.hears_own, client.event.prefixes, client.event.cpub) == (
        False,
        None,
        False,
    )
    with patch.object(client, "pub", side_effect=SaltClientError), pytest.raises(
        SaltClientError
    ):
        client.cmd("*", "test.ping")
    assert not client.hears_own


def test_a_command_within_a_command(client, sock_dir):
    """
    Whoever asks something else on the same connection hears the answers
    """
    client.exclusive = True
    seen = []

    def wait(jid, *args, **kwargs):
        if not seen:
            seen.append(client.event.prefixes)
            client.cmd("*", "test.ping")
            seen.append(client.event.prefixes)
        return iter(())

    with _bus(sock_dir), _master(client) as asked, patch.object(
        client, "get_cli_event_returns", wait
    ):
        list(client.cmd_cli("*", "test.ping"))
    assert seen == [[MINE], None]
    assert asked == [("test.ping", None)] * 2


def test_a_master_of_masters_hears_everything(client, sock_dir):
    """
    What syndics say has a tag that does not begin with the job
    """
    client.opts["order_masters"] = True
    found = []

    def wait(jid, *args, **kwargs):
        found.append(client.event.prefixes)
        # nor does it sleep past what it has to do for its syndics
        with patch.object(client.event, "wait_for_events") as wait_for_events:
            client._pause(5)
        assert not wait_for_events.called
        return iter(())

    with _bus(sock_dir), _master(client), patch.object(
        client, "get_cli_event_returns", wait
    ):
        client.cmd("*", "test.ping")
    assert found == [None]


def test_a_bus_that_does_not_confirm(client, sock_dir):
    """
    It is an older one and sends everything, or it is late: the job goes out
    """
    with _bus(sock_dir), _master(client) as asked, patch.object(
        client.event, "get_event", return_value=None
    ):
        client.event.connect_pub(timeout=30)
        client.hears_own = True
        client.event.receive_only([MINE])
        assert client.run_job("*", "test.ping", listen=True)["jid"] == JIDS[0]
    assert asked == [("test.ping", None)]
    # it is not waited for again
    assert client.event.prefixes is None


@pytest.mark.parametrize("ipc_mode", ["ipc", "tcp"])
def test_the_bus_has_gone(master_opts, sock_dir, ipc_mode):
    """
    A question without a bus is no reason to wait without end
    """
    opts = {
        **master_opts,
        "sock_dir": str(sock_dir),
        "ipc_mode": ipc_mode,
        "tcp_master_pub_port": get_unused_localhost_port(),
        "tcp_master_pull_port": get_unused_localhost_port(),
    }
    with salt.client.LocalClient(mopts=opts) as client, _master(client) as asked:
        with _bus(sock_dir, opts):
            assert client.event.connect_pub(timeout=30)
            client.hears_own = True
            assert client.event.receive_only([MINE], wait=30)
        with patch.object(client.event, "connect_pub", return_value=True):
            assert client.run_job("*", "test.ping", listen=True)["jid"] == JIDS[0]
        assert asked == [("test.ping", None)]
        assert client.event.prefixes is None


def test_another_bus_meanwhile(client, sock_dir):
    """
    It is told what is wanted, and confirms it too
    """
    with _master(client) as asked:
        with _bus(sock_dir):
            assert client.event.connect_pub(timeout=30)
            client.hears_own = True
            client.event.subscribe(MINE)
            client.event.receive_subscribed()
        with _bus(sock_dir):
            for _ in range(300):
                client.event.wait_for_events(0.1)
                if client.event.subscriber.obj._stream is not None:
                    break
            # what was told to the one before holds for this one
            assert client.event.receive_only([MINE], wait=30)
            _return(client, 1)
            _return(client, 0)
            got = client.event.get_event(wait=30, tag="", full=True)
            assert got["tag"] == f"{MINE}/ret/minion"
        with _bus(sock_dir):
            client._hear_all()
            assert client.hears_own
            _return(client, 1)
            assert client.event.get_event(wait=30, tag=f"salt/job/{JIDS[1]}")
    assert not asked


def test_who_does_not_listen(client):
    """
    Nothing is said to the bus of a job that nobody waits for
    """
    with patch.object(
        client, "pub", return_value={"jid": JIDS[0], "minions": ["minion"]}
    ), patch.object(client.event, "receive_only") as receive_only:
        assert client.cmd_async("*", "test.ping") == JIDS[0]
    assert not receive_only.called


@pytest.mark.parametrize(
    "patience, seconds", [(5, 1), (1, 1), (0.5, 0.5), (0.01, 0.05), (-3, 0.05)]
)
def test_pause(client, patience, seconds):
    """
    A command that hears its own events sleeps until there is one, but not
    past what else it has to do; others look often, as events come anyway
    """
    with patch("salt.client.time.sleep") as sleep, patch.object(
        client.event, "wait_for_events"
    ) as wait_for_events:
        client._pause(patience)
        assert not wait_for_events.called
        client.hears_own = True
        client.event.prefixes = [MINE]
        client._pause(patience)
    assert [call.args for call in sleep.call_args_list] == [(0.01,)] * 2
    assert [call.args for call in wait_for_events.call_args_list] == [(seconds,)]


@pytest.mark.parametrize("hears_own", [False, True])
def test_what_came_together_is_taken_together(client, sock_dir, hears_own):
    """
    One look at the bus takes all that there is, then the caller may pause
    """
    minions = [f"minion-{number}" for number in range(3)]
    client.hears_own = hears_own
    client.event.prefixes = [MINE] if hears_own else None
    calls, found = [], []
    get_event = client.event.get_event

    def counted(*args, buffered=False, **kwargs):
        calls.append(buffered)
        return get_event(*args, buffered=buffered, **kwargs)

    with _bus(sock_dir), salt.utils.event.MasterEvent(
        str(sock_dir), listen=True
    ) as other:
        assert client.event.connect_pub(timeout=30)
        for minion in minions:
            _return(client, 0, minion)
        for _ in minions:
            assert other.get_event(wait=30, tag=MINE)
        # some may come alone
        while len(found) < len(minions):
            client.event.wait_for_events(30)
            with patch.object(client.event, "get_event", counted):
                for event in client.get_returns_no_block(MINE):
                    if event is None:
                        break
                    found.append(event["data"]["id"])
    assert found == minions
    # each is one that looks at the bus or one that takes what came with it
    looks = [not buffered for buffered in calls]
    assert any(calls) == hears_own
    assert sum(looks) <= len(minions) if hears_own else all(looks)
