"""What checks of several bugs need; it imports Salt, so only checks may import it."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any

import salt.config
import salt.transport.tcp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def _tornado() -> Any:
    """Return the Tornado that this Salt uses, which for Salt 3006 is one of its own."""
    try:
        importlib.import_module("salt.ext.tornado.ioloop")
        return importlib.import_module("salt.ext.tornado")
    except ImportError:
        importlib.import_module("tornado.ioloop")
        return importlib.import_module("tornado")


TORNADO = _tornado()
for _name in ("gen", "ioloop", "iostream"):
    importlib.import_module(f"{TORNADO.__name__}.{_name}")


def master_options(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the options of a master whose folders lie below `folder`."""
    opts: dict[str, Any] = dict(salt.config.master_config(None))
    for name in ("cachedir", "pki_dir", "sock_dir", "extension_modules"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        opts[name] = str(folder / name)
    return {**opts, "id": "zoo_master", "file_client": "local", "grains": {}, **changes}


def loop() -> Any:
    """Return an event loop of Tornado, which is the current one from now on."""
    made = TORNADO.ioloop.IOLoop()
    made.make_current()
    return made


def run(io_loop: Any, do: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Run a coroutine on a loop to its end, which has to come within some seconds."""
    io_loop.run_sync(do, timeout=seconds)


async def pause(seconds: float = 0.01) -> None:
    """Let the event loop work for some seconds."""
    await TORNADO.gen.sleep(seconds)


def ended(do: Callable[[], object], seconds: float) -> bool:
    """Return whether a call ends within some seconds; one that hangs stays in a thread."""
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def pub_server(opts: dict[str, Any], io_loop: Any, **options: Any) -> Any:
    """Return the publisher of the tcp transport, which also is the event bus of a master."""
    return salt.transport.tcp.PubServer(opts, io_loop=io_loop, **options)
