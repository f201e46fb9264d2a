"""The server's side of a fleet's control socket, see `evil_minions.fleet.client`."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import ControlError, EvilMinionsError, UsageError
from evil_minions.fleet.client import connect, socket_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_LINE_LIMIT: Final = 64 * 1024 * 1024


async def serve(folder: Path, answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> asyncio.Server:
    """Open the control socket of `folder`, for its owner only, and answer every line with `answer`.

    Raises:
        UsageError: if another fleet runs in this folder, or the socket can't be made there.

    """
    path = socket_path(folder)
    if path.exists():
        try:
            connect(folder, timeout=1.0).close()
        except ControlError:
            path.unlink()
        else:
            raise UsageError(f"Another fleet runs in {folder}: stop it, or give another --folder.")

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await _reply(line, answer), default=str).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    mask = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(client, str(path), limit=_LINE_LIMIT)
    except OSError as error:
        raise UsageError(f"{path} can't be made ({error.strerror}): give another --folder.") from error
    finally:
        os.umask(mask)


async def _reply(line: bytes, answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the answer to one line, an error included."""
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            return {"error": "A request is a JSON object with a key `do`."}
        return await answer(request)
    except ValueError:
        return {"error": "A request is one line of JSON."}
    except EvilMinionsError as error:
        return {"error": str(error)}
