"""
Whom a master of a cluster believes, from the first discovery to the messages of Raft
"""

# pylint: disable=protected-access

import asyncio
import collections
import concurrent.futures
import copy
import ctypes
import multiprocessing
import pathlib
import threading

import pytest

import salt.channel.server as server
import salt.cluster.consensus.peer
import salt.crypt
import salt.master
import salt.payload
import salt.utils.event
from salt.cluster.consensus import rpc
from salt.cluster.file_sync import apply_root_tree
from tests.support.mock import AsyncMock, MagicMock, patch

MEMBER, JOINER, OTHER = "127.0.0.1", "127.0.0.2", "127.0.0.3"


def _secret(key):
    return {"secret": multiprocessing.Array(ctypes.c_char, key.encode())}


@pytest.fixture
def secrets():
    names = ("aes", "cluster_aes")
    made = {name: _secret(salt.crypt.Crypticle.generate_key_string()) for name in names}
    with patch.object(salt.master.SMaster, "secrets", made):
        yield made


@pytest.fixture
def master(master_opts, tmp_path, secrets):
    """
    Return a function that makes the event publisher of a master with files of its own
    """

    def make(name, peers=(), **config):
        folder = tmp_path / f"master-{name}"
        for part in ("pki", "cluster/peers", "cache", "sock"):
            (folder / part).mkdir(parents=True)
        opts = copy.deepcopy(master_opts)
        opts.update(
            id=name,
            interface=name,
            pki_dir=str(folder / "pki"),
            cachedir=str(folder / "cache"),
            sock_dir=str(folder / "sock"),
            cluster_id="cluster",
            cluster_peers=list(peers),
            cluster_pki_dir=str(folder / "cluster"),
            **{"cluster_secret": None, **config},
        )
        transport = MagicMock(publish_payload=AsyncMock())
        ret = server.MasterPubServerChannel(opts, transport)
        ret.sent = []
        ret.pushers = []
        ret.auth_errors = collections.defaultdict(collections.deque)

        def pusher(peer, port=None):
            async def publish(raw):
                ret.sent.append((peer, raw))

            return MagicMock(pull_host=peer, pull_port=4520, publish=publish)

        ret.pusher = pusher
        ret.send_aes_key_event = MagicMock()
        ret._start_raft_as_learner = MagicMock()
        ret._raft_service = None
        return ret

    return make


async def _discover(joiner):
    """
    Let a master look for others, as at its start; return the message
    """
    event = MagicMock()
    event.__enter__.return_value = event
    with patch("salt.utils.event.get_master_event", return_value=event):
        joiner.discover_peers()
    (data, tag), _ = event.fire_event.call_args
    raw = salt.utils.event.SaltEvent.pack(tag, data)
    # The publisher is another process than the one that looks
    joiner._discover_token = None
    await joiner.publish_payload(raw)
    return raw


async def _deliver(sender, receiver):
    """
    Hand the last message on; return it
    """
    raw = sender.sent[-1][1]
    await receiver.handle_pool_publish(raw)
    return raw


def _changed(raw, **values):
    """
    Return a message with other contents and the signature of the old ones
    """
    tag, data = salt.utils.event.SaltEvent.unpack(raw)
    inner = salt.payload.loads(data["payload"])
    return salt.utils.event.SaltEvent.pack(
        tag, {**data, "payload": salt.payload.dumps({**inner, **values})}
    )


def _resigned(raw, key, **values):
    """
    Return a message with other contents, signed with a master's own key
    """
    tag, data = salt.utils.event.SaltEvent.unpack(_changed(raw, **values))
    sig = salt.crypt.PrivateKeyString(key).sign(data["payload"])
    return salt.utils.event.SaltEvent.pack(tag, {**data, "sig": sig})


def _inner(raw):
    return salt.payload.loads(salt.utils.event.SaltEvent.unpack(raw)[1]["payload"])


@pytest.mark.parametrize("secret", [None, "something"])
async def test_a_master_joins(master, secret):
    """
    With the secret, or because it is one of cluster_peers
    """
    peers = [] if secret else [JOINER]
    member = master(MEMBER, peers, cluster_secret=secret)
    joiner = master(JOINER, [MEMBER], cluster_secret=secret)
    await member.handle_pool_publish(await _discover(joiner))
    await _deliver(member, joiner)
    await _deliver(joiner, member)
    assert joiner.cluster_key() != member.cluster_key()
    await _deliver(member, joiner)
    assert joiner.cluster_key() == member.cluster_key()
    assert joiner._start_raft_as_learner.called
    assert joiner._joins == {} and member._discover_candidates == {}
    keys = [
        (pathlib.Path(one.opts["cluster_pki_dir"]) / "peers" / f"{peer}.pub").read_text(
            encoding="utf-8"
        )
        for one, peer in ((member, JOINER), (joiner, MEMBER))
    ]
    assert keys == [joiner.public_key(), member.public_key()]


