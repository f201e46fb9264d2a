"""Made-up minions and jobs in a master's folders, for questions that it answers from them."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import msgpack

if TYPE_CHECKING:
    from pathlib import Path


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
            "filling": filling,
        }
        (cache / "grains" / f"{minion}.p").write_bytes(msgpack.packb(grains, use_bin_type=False))
        shutil.copy(pki / "master.pub", pki / "minions" / minion)
        jid = str(20261121000000000000 + number)
        digest = hashlib.sha256(jid.encode()).hexdigest()
        folder = cache / "jobs" / digest[:2] / digest[2:]
        folder.mkdir(parents=True)
        (folder / "jid").write_text(jid, encoding="ascii")
        load = {"jid": jid, "fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "user": "root", "ret": ""}
        (folder / ".load.p").write_bytes(msgpack.packb(load, use_bin_type=False))
