"""Docker engines for tests: the one that this machine has, and three that are the nodes of a swarm of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.containers import engine
from harness.containers.image import BASE_VARIABLE
from harness.database.container import address
from harness.errors import DockerError
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

SMALL = """
description = "Twenty minions, for tests of containers"
minions = 20
settle_s = 30
[master]
loop_interval = 1

[[clients]]
name = "api"
kind = "api"
function = "test.ping"
tgt = "*"
rate = 1
duration_s = 10
arrival = "constant"
timeout_s = 20

[[clients]]
name = "cli"
kind = "cli"
function = "grains.item"
args = ["os"]
tgt = "minion-0000*"
burst = 2
timeout_s = 20

[[timeline]]
at_s = 2
do = "rotate-keys"

[thresholds]
client_errors = { max = 0 }
returns_lost = { max = 0 }
"""
"""A scenario: 12 requests, of which 10 go to all minions and 2 to ten of them."""
NETWORK = "10.93.7"
NODES = 3


@contextmanager
def connected() -> Iterator[DockerClient]:
    """Yield a client of this machine's engine, or skip with what is missing."""
    if not os.environ.get(BASE_VARIABLE):
        pytest.skip(f"{BASE_VARIABLE} names no image to make containers on")
    try:
        found = engine.connect(address(os.environ), os.environ)
    except DockerError as reason:
        pytest.skip(str(reason))
    with closing(found):
        yield found


def left(client: DockerClient) -> list[str]:
    """Return the names of what runs left on the engine."""
    chosen: dict[str, str | list[str] | bool] = {"label": engine.RUN}
    found: list[Any] = [*client.containers.list(all=True, filters=chosen, ignore_removed=True)]
    found += [*client.networks.list(filters=chosen), *client.images.list(filters=chosen)]
    if engine.manages(client):
        found += client.services.list(filters=chosen)
    return [str(entry) for entry in found]


@dataclass(frozen=True)
class Node:
    """An engine of a swarm, by its address for clients."""

    url: str

    def client(self) -> closing[DockerClient]:
        """Return a client for a `with` statement: it keeps connections until then."""
        return closing(engine.connect(self.url, os.environ))

    def left(self) -> list[str]:
        """Return the names of what runs left here."""
        with self.client() as client:
            return left(client)

    def gets(self, other: DockerClient, name: str) -> None:
        """Load an image that another engine has, as `docker save | docker load` does."""
        with tempfile.TemporaryFile() as archive, self.client() as client:
            for chunk in other.images.get(name).save(named=True):
                archive.write(chunk)
            archive.seek(0)
            client.images.load(archive)


@contextmanager
def swarm() -> Iterator[list[Node]]:
    """Yield the nodes of a swarm, the manager first: engines in network namespaces that a bridge connects."""
    if not shutil.which("dockerd"):
        pytest.skip("there is no dockerd (`apt-get install docker.io`)")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="swarm-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder)
        switch = _namespace(stack, "switch")
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        nodes = [_node(stack, folder / str(number), number, switch) for number in range(1, NODES + 1)]
        _join(nodes)
        yield nodes


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _namespace(stack: ExitStack, name: str) -> str:
    name = f"saltbed-{name}"
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "delete", name)
    _ip("-n", name, "link", "set", "lo", "up")
    return name


def _node(stack: ExitStack, folder: Path, number: int, switch: str) -> Node:
    folder.mkdir()
    name = _namespace(stack, f"node{number}")
    port = f"port{number}"
    _ip("link", "add", port, "netns", switch, "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
    _ip("-n", name, "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
    _ip("-n", name, "link", "set", "eth0", "up")
    # an engine looks for the interface of its default route
    _ip("-n", name, "route", "add", "default", "dev", "eth0")
    url = f"unix://{folder}/docker.sock"
    # `ip netns exec` would hide the control groups
    command = ["nsenter", f"--net=/run/netns/{name}", "dockerd", "--host", url, "--data-root", str(folder / "data")]
    command += ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")]
    log = folder.with_suffix(".log")
    with log.open("w") as output:
        process = stack.enter_context(subprocess.Popen(command, stdout=output, stderr=output))
    stack.callback(process.terminate)
    node = Node(url)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(DockerError), node.client():
            return True
        return False

    until(answers, Deadline(60), log.read_text)
    return node


def _join(nodes: list[Node]) -> None:
    token = ""
    for number, node in enumerate(nodes, 1):
        own: dict[str, Any] = {"advertise_addr": f"{NETWORK}.{number}", "listen_addr": f"{NETWORK}.{number}:2377"}
        with node.client() as client:
            if token:
                client.swarm.join([f"{NETWORK}.1:2377"], token, **own)
            else:
                client.swarm.init(**own)
                token = client.swarm.attrs["JoinTokens"]["Worker"]