async def test_without_a_secret_only_peers_join(master, caplog):
    """
    Others could be anybody
    """
    member = master(MEMBER, [OTHER, f"{JOINER}:4521"])
    stranger = master("127.0.0.9", [MEMBER])
    await member.handle_pool_publish(await _discover(stranger))
    assert member.sent == [] and member._discover_candidates == {}
    assert "set cluster_secret on all masters" in caplog.text
    await member.handle_pool_publish(await _discover(master(JOINER, [MEMBER])))
    assert [peer for peer, _ in member.sent] == [JOINER]


@pytest.mark.parametrize("theirs", [None, "", "nothing", "somethin"])
async def test_another_secret(master, caplog, theirs):
    member = master(MEMBER, cluster_secret="something")
    joiner = master(JOINER, [MEMBER], cluster_secret=theirs)
    await member.handle_pool_publish(await _discover(joiner))
    await _deliver(member, joiner)
    sent = len(member.sent)
    await _deliver(joiner, member)
    assert len(member.sent) == sent
    assert "Cluster secret invalid" in caplog.text
    assert not member._peer_pub(JOINER).exists()


async def test_nothing_is_sent_to_who_was_not_asked(master, caplog):
    """
    The reply to a discovery gets the secret and the AES key of a master
    """
    member = master(MEMBER, [JOINER], cluster_secret="something")
    joiner = master(JOINER, [MEMBER], cluster_secret="something")
    await member.handle_pool_publish(await _discover(joiner))
    reply = member.sent[-1][1]
    key = member.cluster_key()
    joiner.sent.clear()
    for token in ("", None, "0" * 32):
        await joiner.handle_pool_publish(_resigned(reply, key, return_token=token))
    await joiner.handle_pool_publish(_resigned(reply, key, peer_id="127.0.0.9"))
    assert joiner.sent == []
    assert caplog.text.count("nobody asked for") == 3
    await joiner.handle_pool_publish(reply)
    assert [peer for peer, _ in joiner.sent] == [MEMBER]
    await _deliver(joiner, member)
    await _deliver(member, joiner)
    # It has joined
    joiner.sent.clear()
    await joiner.handle_pool_publish(reply)
    assert joiner.sent == []
    assert caplog.text.count("nobody asked for") == 4


@pytest.mark.parametrize(
    "isolated, joined, answers",
    [(False, False, True), (True, False, False), (True, True, True)],
)
async def test_a_master_that_has_not_joined(master, isolated, joined, answers):
    """
    It would hand out keys that it replaces a moment later, unless it is the first
    """
    config = {"cluster_isolated_filesystem": isolated}
    second = master(JOINER, [MEMBER, OTHER], **config)
    if joined:
        second._mark_joined_cluster()
    raw = await _discover(master(OTHER, [MEMBER, JOINER], **config))
    await second.handle_pool_publish(raw)
    assert bool(second.sent) is answers
    first = master(MEMBER, [JOINER, OTHER], **config)
    await first.handle_pool_publish(raw)
    assert first.sent


async def test_a_stranger_does_not_take_the_place_of_a_peer(master):
    """
    Whose key is known
    """
    member = master(MEMBER, [JOINER])
    joiner = master(JOINER, [MEMBER])
    member._keep_peer_pub(JOINER, joiner.public_key())
    raw = await _discover(joiner)
    await member.handle_pool_publish(raw)
    known = dict(member._discover_candidates)
    stranger = master("127.0.0.9")
    await member.handle_pool_publish(
        _resigned(
            raw, stranger.private_key(), peer_id=JOINER, pub=stranger.public_key()
        )
    )
    assert member._discover_candidates == known


