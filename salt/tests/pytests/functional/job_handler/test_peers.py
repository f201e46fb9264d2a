"""
Who is served at the private socket, for how long, and how much is taken.
"""

import asyncio
import os
import shutil
import socket
import struct
import tempfile

import pytest

import salt.job_handler.gate
import salt.job_handler.ipc
import tests.pytests.functional.job_handler.worker as worker
from tests.support.mock import patch

ASK = {"cmd": "list"}


async def _connect(setup):
    return await asyncio.open_unix_connection(salt.job_handler.ipc.path(setup.opts))


async def _ask(setup):
    return await salt.job_handler.ipc.ask(setup.opts, ASK, 5)


@pytest.mark.parametrize("part", (b"", b"\0\0", struct.pack("!I", 1000) + b"\x81"))
def test_a_peer_that_sends_no_request(setup, part):
    """
    Nothing, or a part of one: it is dropped, also if it goes on for ever.
    """

    async def run():
        await setup.start()
        reader, writer = await _connect(setup)
        writer.write(part)
        assert await reader.read() == b""
        writer.close()
        assert await _ask(setup) == {"jobs": []}

    with patch("salt.job_handler.ipc.PEER_SECONDS", 0.05):
        asyncio.run(run())


def test_a_peer_that_does_not_take_its_reply(setup):
    """
    It is dropped, and nothing is kept for it.
    """
    closed = asyncio.Event()

    async def large(request):
        return {"reply": "x" * 10_000_000}

    real = salt.job_handler.ipc._serve_peer  # pylint: disable=protected-access

    async def serve_peer(*args):
        await real(*args)
        closed.set()

    async def run():
        handler = await setup.start()
        handler.server.close()
        handler.server = await salt.job_handler.ipc.serve(setup.opts, large)
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(salt.job_handler.ipc.path(setup.opts))
            # pylint: disable-next=protected-access
            peer.sendall(salt.job_handler.ipc._pack(ASK))
            await asyncio.wait_for(closed.wait(), 60)

    with patch("salt.job_handler.ipc.PEER_SECONDS", 0.05), patch(
        "salt.job_handler.ipc._serve_peer", serve_peer
    ):
        asyncio.run(run())


def test_many_peers(setup):
    """
    There is a bound, and room again when they have left.
    """

    async def run():
        await setup.start()
        peers = [await _connect(setup) for _ in range(3)]
        with pytest.raises(salt.job_handler.ipc.JobHandlerUnavailable):
            await _ask(setup)
        for _, writer in peers:
            writer.close()
        # let connections end
        while True:
            try:
                return await _ask(setup)
            except salt.job_handler.ipc.JobHandlerUnavailable:
                await asyncio.sleep(0.01)

    with patch("salt.job_handler.ipc.MAX_PEERS", 3):
        assert asyncio.run(asyncio.wait_for(run(), 60)) == {"jobs": []}


@pytest.mark.parametrize("length", (32, 255))
def test_a_job_for_ten_thousand_names(setup, length):
    """
    The target and the minions are both lists of them.
    """
    ids = [f"{number:0{length}d}" for number in range(10000)]
    setup.config(max_master_jobs=1)

    async def run():
        await setup.start()
        load = {"jid": "1", "fun": "state.apply", "arg": [], "tgt": ids}
        load.update({"tgt_type": "list", "ret": "", "user": "root"})
        gate = await worker.enter(setup)
        answer = await gate.submit(load, ids, [])
        return answer["load"]["job_handler"]

    with patch("salt.job_handler.gate.ANSWER_SECONDS", 60):
        assert asyncio.run(run())["waiting"] == 9999


def test_a_request_that_is_too_large(setup):
    """
    The server takes none, however it comes; who would send one hears of it before.
    """
    most = salt.job_handler.ipc.MAX_BYTES

    async def run():
        await setup.start()
        reader, writer = await _connect(setup)
        writer.write(struct.pack("!I", most + 1))
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(salt.job_handler.ipc.JobHandlerUnavailable) as error:
            await salt.job_handler.ipc.ask(setup.opts, {"cmd": "x" * most}, 5)
        assert not error.value.sent
        return await _ask(setup)

    assert most <= 16 * 1024 * 1024
    assert asyncio.run(run()) == {"jobs": []}


def test_a_job_that_is_too_large(setup):
    """
    One sentence, before anything is written; and ``fail_mode`` does not let it pass.
    """

    async def run():
        await setup.start()
        most = salt.job_handler.gate.JOB_BYTES
        load = {"fun": "state.apply", "user": "root", "arg": ["x" * most]}
        gate = await salt.job_handler.gate.enter(setup.opts, setup.bus, load, None)
        return gate.answer["error"]["message"]

    message = asyncio.run(run())
    assert message.startswith("The job takes 83886")
    assert message.endswith("give minions the data as a file or a pillar.")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes other users")
@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system has none")
@pytest.mark.parametrize("user, served", ((65534, False), (1, True), (0, True)))
def test_who_is_served(setup, user, served):
    """
    Root and the user of the job handler, also where the socket is open to others.
    """
    # the folder of the tests is closed to others
    folder = tempfile.mkdtemp(prefix="jh-", dir="/tmp")
    os.chmod(folder, 0o755)
    setup.opts["sock_dir"] = folder

    async def run():
        await setup.start()
        address = salt.job_handler.ipc.path(setup.opts)
        os.chmod(address, 0o666)  # nosec
        with socket.socket(socket.AF_UNIX) as sock:
            # the system notes who connects
            os.seteuid(user)
            try:
                sock.connect(address)
            finally:
                os.seteuid(0)
            sock.setblocking(False)
            with patch("os.geteuid", return_value=1):
                reader, writer = await asyncio.open_unix_connection(sock=sock)
                # pylint: disable-next=protected-access
                writer.write(salt.job_handler.ipc._pack(ASK))
                try:
                    answer = await reader.read(1)
                except ConnectionError:
                    answer = b""
            writer.close()
        return bool(answer)

    try:
        assert asyncio.run(run()) is served
    finally:
        shutil.rmtree(folder)
