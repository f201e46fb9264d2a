"""What a minion asks the file server for on its way to states and modules.

The answers don't matter to a simulated minion, the questions do: they are most of what a highstate costs the master.
Source: requests recorded from a minion of Salt 3008.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from evil_minions.functions.call import Host

MODULE_KINDS: Final = (
    "clouds",
    "beacons",
    "modules",
    "states",
    "sdb",
    "grains",
    "renderers",
    "returners",
    "output",
    "utils",
    "log_handlers",
    "executors",
    "proxymodules",
    "engines",
    "thorium",
    "serializers",
    "matchers",
    "resources",
)


def top(host: Host) -> list[dict[str, Any]]:
    """Return the questions that lead to the top file."""
    return [
        {"cmd": "_file_envs"},
        {"path": "top.sls", "saltenv": "base", "cmd": "_file_hash"},
        {"cmd": "_master_tops", "id": host.id, "opts": {"id": host.id, "grains": host.grains()}},
    ]


def modules() -> list[dict[str, Any]]:
    """Return the questions for modules to synchronise: one for each kind."""
    return [{"saltenv": "base", "prefix": "", "cmd": "_file_list"} for _ in MODULE_KINDS]


def states(names: list[str]) -> list[dict[str, Any]]:
    """Return the questions for state files."""
    files = [{"path": f"{name.replace('.', '/')}.sls", "saltenv": "base", "cmd": "_file_hash"} for name in names]
    return [{"saltenv": "base", "prefix": "", "cmd": "_file_list"}, *files]
