"""The modules `status`, `disk`, `pkg` and `service`: a small server as it is on any day.

What it has is in `data/machine.json`; what changes all the time is random.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evil_minions.functions import CURRENT, Function

if TYPE_CHECKING:
    from collections.abc import Callable

_FILE: Final = Path(__file__).parent.parent.parent / "data" / "machine.json"
_MACHINE: Final[dict[str, Any]] = json.loads(_FILE.read_text())
_DAY: Final = 86400
_KB: Final = 1024


def uptime() -> dict[str, Any]:
    """Return how long the machine is up."""
    booted = datetime.fromisoformat(_MACHINE["booted"]).replace(tzinfo=UTC)
    now = datetime.now(UTC)
    seconds = max(0, int((now - booted).total_seconds()))
    hours, minutes = divmod(seconds % _DAY // 60, 60)
    return {
        "seconds": seconds,
        "since_iso": booted.replace(tzinfo=None).isoformat(),
        "since_t": int(booted.timestamp()),
        "days": seconds // _DAY,
        "time": f"{hours}:{minutes:02d}",
        "users": 0,
    }


def loadavg() -> dict[str, float]:
    """Return the load averages."""
    rng = CURRENT.get().rng
    return {f"{minutes}-min": round(rng.lognormvariate(-1.5, 0.8), 2) for minutes in (1, 5, 15)}


def meminfo() -> dict[str, dict[str, str]]:
    """Return how memory is used."""
    return {name: {"value": str(value), "unit": "kB"} for name, value in _MACHINE["memory"].items()}


def diskusage(*args: str) -> dict[str, dict[str, int]]:
    """Return total and available bytes of the mounted file systems."""
    return {
        path: {"available": int(disk["available"]) * _KB, "total": int(disk["1K-blocks"]) * _KB}
        for path, disk in _MACHINE["disks"].items()
    }


def nproc() -> int:
    """Return the number of processors."""
    return int(CURRENT.get().host.grains()["num_cpus"])


def time_(format: str = "%A, %d. %B %Y %I:%M%p") -> str:
    """Return the time."""
    return datetime.now(UTC).strftime(format)


def usage(args: Any = None) -> dict[str, dict[str, str]]:
    """Return what `df` says."""
    return {path: dict(disk) for path, disk in _MACHINE["disks"].items()}


def list_pkgs(
    versions_as_list: bool = False, removed: bool = False, purge_desired: bool = False, **kwargs: Any
) -> dict[str, Any]:
    """Return the installed packages with their versions."""
    if removed or purge_desired:
        return {}
    found: dict[str, Any] = dict(_MACHINE["packages"])
    return {name: version.split(",") for name, version in found.items()} if versions_as_list else found


def version(*names: str, **kwargs: Any) -> Any:
    """Return the version of one package, or of several by name; an empty one for what isn't installed."""
    found = {name: _MACHINE["packages"].get(name, "") for name in names}
    return found[names[0]] if len(names) == 1 else found


def get_all() -> list[str]:
    """Return the services."""
    return list(_MACHINE["services"])


def available(name: str) -> bool:
    """Return whether there is a service of this name."""
    return name in _MACHINE["services"]


def status(name: str, sig: Any = None) -> bool:
    """Return whether a service runs."""
    return name in _MACHINE["running"]


def _table(module: str, origin: str, seconds: float, **calls: Callable[..., Any]) -> dict[str, Function]:
    """Return functions of one of Salt's modules, under their names there."""
    return {
        f"{module}.{name.rstrip('_')}": Function(call, f"salt.modules.{origin}:{name}", seconds=seconds)
        for name, call in calls.items()
    }


FUNCTIONS: Final = {
    **_table(
        "status",
        "status",
        0.03,
        uptime=uptime,
        loadavg=loadavg,
        meminfo=meminfo,
        diskusage=diskusage,
        nproc=nproc,
        time_=time_,
    ),
    **_table("disk", "disk", 0.05, usage=usage),
    **_table("pkg", "aptpkg", 0.3, list_pkgs=list_pkgs, version=version),
    **_table("service", "systemd_service", 0.3, get_all=get_all, available=available, status=status),
}
