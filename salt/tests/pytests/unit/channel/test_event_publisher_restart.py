"""
Tests of a master's event publisher that is started again

From Python 3.12 on, asyncio resets the current loop in a fork
(``asyncio.events.on_fork``): there, all of these pass without the fix as well.
"""

# pylint: disable=protected-access

import asyncio
import multiprocessing
import sys

import pytest
import tornado.ioloop

import salt.channel.server as server
import salt.utils.process

pytestmark = [
    pytest.mark.skip_on_windows(reason="Processes are not forked on Windows"),
    pytest.mark.skipif(
        multiprocessing.get_start_method() != "fork",
        reason="Only a fork has the loop of its parent",
    ),
]


class Transport:
    """
    A transport that tells when its publisher runs
    """

    def __init__(self, pipe):
        self.pipe = pipe

    async def publisher(self, publish_payload, io_loop=None):
        self.pipe.send("publishing")

    def close(self):
        pass


@pytest.fixture
def started(master_opts):
    """
    A function that forks an event publisher and tells whether it publishes
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    channel = server.MasterPubServerChannel(master_opts, Transport(sender))
    process = salt.utils.process.Process(target=channel._publish_daemon)

    def start():
        process.start()
        # so that recv() fails with EOFError when the process ends
        sender.close()

    def publishes():
        try:
            return receiver.poll(30) and receiver.recv() == "publishing"
        except EOFError:
            return False

    try:
        yield start, publishes
    finally:
        if process.pid:
            process.terminate()
            process.join(30)
        receiver.close()


def test_first_event_publisher(started):
    start, publishes = started
    start()
    assert publishes()


@pytest.fixture(params=["default", "own"])
def policy(request):
    if request.param == "default":
        yield
        return
    if sys.version_info >= (3, 12):
        pytest.skip("The policy is left alone, and Python deprecates policies")

    class Policy(asyncio.DefaultEventLoopPolicy):
        """
        A policy that nobody can make again without knowing how
        """

        def __init__(self, factory):
            super().__init__()
            self.factory = factory

    asyncio.set_event_loop_policy(Policy(None))
    yield
    asyncio.set_event_loop_policy(None)


@pytest.mark.usefixtures("policy")
def test_event_publisher_that_is_started_again(started):
    """
    ProcessManager starts what has died from within its event loop
    """
    start, publishes = started

    async def check_children():
        start()

    asyncio.run(check_children())
    assert publishes()


@pytest.mark.no_blocking(reason="A handle of the loop forks all of pytest")
def test_event_publisher_that_is_started_again_from_the_current_loop(started):
    """
    The loop that runs is the one that the fork takes for its own
    """
    start, publishes = started
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.call_soon(start)
        loop.call_later(0.1, loop.stop)
        loop.run_forever()
        assert publishes()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_any_process_that_is_started_again():
    """
    Whatever runs the current loop in it
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)

    async def nothing():
        pass

    def run():
        tornado.ioloop.IOLoop.current().run_sync(nothing)
        sender.send("done")

    process = salt.utils.process.Process(target=run)

    async def check_children():
        process.start()
        sender.close()

    asyncio.run(check_children())
    try:
        assert receiver.poll(30) and receiver.recv() == "done"
    finally:
        process.join(30)
        receiver.close()


def test_loop_that_does_not_run_is_left_alone():
    """
    A process that is started before a loop runs has that loop, as before
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    loop = asyncio.new_event_loop()

    def run():
        try:
            sender.send(asyncio.get_event_loop() is loop)
        except RuntimeError:
            # there is none, and from Python 3.14 on none is made
            sender.send(False)

    process = salt.utils.process.Process(target=run)
    asyncio.set_event_loop(loop)
    try:
        process.start()
        sender.close()
        expected = sys.version_info < (3, 12)
        assert receiver.poll(30) and receiver.recv() is expected
    finally:
        process.join(30)
        receiver.close()
        asyncio.set_event_loop(None)
        loop.close()
