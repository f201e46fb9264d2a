"""
What is checked of a request before anything in it is used
"""

# pylint: disable=protected-access,no-member

import ctypes
import multiprocessing
import time

import aiohttp
import pytest
import tornado.iostream

import salt.auth
import salt.channel.server
import salt.crypt
import salt.master
import salt.payload
import salt.transport.tcp
import salt.transport.ws
import salt.utils.files
import salt.utils.msgpack
import salt.utils.verify
from tests.support.mock import AsyncMock, MagicMock, patch

pytestmark = [pytest.mark.asyncio]


@pytest.fixture
def opts(master_opts, tmp_path):
    """
    Options of a master, with folders of its own
    """
    master_opts["pki_dir"] = str(tmp_path / "pki")
    master_opts["cachedir"] = str(tmp_path / "cache")
    master_opts["sock_dir"] = str(tmp_path / "sock")
    (tmp_path / "pki" / "minions").mkdir(parents=True)
    (tmp_path / "cache" / "sessions").mkdir(parents=True)
    return master_opts


@pytest.fixture
def channel(opts):
    """
    What handles the requests of one worker; the worker is a mock
    """
    made = salt.channel.server.ReqServerChannel.__new__(
        salt.channel.server.ReqServerChannel
    )
    made.opts = opts
    made.sessions = {}
    made.crypticle = salt.crypt.Crypticle(
        opts, salt.crypt.Crypticle.generate_key_string()
    )
    made.payload_handler = AsyncMock(return_value=({}, {"fun": "send_clear"}))
    return made


@pytest.fixture
def router(opts):
    """
    What passes requests on to pools of workers, the client of which is a mock
    """
    made = salt.channel.server.PoolRoutingChannel(
        opts, MagicMock(), {"default": {"worker_count": 1, "commands": ["*"]}}
    )
    client = MagicMock()
    client.send = AsyncMock(return_value="from the worker")
    made.pool_clients = {"default": [client]}
    made.pool_client_next = {"default": 0}
    return made, client.send


WORDS = ["x", "", "pub", "AES", "aes ", None, 0, True, ["aes"], {"aes": 1}, b"aes"]


@pytest.mark.parametrize("word", WORDS)
async def test_a_request_is_encrypted_or_clear(channel, tmp_path, word):
    payload = {
        "enc": word,
        "load": {"cmd": "_return", "id": "web1", "jid": "1", "return": True},
        "version": 3,
    }
    assert await channel.handle_message(payload) == "bad load"
    channel.payload_handler.assert_not_called()
    assert not list((tmp_path / "cache" / "sessions").iterdir())


@pytest.mark.parametrize("word", WORDS)
async def test_a_request_is_encrypted_or_clear_in_pools(router, word):
    made, send = router
    payload = {"enc": word, "load": {"cmd": "_return", "id": "web1"}, "version": 3}
    assert await made.handle_and_route_message(payload) == "bad load"
    send.assert_not_called()


@pytest.mark.parametrize("word", WORDS)
async def test_a_worker_refuses_another_word(opts, word):
    worker = salt.master.MWorker.__new__(salt.master.MWorker)
    worker.opts = opts
    worker.name = "MWorker"
    worker._modules_loaded = MagicMock()
    worker.clear_funcs = worker.aes_funcs = MagicMock()
    with patch.object(worker, "_handle_aes", AsyncMock()) as aes, patch.object(
        worker, "_handle_clear", AsyncMock()
    ) as clear:
        answer = await salt.master.MWorker._handle_payload_inner(
            worker, {"enc": word, "load": {"cmd": "_return", "id": "web1"}}
        )
    assert answer == ({}, {"fun": "send_clear"})
    aes.assert_not_called()
    clear.assert_not_called()


@pytest.mark.parametrize(
    "version", [[1], {"a": 1}, None, "x", float("nan"), float("inf"), "3.0", b"\xff"]
)
async def test_any_version_has_an_answer(channel, router, version):
    payload = {"enc": "clear", "load": {"cmd": "ping"}, "version": version}
    assert await channel.handle_message(dict(payload)) == "bad load"
    assert await router[0].handle_and_route_message(dict(payload)) == "bad load"
    channel.opts["minimum_auth_version"] = 0
    assert await channel.handle_message(dict(payload)) == {}
    assert await router[0].handle_and_route_message(payload) == "from the worker"


@pytest.mark.parametrize("id_", ["any-id", "../victim", "..", ""])
async def test_no_session_for_who_has_no_key(channel, tmp_path, id_):
    payload = {"enc": "aes", "id": id_, "load": b"x" * 100, "version": 3}
    assert await channel.handle_message(payload) == "bad load"
    assert not list((tmp_path / "cache" / "sessions").iterdir())
    assert not channel.sessions
    assert not list((tmp_path / "cache").glob("victim*"))