async def test_a_reply_to_a_join_that_is_not_from_the_peer(master, caplog):
    """
    What it carries becomes the keys of the cluster
    """
    member = master(MEMBER, [JOINER])
    joiner = master(JOINER, [MEMBER])
    stranger = master("127.0.0.9")
    await member.handle_pool_publish(await _discover(joiner))
    await _deliver(member, joiner)
    await _deliver(joiner, member)
    reply = member.sent[-1][1]
    before = joiner.cluster_key()
    for raw in (
        _changed(reply, cluster_pub="another"),
        _resigned(reply, stranger.private_key()),
        _resigned(reply, member.private_key(), return_token="0" * 32),
        _resigned(reply, member.private_key(), peer_id="127.0.0.9"),
    ):
        await joiner.handle_pool_publish(raw)
        assert joiner.cluster_key() == before
        assert not joiner._start_raft_as_learner.called
    await joiner.handle_pool_publish(reply)
    assert joiner.cluster_key() == member.cluster_key() != before
    # The same one again
    joiner._start_raft_as_learner.reset_mock()
    await joiner.handle_pool_publish(reply)
    assert not joiner._start_raft_as_learner.called


async def test_a_join_again(master):
    """
    A token is good for one
    """
    member = master(MEMBER, [JOINER])
    joiner = master(JOINER, [MEMBER])
    await member.handle_pool_publish(await _discover(joiner))
    await _deliver(member, joiner)
    join = await _deliver(joiner, member)
    sent = len(member.sent)
    await member.handle_pool_publish(join)
    assert len(member.sent) == sent


@pytest.mark.parametrize("side", ["member", "joiner"])
async def test_a_peer_with_another_key(master, caplog, side):
    """
    The key that is known of a peer decides
    """
    member = master(MEMBER, [JOINER])
    joiner = master(JOINER, [MEMBER])
    known = {"member": member._peer_pub(JOINER), "joiner": joiner._peer_pub(MEMBER)}
    other = master(OTHER).public_key()
    known[side].write_text(other, encoding="utf-8")
    before = joiner.cluster_key()
    await member.handle_pool_publish(await _discover(joiner))
    if side == "joiner":
        await _deliver(member, joiner)
    assert f"is not the one in {known[side]}; remove that file" in caplog.text
    assert known[side].read_text(encoding="utf-8") == other
    assert joiner.cluster_key() == before
    assert [_inner(raw).get("cluster_pem") for _, raw in member.sent] in ([], [None])


@pytest.mark.parametrize("name", ["../victim", "/tmp/victim", "", "a/b", 1, None, "\0"])
async def test_ids_that_are_paths(master, tmp_path, name):
    """
    No file is looked at or made for them
    """
    member = master(MEMBER, [JOINER])
    joiner = master(JOINER, [MEMBER])
    raw = await _discover(joiner)
    found = sorted(tmp_path.rglob("*"))
    await member.handle_pool_publish(_resigned(raw, joiner.private_key(), peer_id=name))
    member.sent.clear()
    await member.handle_pool_publish(raw)
    reply = _resigned(member.sent[-1][1], member.cluster_key(), peer_id=name)
    await joiner.handle_pool_publish(reply)
    crypticle = rpc.crypticle(member.opts)
    notify = {"peer_id": JOINER, "join_peer_id": name, "pub": "pub", "aes": "aes"}
    await member.handle_pool_publish(
        salt.utils.event.SaltEvent.pack(
            "cluster/peer/join-notify", crypticle.dumps(notify)
        )
    )
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in found] == []
    assert member._raft_service is None


@pytest.mark.parametrize(
    "name, data, effect",
    [
        ("state-sync-chunk", {"session": "one"}, "_apply_state_sync_chunk"),
        ("sync-roots-begin", {"session": "one"}, "_begin_root_sync_session"),
        ("delegate-write", {"owner": MEMBER}, "_handle_delegate_write"),
        ("shed-request", {"request": "one"}, "_handle_shed_request"),
        (
            "multi-ring-request",
            {"runner_tag": "cluster/runner/ring_set"},
            "_handle_multi_ring_runner_event",
        ),
        (
            "collect-request",
            {"requester": JOINER, "channels": ["keys"]},
            "_handle_collect_request",
        ),
        (
            "join-notify",
            {"peer_id": OTHER, "join_peer_id": JOINER, "pub": "pub"},
            "_keep_peer_pub",
        ),
    ],
)
async def test_what_minions_can_encrypt(master, name, data, effect):
    """
    They have the AES key of the cluster, which lets nobody act as a master
    """
    member = master(MEMBER, [JOINER])
    mock = AsyncMock() if name == "collect-request" else MagicMock()
    minions = salt.crypt.Crypticle(
        member.opts, salt.master.SMaster.secrets["cluster_aes"]["secret"].value
    )
    loop = asyncio.get_running_loop()
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
    for crypticle, called in ((minions, False), (rpc.crypticle(member.opts), True)):
        raw = salt.utils.event.SaltEvent.pack(
            f"cluster/peer/{name}", crypticle.dumps(data)
        )
        with patch.object(member, effect, mock):
            await member.handle_pool_publish(raw)
            # When this has run in the executor, all before it has
            await loop.run_in_executor(None, int)
        assert mock.called is called


