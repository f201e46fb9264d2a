"""The job handler turned off: what the patched master publishes, runs and opens is what the stock one does."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from harness.bed import Bed, BedSettings
from harness.processes.ports import HOST
from tests.live.helpers.handler_bed import Client

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(300)]

FIXED = Path(__file__).parents[1] / "helpers" / "fixed"
ARRIVE_MS = 20_000
MINIONS = ("web-1", "web-2", "db-1")
# one of each kind of load that differs in a publication; all of them come from a client
REQUESTS: list[dict[str, Any]] = [
    {"do": "async", "tgt": "*", "fun": "test.echo", "arg": ["x"]},
    {"do": "async", "tgt": "web-*", "fun": "test.ping"},
    {"do": "async", "tgt": ["web-1", "db-1"], "tgt_type": "list", "fun": "test.echo", "arg": [{"a": [1]}]},
    {"do": "async", "tgt": "web-[0-9]", "tgt_type": "pcre", "fun": "test.arg", "kwarg": {"k": "v"}},
    {"do": "async", "tgt": "web-* or L@db-1", "tgt_type": "compound", "fun": "test.echo", "arg": ["x"]},
    {"do": "async", "tgt": "ours", "tgt_type": "nodegroup", "fun": "test.echo", "arg": ["x"]},
    {"do": "async", "tgt": "*", "fun": ["test.ping", "test.echo"], "arg": [[], ["x"]]},
    {"do": "async", "tgt": "*", "fun": "test.echo", "arg": ["x"], "ret": "local", "metadata": {"m": 1}},
    {"do": "cmd", "tgt": "web-1", "fun": "test.echo", "arg": ["x"], "timeout": 1},
]


@dataclass(frozen=True)
class Seen:
    """What was seen of a master: its publications, its processes, its sockets, the job handler's functions."""

    publications: list[bytes]
    processes: int
    sockets: list[str]
    files: list[str]
    calls: set[str]


def key(path: Path) -> None:
    """Write a key pair as Salt does: PATH.pem and PATH.pub."""
    private = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    pem = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path.with_suffix(".pem").write_bytes(pem)
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    path.with_suffix(".pub").write_bytes(public)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of keys: the master's, and those of minions that it has accepted."""
    folder = tmp_path_factory.mktemp("pki")
    (folder / "minions").mkdir()
    key(folder / "master")
    for minion in MINIONS:
        key(folder / minion)
        (folder / f"{minion}.pub").rename(folder / "minions" / minion)
    return folder


def sockets(bed: Bed) -> list[str]:
    """Return what the master's processes listen on, without the folder that differs."""
    found = set()
    for process in psutil.Process(bed._master_process.pid).children(recursive=True):
        found |= {str(each.laddr).replace(str(bed.temporary), "") for each in process.net_connections("unix")}
        listening = [each for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        ports = {bed.master.publish_port: "publish", bed.master.request_port: "request"}
        found |= {ports.get(each.laddr.port, str(each.laddr.port)) for each in listening}
    return sorted(found)


def subscribe(subscriber: zmq.Socket[bytes], address: str) -> None:
    """Connect, and wait until the publisher knows of it."""
    with subscriber.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED) as monitor:
        subscriber.connect(address)
        assert monitor.poll(ARRIVE_MS)
        subscriber.disable_monitor()
    # the subscription follows the handshake, and nothing acknowledges it
    time.sleep(1)


def watch(tree: Path, folder: Path, keys: Path) -> Seen:
    """Run a master of this tree, and return what was seen of it."""
    wanted = BedSettings(
        tree=tree,
        folder=folder,
        pillar="none",
        postgres="none",
        api=None,
        master_options={
            "nodegroups": {"ours": "web-1 or db-1"},
            "gather_job_timeout": 1,
        },
    )
    bed = Bed(wanted)
    calls = folder / "calls"
    calls.touch()
    bed.environment["PYTHONPATH"] += os.pathsep + str(FIXED)
    bed.environment["SALTBED_CALLS"] = str(calls)
    with bed:
        # with these keys, and with nothing that a master has only at its first start
        shutil.rmtree(bed.master.pki_dir)
        shutil.copytree(keys, bed.master.pki_dir)
        bed.restart_master()
        return observe(bed, calls)


def observe(bed: Bed, calls: Path) -> Seen:
    """Ask a master for the jobs, and return what was seen."""
    with Client(bed) as client, zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
        subscriber.setsockopt(zmq.SUBSCRIBE, b"")
        subscriber.setsockopt(zmq.RCVTIMEO, ARRIVE_MS)
        subscriber.setsockopt(zmq.LINGER, 0)
        subscribe(subscriber, f"tcp://{HOST}:{bed.master.publish_port}")
        publications = []
        for number, request in enumerate(REQUESTS):
            more = {"count": 1} if request["do"] == "async" else {}
            what = {name: value for name, value in request.items() if name != "do"}
            client.do(str(request["do"]), **what, **more, jid=f"2026010100000000{number:04d}")
            publications.append(b"".join(subscriber.recv_multipart()))
        processes = len(psutil.Process(bed._master_process.pid).children(recursive=True))
        files = sorted(path.name for path in bed.master.sock_dir.iterdir())
        listening = sockets(bed)
    return Seen(publications, processes, listening, files, set(calls.read_text().split()))


@pytest.fixture(scope="module")
def both(root: Path, stock: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, Seen]:
    """Return what was seen of the stock master and of the patched one."""
    return (
        watch(stock, tmp_path_factory.mktemp("stock"), keys),
        watch(root / "salt", tmp_path_factory.mktemp("patched"), keys),
    )


def test_bytes_of_publications(both: tuple[Seen, Seen]) -> None:
    """Byte for byte the same publications are on the wire."""
    stock, patched = both
    assert len(stock.publications) == len(set(stock.publications)) == len(REQUESTS)
    assert all(len(publication) > 300 for publication in stock.publications)
    assert patched.publications == stock.publications


def test_no_process_and_no_socket(both: tuple[Seen, Seen]) -> None:
    """There are as many processes, and the same sockets."""
    stock, patched = both
    assert patched.processes == stock.processes > 5
    assert patched.files == stock.files
    assert patched.sockets == stock.sockets
    assert {"publish", "request"} <= set(stock.sockets)


def test_no_call(both: tuple[Seen, Seen]) -> None:
    """No function of the package is called but by its hooks.

    But for one look at the master's start: whether an earlier job handler has left jobs that wait.
    """
    stock, patched = both
    assert stock.calls == set()
    assert patched.calls == {"store.folder", "store.when_off"}
