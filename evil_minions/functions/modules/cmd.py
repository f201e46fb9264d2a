"""The module `cmd`: a shell of a few commands, because nothing a job asks for may run on the machine of the fleet."""

from __future__ import annotations

import asyncio
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from evil_minions.functions import CURRENT, Function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NOT_FOUND: Final = 127
_SYNTAX: Final = 2
_SEPARATOR: Final = re.compile(r"\s*(&&|\|\||;)\s*")


@dataclass(frozen=True, slots=True)
class Printed:
    """What one command printed, its exit code, the seconds it takes, and whether the shell ends with it."""

    text: str = ""
    code: int = 0
    seconds: float = 0.0
    ends: bool = False


def _exit(words: list[str], grains: Mapping[str, Any]) -> Printed:
    return Printed(code=int(words[1]) & 255 if len(words) > 1 and words[1].isdigit() else 0, ends=True)


def _echo(words: list[str], grains: Mapping[str, Any]) -> Printed:
    return Printed(" ".join(words[1:]))


def _sleep(words: list[str], grains: Mapping[str, Any]) -> Printed:
    try:
        return Printed(seconds=max(0.0, float(words[1])))
    except (IndexError, ValueError):
        return Printed("sleep: missing operand", 1)


def _uname(words: list[str], grains: Mapping[str, Any]) -> Printed:
    """Print the kernel's name, release or node name."""
    names = {"-s": "kernel", "-r": "kernelrelease", "-n": "nodename", "-m": "cpuarch", "-v": "kernelversion"}
    return Printed(" ".join(str(grains[names.get(word, "kernel")]) for word in words[1:] or ["-s"]))


def _hostname(words: list[str], grains: Mapping[str, Any]) -> Printed:
    return Printed(str(grains["fqdn" if "-f" in words[1:] else "host"]))


_COMMANDS: Final[dict[str, Callable[[list[str], Mapping[str, Any]], Printed]]] = {
    "echo": _echo,
    "exit": _exit,
    "false": lambda _words, _grains: Printed(code=1),
    "hostname": _hostname,
    "sleep": _sleep,
    "true": lambda _words, _grains: Printed(),
    "uname": _uname,
    "uptime": lambda _words, _grains: Printed(" 12:00:00 up 9 days,  3:07,  0 users,  load average: 0.08, 0.03, 0.01"),
    "whoami": lambda _words, _grains: Printed("root"),
}


def execute(line: str, grains: Mapping[str, Any]) -> Printed:
    """Return what a shell line does: commands with `;`, `&&` and `||` between them, no pipes or redirections.

    A command that the table doesn't have isn't found, as on a host that doesn't have it.
    """
    parts = _SEPARATOR.split(line.strip())
    printed: list[str] = []
    code, seconds = 0, 0.0
    for number in range(0, len(parts), 2):
        operator = parts[number - 1] if number else ";"
        if (operator == "&&" and code) or (operator == "||" and not code) or not parts[number]:
            continue
        outcome = _command(parts[number], grains)
        code, seconds = outcome.code, seconds + outcome.seconds
        if outcome.text:
            printed.append(outcome.text)
        if outcome.ends:
            break
    return Printed("\n".join(printed), code, seconds)


def _command(text: str, grains: Mapping[str, Any]) -> Printed:
    try:
        words = shlex.split(text)
    except ValueError:
        return Printed("/bin/bash: -c: line 1: syntax error", _SYNTAX)
    if not words:
        return Printed()
    run = _COMMANDS.get(words[0])
    return run(words, grains) if run else Printed(_unknown(words[0], str(grains.get("shell", "/bin/sh"))), NOT_FOUND)


def _unknown(command: str, shell: str) -> str:
    """Return what a minion's shell says of a command that isn't there; other shells than bash say it as dash does."""
    return (
        f"{shell}: line 1: {command}: command not found"
        if shell.endswith("bash")
        else f"{shell}: 1: {command}: not found"
    )


async def run(cmd: str, **kwargs: object) -> str:
    """Return what the simulated command prints; its exit code becomes that of the job."""
    call = CURRENT.get()
    outcome = execute(str(cmd), call.host.grains())
    if outcome.seconds:
        await asyncio.sleep(outcome.seconds)
    if not kwargs.get("ignore_retcode"):
        call.retcode = outcome.code
    return outcome.text


async def retcode(cmd: str, **kwargs: object) -> int:
    """Return the exit code of the simulated command, which becomes that of the job."""
    await run(cmd, **kwargs)
    return execute(str(cmd), CURRENT.get().host.grains()).code


async def run_stderr(cmd: str, **kwargs: object) -> str:
    """Return what the simulated command prints as errors: the shell's own words about a command that isn't there."""
    text = await run(cmd, **kwargs)
    return text if execute(str(cmd), CURRENT.get().host.grains()).code in (_SYNTAX, NOT_FOUND) else ""


_ORIGIN: Final = "salt.modules.cmdmod"
FUNCTIONS: Final = {
    "cmd.run": Function(run, f"{_ORIGIN}:run"),
    "cmd.shell": Function(run, f"{_ORIGIN}:shell"),
    "cmd.run_stdout": Function(run, f"{_ORIGIN}:run_stdout"),
    "cmd.run_stderr": Function(run_stderr, f"{_ORIGIN}:run_stderr"),
    "cmd.retcode": Function(retcode, f"{_ORIGIN}:retcode"),
}
