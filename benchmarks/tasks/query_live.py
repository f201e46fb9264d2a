"""Jobs to a few minions of a running master, as other users have them while somebody queries the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import salt.client

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare(settings: dict[str, Any]) -> Callable[[list[str], str, str], str]:
    """Return a call that publishes a function with an argument; `config` is the path of the master's configuration."""
    client = salt.client.LocalClient(c_path=settings["config"])
    return lambda minions, fun, arg: str(client.cmd_async(minions, fun, [arg], tgt_type="list"))
