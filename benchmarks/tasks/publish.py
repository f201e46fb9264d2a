"""One publication through a running master, as an asynchronous client asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import salt.client

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare(settings: dict[str, Any]) -> Callable[[], str]:
    """Return the call; `settings` has `config`, the path of the master's configuration file."""
    client = salt.client.LocalClient(c_path=settings["config"])
    return lambda: str(client.cmd_async("*", "test.version"))
