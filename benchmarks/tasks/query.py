"""Queries over a master's folders, and what Salt has for the same questions: `cache.grains` and listing keys.

Each measurement is made in a process of its own: its memory is that of one query.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from typing import TYPE_CHECKING, Any

import salt.cache
import salt.config
import salt.runner
import saltext.query
from salt.exceptions import SaltClientError

if TYPE_CHECKING:
    from collections.abc import Callable

SIXTEEN = [
    *("name", "key_state", "os", "os_family", "os_release", "os_finger", "kernel", "kernel_release"),
    *("arch", "ctotal", "cpu_model", "mtotal", "virtual", "product", "uuid", "fqdn"),
]
# of a site's own: grains, and entries of the mine
SITES = [
    *("grain.ec2.region", "grain.ec2.tags", "grain.rack", "grain.datacentre", "grain.owner"),
    *("mine.network.ip_addrs", "mine.disk.usage"),
]
# on a busy master the publication of manage.status may take longer than Salt waits for it
ATTEMPTS = 5
JOB_FIELDS = ["id", "fun", "user", "tgt", "exp_cnt", "start_ts"]
QUERIES: dict[str, tuple[str, list[str], Any]] = {
    "sixteen": ("node", SIXTEEN, None),
    "mapped": ("node", SIXTEEN, None),
    "sites": ("node", [*SIXTEEN, *SITES], None),
    "one": ("node", SIXTEEN, ["|", ["=", "name", "minion-00077"]]),
    "names": ("node", ["name"], None),
    "filter": ("node", ["name", "os"], ["&", ["=~", "name", "7$"], ["=", "os", "Debian"]]),
    "os": ("os", ["name", "node_cnt", "family", "kernel", "releases", "salt_versions"], None),
    "jobs": ("job", ["id", "fun", "user", "tgt", "start_ts"], None),
    "newest": ("job", JOB_FIELDS, None),
    "sorted": ("node", SIXTEEN, None),
}
MORE: dict[str, dict[str, Any]] = {"newest": {"sort": "-id", "limit": 50}, "sorted": {"sort": "-mtotal,name"}}


def prepare(settings: dict[str, Any]) -> Callable[[str], tuple[float, float, float, int]]:
    """Return a function that measures one of the questions: seconds, seconds of CPU, MB of memory, and items."""
    opts = salt.config.master_config(settings["config"])
    mapped = {**opts, "cache": "mmap_cache"}
    plain, other = salt.cache.Cache(opts), salt.cache.Cache(mapped)
    for minion in plain.list("grains"):
        other.store("grains", minion, plain.fetch("grains", minion))

    def measure(name: str) -> tuple[float, float, float, int]:
        found: tuple[float, float, float, int] | str = ""
        for _ in range(ATTEMPTS if name == "manage.status" else 1):
            found = _apart(mapped if name == "mapped" else opts, name)
            if not isinstance(found, str):
                return found
        raise RuntimeError(f"{name} has failed: {found}")

    return measure


def _apart(opts: dict[str, Any], name: str) -> tuple[float, float, float, int] | str:
    """Return what a process of its own has measured, or why it has not."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def answer() -> None:
        try:
            sender.send(_measure(opts, name))
        except SaltClientError as error:
            sender.send(str(error))

    process = context.Process(target=answer)
    process.start()
    # so that the end of the process is the end of the pipe
    sender.close()
    try:
        found: tuple[float, float, float, int] | str = receiver.recv()
    except EOFError:
        found = "its process has ended, and its traceback stands above"
    process.join()
    receiver.close()
    return found


def _measure(opts: dict[str, Any], name: str) -> tuple[float, float, float, int]:
    before = _memory()
    started, cpu = time.perf_counter(), time.process_time()
    if name == "cache.grains":
        count = len(salt.runner.RunnerClient({**opts, "quiet": True}).functions["cache.grains"](tgt="*"))
    elif name == "manage.status":
        found = salt.runner.RunnerClient({**opts, "quiet": True}).functions["manage.status"]()
        count = sum(map(len, found.values()))
    elif name == "count":
        count = saltext.query.count(opts, "node", ["os", "osrelease"])["counted"]
    else:
        count = len(saltext.query.items(opts, *QUERIES[name], **MORE.get(name, {}))["data"])
    return time.perf_counter() - started, time.process_time() - cpu, _memory() - before, count


def _memory() -> float:
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
