"""The module `test`: what answers at once, and a sleep that blocks nobody."""

from __future__ import annotations

import asyncio
from typing import Final

from evil_minions.functions import CURRENT, Function


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


def version() -> str:
    """Return the version that this minion simulates."""
    return "3008.5"


def true_() -> bool:
    """Say yes."""
    return True


def false_() -> bool:
    """Say no."""
    return False


def retcode(code: int = 42) -> bool:
    """End with an exit code."""
    CURRENT.get().retcode = int(code)
    return True


FUNCTIONS: Final = {
    "test.version": Function(version, "salt.modules.test:version"),
    "test.true": Function(true_, "salt.modules.test:true_"),
    "test.false": Function(false_, "salt.modules.test:false_"),
    "test.retcode": Function(retcode, "salt.modules.test:retcode"),
    "test.ping": Function(ping, "salt.modules.test:ping"),
    "test.echo": Function(echo, "salt.modules.test:echo"),
    "test.sleep": Function(sleep, "salt.modules.test:sleep"),
}
