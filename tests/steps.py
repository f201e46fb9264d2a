"""Run steps side by side: `python tests/steps.py LANES`, where LANES is JSON, see `read_lanes`.

The steps of a lane run one after the other, the lanes at the same time. What a step says is shown when it has ended,
whole; the first step that fails stops all others, whose output is shown as well, and is shown last, and its exit code
is that of the whole. Ctrl-C stops all of them as well.

Example: python tests/steps.py '[[["lint", [["ruff", "check"]]], ["types", [["mypy", "."]]]], [["t", [["pytest"]]]]]'
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# a bed needs about ten seconds to stop all that it started
STOPPED_WITHIN_S = 60.0
INTERRUPTED = 128 + signal.SIGINT


@dataclass(frozen=True)
class Step:
    """Commands that run one after the other, up to the first that fails."""

    name: str
    commands: Sequence[Sequence[str]]


class FailedError(Exception):
    """A step has failed."""

    def __init__(self, step: Step, code: int, output: str, seconds: float) -> None:
        """Keep what to tell; `code` is an exit code as a shell gives it."""
        super().__init__(step.name)
        self.code = code
        self.told = f"{output}\n== {step.name}: failed with exit code {code} after {seconds:.0f} s"


def read_lanes(text: str) -> list[list[Step]]:
    """Return the lanes: a list of lists of steps, each of which is a name and a list of commands."""
    return [[Step(name, commands) for name, commands in lane] for lane in json.loads(text)]


async def run(step: Step) -> None:
    """Run a step and show what it said; raise FailedError when it fails."""
    begin = time.monotonic()
    print(f"== {step.name}: begins", flush=True)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            for command in step.commands:
                code = await call(command, output)
                if code:
                    break
        except asyncio.CancelledError:
            # it may have found something, too
            seconds = time.monotonic() - begin
            print(f"{text(output)}\n== {step.name}: stopped after {seconds:.0f} s".lstrip(), flush=True)
            raise
        said, seconds = text(output), time.monotonic() - begin
    if code:
        raise FailedError(step, code, said, seconds)
    print(f"{said}\n== {step.name}: passed after {seconds:.0f} s".lstrip(), flush=True)


def text(output: IO[str]) -> str:
    """Return what was written into a file."""
    output.seek(0)
    return output.read().rstrip()


async def call(command: Sequence[str], output: IO[str]) -> int:
    """Run a command and return its exit code as a shell gives it; stop it when the task is cancelled."""
    # in a group of its own: Ctrl-C reaches it once, through us
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
    )
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOPPED_WITHIN_S)
                break
        raise
    return code if code >= 0 else 128 - code


async def run_lane(lane: Sequence[Step]) -> None:
    """Run the steps of a lane."""
    for step in lane:
        await run(step)


async def run_all(lanes: Sequence[Sequence[Step]]) -> int:
    """Run all lanes; return the exit code of the whole."""
    this = asyncio.current_task()
    assert this
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    begin = time.monotonic()
    errors: list[FailedError] = []
    try:
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(run_lane(lane))
    except* FailedError as failed:
        # two may fail in the same moment
        errors += leaves(failed)
    if errors:
        print(*(error.told for error in errors), sep="\n", flush=True)
        return errors[-1].code
    print(f"== all passed after {time.monotonic() - begin:.0f} s", flush=True)
    return 0


def leaves(group: BaseExceptionGroup[FailedError]) -> Iterator[FailedError]:
    """Return the errors of a group and of the groups in it."""
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from leaves(one)
        else:
            yield one


def main(arguments: Sequence[str]) -> int:
    """Run the lanes that the first argument names."""
    if len(arguments) != 1 or arguments[0] in {"-h", "--help"}:
        print(__doc__)
        return 0 if arguments else 2
    try:
        return asyncio.run(run_all(read_lanes(arguments[0])))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
