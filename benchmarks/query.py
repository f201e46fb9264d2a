"""Queries of 10,000 nodes and 10,000 jobs, beside what Salt has for the same: `cache.grains` and `manage.status`.

The master runs, with nobody connected, so `manage.status` asks 10,000 minions of which none answers, and waits as long
as it ever does; `cache.grains` is given the same grains as the queries.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgpack

from benchmarks.contender import TREES, Contender
from benchmarks.outcome import Outcome, ratio
from harness.bed import Bed, BedSettings

if TYPE_CHECKING:
    from benchmarks.options import Options

QUERIES = ("sixteen", "one", "names", "filter", "os", "jobs")
SALTS_OWN = ("cache.grains", "manage.status")


def run(options: Options) -> Outcome:
    """Measure all questions in turn, `options.rounds` times."""
    seconds: dict[str, list[float]] = {name: [] for name in (*QUERIES, *SALTS_OWN)}
    cpu: dict[str, list[float]] = {name: [] for name in seconds}
    memory: dict[str, list[float]] = {name: [] for name in seconds}
    items: dict[str, float] = {}
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(tree=TREES["patched"], folder=Path(folder), pillar="none", postgres="none", api=False)
        with Bed(settings) as bed:
            fill(bed.master.cache_dir, bed.master.pki_dir, options.minions)
            config = {"config": str(bed.master.config_dir / "master")}
            with Contender("patched", "query", config) as contender:
                for turn in range(options.rounds):
                    for name, series in seconds.items():
                        took, used, more, count = contender.run(name)[1]
                        series.append(took)
                        cpu[name].append(used)
                        memory[name].append(more)
                        items[f"{name}_items"] = count
                    options.progress(turn + 1, options.rounds)
    figures = {f"{name}_ms": median(series) * 1000 for name, series in seconds.items()}
    figures |= {f"{name}_cpu_ms": median(series) * 1000 for name, series in cpu.items()}
    figures |= {f"{name}_mb": max(series) for name, series in memory.items()}
    ratios = {f"sixteen_to_{name}": ratio(seconds["sixteen"], seconds[name]) for name in SALTS_OWN}
    description = f"{options.minions:,} nodes with 10 KB of grains each, and as many jobs"
    return Outcome("query", description, ratios, {**figures, **items}, seconds)


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