async def test_an_old_session_is_not_replaced_by_a_request(channel, tmp_path):
    path = tmp_path / "cache" / "sessions" / "web1"
    channel.session_key("web1")
    before = path.read_bytes()
    channel.sessions.clear()
    channel.opts["publish_session"] = -1
    payload = {"enc": "aes", "id": "web1", "load": b"x" * 100, "version": 3}
    assert await channel.handle_message(payload) == "bad load"
    assert path.read_bytes() == before
    # A sign-in does
    channel.session_key("web1")
    assert path.read_bytes() != before


def _from_minion(channel, load, id_="web1"):
    crypticle = salt.crypt.Crypticle(channel.opts, channel.session_key(id_))
    return {"enc": "aes", "id": id_, "load": crypticle.dumps(load), "version": 3}


async def test_a_minion_with_a_key_is_served(channel):
    with patch.object(channel, "validate_token", return_value=True):
        load = {"cmd": "_return", "id": "web1", "ts": time.time(), "nonce": "n"}
        assert await channel.handle_message(_from_minion(channel, load)) == {}
    channel.payload_handler.assert_called_once()


@pytest.mark.parametrize(
    "change",
    [
        {"ts": None},
        {"ts": "now"},
        {"ts": float("nan")},
        {"ts": float("-inf")},
        {"ts": True},
        {"id": "web2"},
        {"id": ["web1"]},
        {"id": ""},
    ],
)
async def test_a_request_without_its_time_or_id_is_refused(channel, change):
    channel.opts["request_server_ttl"] = 60
    with patch.object(channel, "validate_token", return_value=True):
        load = {"cmd": "_return", "id": "web1", "ts": time.time(), **change}
        answer = await channel.handle_message(_from_minion(channel, load))
    assert answer.startswith("bad load")
    channel.payload_handler.assert_not_called()


async def test_only_the_channel_counts_sign_ins(channel):
    payload = {"enc": "clear", "cmd": "_auth", "_start": 0, "load": {}, "version": 3}
    await channel.handle_message(payload)
    assert "cmd" not in channel.payload_handler.call_args.args[0]


@pytest.fixture
def auth_funcs(opts):
    secret = {
        "secret": multiprocessing.Array(
            ctypes.c_char, salt.crypt.Crypticle.generate_key_string().encode()
        )
    }
    with patch.dict(salt.master.SMaster.secrets, {"aes": secret}):
        funcs = salt.master.AuthFuncs(opts)
        yield funcs
        funcs.event.destroy()


@pytest.mark.parametrize(
    "load",
    [
        {},
        {"id": "new"},
        {"id": "new", "pub": None},
        {"id": ["new"], "pub": "x"},
        {"id": "new", "pub": b"x"},
        {"id": "new", "pub": "x" * 1_000_000},
        {"id": "new", "pub": "x", "sig_algo": ["x"]},
        {"id": "new", "pub": "x", "enc_algo": {}},
        {"id": "new", "pub": "x", "nonce": 5},
        {"id": "new", "pub": "x", "nonce": None},
    ],
)
async def test_a_malformed_sign_in_leaves_nothing(auth_funcs, load):
    refused = {"enc": "clear", "load": {"ret": False}}
    assert await auth_funcs._auth(load, sign_messages=True, version=3) == refused
    assert not auth_funcs.cache.fetch("keys", "new")


@pytest.mark.parametrize("nonce", [["a"], 1, {"a": "b"}, b"\xff"])
async def test_a_reply_to_a_minion_takes_a_usable_nonce(channel, nonce):
    load = {"cmd": "_return", "nonce": nonce}
    with patch.object(channel, "validate_token", return_value=True):
        request = _from_minion(channel, load)
        assert await channel.handle_message(request) == "bad load"
    channel.payload_handler.assert_not_called()


SOUND = {"cmd": "publish", "user": "root", "fun": "test.ping", "arg": [], "tgt": "*"}


@pytest.mark.parametrize(
    "load",
    [
        {"cmd": "wheel", "fun": "key.list_all", "eauth": ["x"]},
        {"cmd": "runner", "fun": "test.arg", "token": {"a": 1}},
        {"cmd": "runner", "fun": "test.arg", "user": b"\xff"},
        {"cmd": "mk_token", "eauth": "pam", "username": ["x"]},
        {"cmd": "get_token", "token": None},
        {**SOUND, "user": 7},
        {**SOUND, "fun": None},
        {**SOUND, "fun": ["test.ping", 1]},
        {**SOUND, "kwargs": ["token"]},
        {**SOUND, "kwargs": {"token": 1}},
        {name: value for name, value in SOUND.items() if name != "user"},
    ],
)
async def test_who_sends_a_clear_command_is_text(opts, load):
    worker = salt.master.MWorker.__new__(salt.master.MWorker)
    worker.opts, worker.clear_funcs = opts, MagicMock()
    ret, req_opts = await worker._handle_clear(load)
    assert ret["error"]["name"] == "SaltInvocationError"
    assert req_opts == {"fun": "send_clear"}
    worker.clear_funcs.get_method.return_value.assert_not_called()


