"""The module `saltutil`: what runs on the minion, and refreshing what it has from the master."""

from __future__ import annotations

import asyncio
import fnmatch
import signal
from typing import TYPE_CHECKING, Any, Final

import salt.utils.args
from salt.exceptions import CommandExecutionError

from evil_minions.functions import CURRENT, MODULE_KINDS, Function

if TYPE_CHECKING:
    from collections.abc import Callable

_ORIGIN: Final = "salt.modules.saltutil"
_REFRESHING: Final = ("refresh_modules", "refresh_beacons", "refresh_matchers", "clear_cache")
_MASTERLESS: Final = {"sync_pillar": "Pillar", "sync_tops": "Master top", "sync_wrapper": "Wrapper"}


def running() -> list[dict[str, Any]]:
    """Return the jobs that run beside this one."""
    return CURRENT.get().others()


def is_running(fun: str) -> list[dict[str, Any]]:
    """Return the running jobs whose function matches a glob."""
    return [
        data for data in CURRENT.get().others() if isinstance(data["fun"], str) and fnmatch.fnmatch(data["fun"], fun)
    ]


def find_job(jid: str) -> dict[str, Any]:
    """Return the running job with this id, or the waiting one, or nothing."""
    call = CURRENT.get()
    return next((data for data in (*call.others(), *call.host.queued()) if data["jid"] == jid), {})


def signal_job(jid: str, sig: int) -> str:
    """Send a signal to a job, which ends it: no process of a job outlives one."""
    pid = CURRENT.get().host.stop_job(str(jid))
    return "" if pid is None else f"Signal {int(sig)} sent to job {jid} at pid {pid}"


def term_job(jid: str) -> str:
    """End a job politely."""
    return signal_job(jid, signal.SIGTERM)


def kill_job(jid: str) -> str:
    """End a job at once."""
    return signal_job(jid, signal.SIGKILL)


def term_all_jobs() -> list[str]:
    """End all jobs but this one politely."""
    return [term_job(data["jid"]) for data in CURRENT.get().others()]


def kill_all_jobs() -> list[str]:
    """End all jobs but this one at once."""
    return [kill_job(data["jid"]) for data in CURRENT.get().others()]


async def sync_all(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
    clean_pillar_cache: bool = False,
) -> dict[str, list[str]]:
    """Fetch the master's own modules of every kind, and refresh the pillar."""
    host = CURRENT.get().host
    found = await host.planner.synchronise(host, MODULE_KINDS, _saltenvs(saltenv))
    if refresh:
        host.refresh_pillar(clean_cache=bool(clean_pillar_cache))
    return found


def _saltenvs(saltenv: Any) -> list[str]:
    return saltenv.split(",") if isinstance(saltenv, str) else list(saltenv or ["base"])


def _sync(kind: str) -> Callable[..., Any]:
    """Return the function that fetches one kind of modules."""

    async def sync(
        saltenv: Any = None,
        refresh: bool = True,
        extmod_whitelist: Any = None,
        extmod_blacklist: Any = None,
        clean_pillar_cache: bool = False,
    ) -> list[str]:
        host = CURRENT.get().host
        found = await host.planner.synchronise(host, [kind], _saltenvs(saltenv))
        if refresh and kind == "grains":
            host.refresh_pillar(clean_cache=bool(clean_pillar_cache))
        if refresh and kind == "resources":
            host.register_resources()
        return found[kind]

    return sync


def _masterless(words: str) -> Callable[..., Any]:
    """Return a function that only minions without a master have."""

    def sync(saltenv: Any = None, extmod_whitelist: Any = None, extmod_blacklist: Any = None) -> None:
        raise CommandExecutionError(f"{words} modules can only be synced to masterless minions")

    return sync


def refresh_grains(**kwargs: Any) -> bool:
    """Have the master compile the pillar with the grains as they are now."""
    kwargs = salt.utils.args.clean_kwargs(**kwargs)
    wanted, clean = kwargs.pop("refresh_pillar", True), kwargs.pop("clean_pillar_cache", False)
    if kwargs:
        salt.utils.args.invalid_kwargs(kwargs)
    if wanted:
        CURRENT.get().host.refresh_pillar(clean_cache=bool(clean))
    return True


def refresh_resources() -> bool:
    """Tell the master which resources this minion manages."""
    CURRENT.get().host.register_resources()
    return True


def refresh_modules(**_kwargs: Any) -> bool:
    """Load modules again, without any request to the master; likewise beacons, matchers and the cache."""
    return True


async def refresh_pillar(wait: bool = False, timeout: float = 30, clean_cache: bool = True) -> bool:  # noqa: ASYNC109 - Salt's signature
    """Start to refresh the pillar, and wait for it if asked to."""
    task = CURRENT.get().host.refresh_pillar(clean_cache=bool(clean_cache))
    if wait:
        await asyncio.wait([task], timeout=float(timeout))
    return True


FUNCTIONS: Final = {
    "saltutil.running": Function(running, f"{_ORIGIN}:running"),
    "saltutil.is_running": Function(is_running, f"{_ORIGIN}:is_running"),
    "saltutil.find_job": Function(find_job, f"{_ORIGIN}:find_job"),
    **{
        f"saltutil.{call.__name__}": Function(call, f"{_ORIGIN}:{call.__name__}")
        for call in (signal_job, term_job, kill_job, term_all_jobs, kill_all_jobs)
    },
    **{f"saltutil.sync_{kind}": Function(_sync(kind), f"{_ORIGIN}:sync_{kind}", seconds=0.1) for kind in MODULE_KINDS},
    **{f"saltutil.{name}": Function(_masterless(words), f"{_ORIGIN}:{name}") for name, words in _MASTERLESS.items()},
    **{f"saltutil.{name}": Function(refresh_modules, f"{_ORIGIN}:{name}") for name in _REFRESHING},
    "saltutil.refresh_grains": Function(refresh_grains, f"{_ORIGIN}:refresh_grains"),
    "saltutil.refresh_resources": Function(refresh_resources, f"{_ORIGIN}:refresh_resources"),
    "saltutil.sync_all": Function(sync_all, f"{_ORIGIN}:sync_all", seconds=0.1),
    "saltutil.refresh_pillar": Function(refresh_pillar, f"{_ORIGIN}:refresh_pillar"),
    "saltutil.pillar_refresh": Function(refresh_pillar, f"{_ORIGIN}:refresh_pillar"),
}