async def test_events_of_nobody_are_not_kept(master):
    """
    Of peers they are until the key comes
    """
    member = master(MEMBER, [JOINER])
    for name in (JOINER, "nobody", "nobody else"):
        await member.handle_pool_publish(
            salt.utils.event.SaltEvent.pack(f"cluster/event/{name}/tag", {"a": "b"})
        )
    assert list(member.auth_errors) == [JOINER]


@pytest.mark.parametrize("answer", [None, OSError("refused")])
async def test_a_stranger_where_nobody_answers(master, caplog, answer):
    """
    The master goes on while it waits for an address that a stranger has given
    """
    member = master(MEMBER, cluster_secret="something")
    joiner = master(JOINER, [MEMBER], cluster_secret="something")
    raw = await _discover(joiner)
    turn, results = threading.Event(), []

    async def publish(raw):
        results.append(turn.wait(10))
        if answer:
            raise answer

    member.pusher = lambda peer: MagicMock(pull_host=peer, publish=publish)
    asyncio.get_running_loop().call_later(0.01, turn.set)
    await member.handle_pool_publish(raw)
    assert results == [True]
    assert "Traceback" not in caplog.text


async def test_candidates_are_bounded(master):
    member = master(MEMBER, cluster_secret="something")
    joiner = master(JOINER, [MEMBER], cluster_secret="something")
    raw = await _discover(joiner)
    member._CANDIDATES = 10
    for number in range(15):
        name = f"127.0.1.{number}"
        await member.handle_pool_publish(
            _resigned(raw, joiner.private_key(), peer_id=name)
        )
    assert len(member._discover_candidates) == 10
    assert "127.0.1.14" in member._discover_candidates


def _vote(group="cluster"):
    payload = {"candidate_id": JOINER, "term": 7, "callback_node": JOINER}
    return rpc.pack(rpc.REQUEST_VOTE, JOINER, "1", payload, raft_group_id=group)


async def test_messages_of_raft(master, caplog):
    """
    Who has not the cluster's private key takes no part
    """
    member = master(MEMBER, [JOINER])
    stranger = master("127.0.0.9")
    member._raft_dispatcher = MagicMock(dispatch=AsyncMock())
    right = rpc.sign(member.opts, _vote())
    tag, data = salt.utils.event.SaltEvent.unpack(right)
    for raw in (
        _vote(),
        rpc.sign(stranger.opts, _vote()),
        salt.utils.event.SaltEvent.pack(rpc.APPEND_ENTRIES, data),
        salt.utils.event.SaltEvent.pack(tag, {**data, "src": OTHER}),
        salt.utils.event.SaltEvent.pack(tag, {**data, "mac": None}),
        salt.utils.event.SaltEvent.pack(tag, {**data, "mac": ""}),
        salt.utils.event.SaltEvent.pack(tag, [data]),
    ):
        await member.handle_pool_publish(raw)
    assert not member._raft_dispatcher.dispatch.called
    assert caplog.text.count("is not from a peer, ignored") == 7
    await member.handle_pool_publish(right)
    assert member._raft_dispatcher.dispatch.call_args.args[:2] == (tag, JOINER)
    assert rpc.unpack(right) == rpc.unpack(_vote())


async def test_messages_of_raft_are_signed(master):
    """
    Those that go over a connection
    """
    member = master(MEMBER, [JOINER])
    pusher = salt.transport.tcp.PublishServer(
        member.opts, pull_host=JOINER, pull_port=4520
    )
    pusher._consensus_async_client = MagicMock(send=AsyncMock())
    await salt.cluster.consensus.peer._publish(pusher, _vote("jobs"))
    (raw,) = pusher._consensus_async_client.send.call_args.args
    assert rpc.verify(member.opts, raw)
    assert rpc.unpack(raw) == rpc.unpack(_vote("jobs"))


@pytest.mark.parametrize("path", ["../out", "a/../../out", "{out}", "link/out"])
def test_files_stay_below_their_root(tmp_path, path):
    """
    Those that a peer sends
    """
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    entry = {"path": path.format(out=tmp_path / "out"), "mode": 0o644, "data": b"x"}
    good = {"path": "a/b/c.sls", "mode": 0o104755, "data": b"x"}
    assert apply_root_tree({"base": [str(root)]}, {"base": [entry, good]}) == 1
    assert not (tmp_path / "out").exists()
    assert (root / "a/b/c.sls").stat().st_mode & 0o7777 == 0o755