@pytest.mark.parametrize(
    "load",
    [
        SOUND,
        {**SOUND, "fun": ["test.ping", "test.version"], "kwargs": {"eauth": "pam"}},
        {"cmd": "get_token", "token": "0" * 64},
        {"cmd": "ping"},
    ],
)
async def test_clear_commands_of_clients_are_taken(opts, load):
    opts["master_stats"] = False
    worker = salt.master.MWorker.__new__(salt.master.MWorker)
    worker.opts, worker.clear_funcs = opts, MagicMock(async_methods=())
    method = worker.clear_funcs.get_method.return_value
    assert (await worker._handle_clear(load))[0] is method.return_value
    method.assert_called_once_with(load)


async def test_who_is_not_known_has_no_targets_resolved_and_no_event(opts):
    """
    To find the minions of a target takes seconds in a large fleet
    """
    funcs = salt.master.ClearFuncs.__new__(salt.master.ClearFuncs)
    funcs.opts, funcs.key, funcs.event = opts, {}, MagicMock()
    funcs.ckminions, funcs.loadauth = MagicMock(), salt.auth.LoadAuth(opts)
    ret = await funcs.publish({**SOUND, "key": "0", "jid": "1/ret/web1"})
    assert ret["error"]["name"] == "AuthenticationError"
    funcs.ckminions.check_minions.assert_not_called()
    funcs.event.fire_event.assert_not_called()


@pytest.mark.parametrize("command", [["a"], {"a": 1}, None, 1, b"\xff"])
async def test_any_command_has_a_pool(router, opts, command):
    made, _ = router
    payload = {"enc": "clear", "load": {"cmd": command}, "version": 3}
    assert await made.handle_message(payload) == "from the worker"
    pools = {"default": {"worker_count": 1, "commands": ["*"]}}
    opts["worker_pools"] = pools
    assert salt.master.RequestRouter(opts).route_request(payload) == "default"


async def test_a_client_that_has_left_gets_no_reply():
    server = salt.transport.tcp.RequestServer.__new__(salt.transport.tcp.RequestServer)
    server.message_handler = AsyncMock(return_value="reply")
    stream = MagicMock()
    stream.write.side_effect = tornado.iostream.StreamClosedError
    await server.handle_message(stream, {"enc": "clear"})
    stream.write.assert_called_once()


@pytest.mark.parametrize("data", [b"\xc1", None])
async def test_a_web_socket_that_has_left_gets_no_reply(data):
    """
    Nor does what can't be unpacked end its connection
    """
    server = salt.transport.ws.RequestServer.__new__(salt.transport.ws.RequestServer)
    server.message_handler = AsyncMock(return_value="reply")
    if data is None:
        data = salt.payload.dumps({"enc": "clear"})
    message = MagicMock(type=aiohttp.WSMsgType.BINARY, data=data)
    request = MagicMock()
    request.get_extra_info.return_value = None
    with patch("aiohttp.web.WebSocketResponse") as made:
        socket = made.return_value
        socket.prepare = AsyncMock()
        socket.send_bytes = AsyncMock(side_effect=ConnectionResetError)
        socket.__aiter__.return_value = [message]
        assert await server.handle_message(request) is socket
    socket.send_bytes.assert_called_once()
    assert server.message_handler.called is (data != b"\xc1")


async def test_what_is_nested_deeply_is_not_written_out(channel, opts):
    deep = ["x"]
    for _ in range(3000):
        deep = [deep]
    for load, reply in (
        (deep, "payload and load must be a dict"),
        ({"id": deep}, "bad load: id is not a string"),
    ):
        payload = {"enc": "clear", "load": load, "version": 3}
        assert await channel.handle_message(payload) == reply
    worker = salt.master.MWorker.__new__(salt.master.MWorker)
    worker.opts = opts
    assert await worker._handle_clear({"x": deep, 7: 1}) == ({}, {"fun": "send_clear"})
    assert (await worker._handle_aes({"x": deep}))[0] == {}


async def test_an_id_that_no_file_can_have(opts):
    assert salt.utils.verify.valid_id(opts, "a" * 255)
    assert not salt.utils.verify.valid_id(opts, "a" * 256)
    assert not salt.utils.verify.valid_id(opts, "\u00e4" * 128)


@pytest.mark.parametrize("message", [{"head": {}}, {"body": "x"}, ["head", "body"]])
async def test_a_frame_without_its_parts_ends_the_connection(message, caplog):
    server = salt.transport.tcp.SaltMessageServer.__new__(
        salt.transport.tcp.SaltMessageServer
    )
    server.message_handler, server.clients = MagicMock(), []
    server.max_write_buffer_size = None
    stream = MagicMock()
    data = salt.utils.msgpack.dumps(message, use_bin_type=True)
    stream.read_bytes = AsyncMock(return_value=data)
    await server.handle_stream(stream, "address")
    stream.close.assert_called_once()
    server.message_handler.assert_not_called()
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("name", [None, 5, [], {}, b"_auth", ["_auth"]])
def test_method_without_a_name(name):
    """
    It is refused, and what came is not written down: it may be too deep for that
    """
    funcs = salt.master.TransportMethods()
    assert funcs.get_method(name) is None
    deep = []
    for _ in range(10000):
        deep = [deep]
    assert funcs.get_method(deep) is None
