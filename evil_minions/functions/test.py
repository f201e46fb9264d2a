"""The module `test`: what answers at once, and a sleep that blocks nobody."""

from __future__ import annotations

import asyncio
from typing import Final

from evil_minions.functions.registry import Function


def ping() -> bool:
    """Say that the minion is up."""
    return True


def echo(text: object) -> object:
    """Return the argument."""
    return text


async def sleep(length: str) -> bool:
    """Let the job run for `length` seconds."""
    await asyncio.sleep(int(length))
    return True


FUNCTIONS: Final = {
    "test.ping": Function(ping, "salt.modules.test:ping"),
    "test.echo": Function(echo, "salt.modules.test:echo"),
    "test.sleep": Function(sleep, "salt.modules.test:sleep"),
}
