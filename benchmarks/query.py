"""Queries of 10,000 nodes and 10,000 jobs, beside what Salt has for the same: `cache.grains` and `manage.status`.

The master runs, with nobody connected, so `manage.status` asks 10,000 minions of which none answers, and waits as long
as it ever does; `cache.grains` is given the same grains as the queries.
"""

from __future__ import annotations

import hashlib
import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgpack

from benchmarks.benchmark import Benchmark
from benchmarks.contender import TREES, Contender
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, at_most
from benchmarks.turns import interleave
from harness.bed import Bed, BedSettings

if TYPE_CHECKING:
    from benchmarks.options import Options

QUESTIONS = {
    "sixteen": "16 fields of {minions} nodes",
    "one": "one node by name",
    "names": "names of {minions} nodes",
    "filter": "name and OS of the nodes that a filter finds",
    "os": "operating systems of {minions} nodes",
    "jobs": "five fields of {minions} jobs",
    "sites": "16 fields, 5 grains and 2 mine entries of {minions} nodes",
    "sorted": "16 fields of {minions} nodes, sorted",
    "count": "{minions} nodes counted by os,osrelease",
    "newest": "the usual fields of the newest 50 of {minions} jobs",
    "cache.grains": "beside it: salt-run cache.grains",
    "manage.status": "beside it: salt-run manage.status",
}
FIRST_JOB = 20261121000000000000
# what the queries are compared with, in the place of stock
SALTS_OWN = ("cache.grains", "manage.status")
TIME_AIMS = {"sixteen": at_most(0.6), "sites": at_most(1.0), "count": at_most(0.4), "newest": at_most(0.5)}
MEMORY_AIMS = {"sixteen": at_most(25)}
# of the jobs, the newest have minions and returns: as many as would be read by a query that reads too much
JOBS_WITH_RETURNS, RETURNS = 200, 500
TIME = {name: Figure(f"{name}-time", what, "s", aim=TIME_AIMS.get(name)) for name, what in QUESTIONS.items()}
MEMORY = {
    name: Figure(f"{name}-memory", f"{what}: memory", "MB", "max", MEMORY_AIMS.get(name))
    for name, what in QUESTIONS.items()
}
SORTED = Figure("sorted-to-sixteen", "16 fields, sorted / not sorted", "x", aim=at_most(1.3))
SHARE = {name: Figure(f"sixteen-to-{name}", f"16 fields of {{minions}} nodes / {name}", "x") for name in SALTS_OWN}


def run(options: Options) -> dict[Figure, Samples]:
    """Measure all questions in turn, `options.rounds` times."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(tree=TREES["patched"], folder=Path(folder), pillar="none", postgres="none", api=False)
        with Bed(settings) as bed:
            fill(bed.master.cache_dir, bed.master.pki_dir, options.minions)
            add_mines(bed.master.cache_dir, options.minions)
            add_returns(bed.master.cache_dir, options.minions)
            config = {"config": str(bed.master.config_dir / "master")}
            with Contender("patched", "query", config) as contender:
                found = interleave({name: partial(_ask, contender, name) for name in QUESTIONS}, options)
    items = {count for _, _, count in found["sixteen"]}
    if items != {options.minions}:
        raise BenchmarkError(f"The query gave {items} of {options.minions} nodes; this is a fault of the patch.")
    seconds = {name: [took for took, _, _ in series] for name, series in found.items()}
    return {
        **{TIME[name]: Samples(series) for name, series in seconds.items()},
        **{MEMORY[name]: Samples([more for _, more, _ in series]) for name, series in found.items()},
        **{
            figure: Samples([mine / theirs for mine, theirs in zip(seconds["sixteen"], seconds[name], strict=True)])
            for name, figure in SHARE.items()
        },
        SORTED: Samples([mine / plain for mine, plain in zip(seconds["sorted"], seconds["sixteen"], strict=True)]),
    }


def _ask(contender: Contender, name: str, _turn: int) -> tuple[float, float, int]:
    """Return the seconds, the megabytes and the items of a question, asked in a process of its own."""
    took, _cpu, more, count = contender.run(name)[1]
    return took, more, count


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


QUERY = Benchmark(
    name="query",
    about="queries of nodes, systems and jobs beside cache.grains and manage.status",
    run=run,
    figures=(*TIME.values(), *MEMORY.values(), *SHARE.values(), SORTED),
    minions=10_000,
    rounds=5,
    minutes=5,
)
