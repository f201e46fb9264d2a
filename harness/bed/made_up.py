"""Made-up minions and jobs in a master's folders, for questions that it answers from them."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import msgpack

if TYPE_CHECKING:
    from pathlib import Path

FIRST_JOB = 20261121000000000000
# all jobs have minions; of the jobs the newest have returns, more than the usual page of 50 shows: each return is a
# folder, and what is made has to go as well
JOBS_WITH_RETURNS, RETURNS = 60, 500


def fill(cache: Path, pki: Path, count: int) -> None:
    """Give a master so many minions with grains, and as many jobs."""
    (cache / "grains").mkdir(parents=True, exist_ok=True)
    systems = [("Debian", "Debian", "12"), ("Ubuntu", "Debian", "24.04"), ("SLES", "Suse", "15")]
    filling = {f"item{number}": {"name": f"value of {number}", "numbers": list(range(20))} for number in range(150)}
    for number in range(count):
        minion = f"minion-{number:05d}"
        name, family, release = systems[number % 3]
        grains = {
            "id": minion,
            "os": name,
            "os_family": family,
            "osrelease": release,
            "osfinger": f"{name}-{release}",
            "kernel": "Linux",
            "kernelrelease": "6.1.0-18-amd64",
            "cpuarch": "x86_64",
            "num_cpus": 4,
            "cpu_model": "Some processor",
            "mem_total": 4096 + number,
            "virtual": "kvm",
            "productname": "Standard PC",
            "uuid": hashlib.md5(minion.encode(), usedforsecurity=False).hexdigest(),
            "fqdn": f"{minion}.example.com",
            "saltversion": "3008.5",
            "ipv4": ["127.0.0.1", f"10.0.{number // 256}.{number % 256}"],
            "ec2": {"region": f"region-{number % 4}", "tags": ["a", "b"]},
            "rack": number % 40,
            "datacentre": f"dc{number % 3}",
            "owner": f"team{number % 9}",
            "filling": filling,
        }
        (cache / "grains" / f"{minion}.p").write_bytes(msgpack.packb(grains, use_bin_type=False))
        shutil.copy(pki / "master.pub", pki / "minions" / minion)
        jid = str(FIRST_JOB + number)
        folder = job_folder(cache, jid)
        folder.mkdir(parents=True)
        (folder / "jid").write_text(jid, encoding="ascii")
        load = {"jid": jid, "fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "user": "root", "ret": ""}
        (folder / ".load.p").write_bytes(msgpack.packb(load, use_bin_type=False))


def add_mines(cache: Path, count: int) -> None:
    """Give the minions two entries of the mine each."""
    (cache / "mine").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        mine = {
            "network.ip_addrs": [f"10.0.{number // 256}.{number % 256}"],
            "disk.usage": {"/": {"available": str(number), "used": "1"}},
        }
        (cache / "mine" / f"minion-{number:05d}.p").write_bytes(msgpack.packb(mine, use_bin_type=False))


def add_returns(cache: Path, count: int) -> None:
    """Give the jobs minions, and the newest of them a return of each."""
    minions = msgpack.packb([f"minion-{number:05d}" for number in range(RETURNS)], use_bin_type=False)
    packed = msgpack.packb({"return": True, "retcode": 0, "success": True}, use_bin_type=False)
    for number in range(count):
        folder = job_folder(cache, str(FIRST_JOB + number))
        (folder / ".minions.p").write_bytes(minions)
        for minion in range(RETURNS if number >= count - JOBS_WITH_RETURNS else 0):
            made = folder / f"minion-{minion:05d}"
            made.mkdir()
            (made / "return.p").write_bytes(packed)


def job_folder(cache: Path, jid: str) -> Path:
    """Return where the local job cache keeps a job."""
    digest = hashlib.sha256(jid.encode()).hexdigest()
    return cache / "jobs" / digest[:2] / digest[2:]
