"""A terminal that a test types into: one bash, so that folders, variables and the last exit code live on."""

from __future__ import annotations

import os
import re
import secrets
import select
import shlex
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

BASH = ("bash", "--noprofile", "--norc")
STOP_S = 10.0
# Salt 3008 says this of its own objects at the end of a command, or does not
NOISE = re.compile(r"^(?:\[WARNING \] )?unclosed .* or use as a context manager\n", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """What a command printed on both of its outputs, and its exit code."""

    output: str
    code: int


class Shell:
    """A bash; a context manager. Commands run in its process group, all of which ends with it."""

    def __init__(
        self, argv: Sequence[str] = BASH, env: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        """Start it: `argv` is a bash, or what starts one elsewhere."""
        self._mark = secrets.token_hex(8)
        self._code = 0
        self._output = b""
        self._process = subprocess.Popen(
            argv,
            env=env,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        with self._process:
            try:
                os.killpg(self._process.pid, 15)
                self._process.wait(STOP_S)
            except ProcessLookupError:
                pass
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, 9)

    def send(self, command: str) -> None:
        """Type a command and do not wait."""
        assert self._process.stdin
        # a command that reads must not read what is typed next; `$?` is that of the command before
        line = f"(exit {self._code}); eval {shlex.quote(command)} < /dev/null"
        self._process.stdin.write(f"{line}\nprintf '\\n%s %d\\n' {self._mark} $?\n".encode())
        self._process.stdin.flush()

    def read(self, seconds: float) -> Answer:
        """Return the answer to the oldest command that was sent; raise TimeoutError after so many seconds."""
        assert self._process.stdout
        end = time.monotonic() + seconds
        mark = re.compile(rb"\n" + self._mark.encode() + rb" (\d+)\n")
        while not (found := mark.search(self._output)):
            left = end - time.monotonic()
            if left < 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise TimeoutError(f"no end after {seconds:g} s, printed so far:\n{_text(self._output)}")
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk:
                raise EOFError(f"the shell ended:\n{_text(self._output)}")
            self._output += chunk
        output, self._output = self._output[: found.start()], self._output[found.end() :]
        self._code = int(found[1])
        return Answer(_text(output), self._code)

    def type(self, command: str, seconds: float) -> Answer:
        """Type a command and return its answer; raise TimeoutError after so many seconds."""
        self.send(command)
        return self.read(seconds)


def _text(output: bytes) -> str:
    """Return an output as text."""
    return output.decode(errors="replace")


def _line(expected: str) -> str:
    """Return the pattern of a line that a page shows."""
    if expected.strip() == "...":
        return r"(?:[^\n]*\n)*"
    return "".join(".*" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", expected)) + r"\n"


def by_minion(text: str) -> str:
    """Return what `salt` prints with the answers of minions, which come in any order, sorted by their names."""
    return "".join(sorted(re.findall(r"^\S[^\n]*\n(?:(?:[ -][^\n]*)?\n)*", text.strip("\n") + "\n", re.MULTILINE)))


def is_shown(expected: str, output: str) -> bool:
    """Say whether an output is what a page shows.

    Spaces at the ends of lines and empty lines around do not count, nor does what Salt says of its own objects.
    """
    output = NOISE.sub("", output + "\n").strip("\n")
    printed = "\n".join(line.rstrip() for line in output.splitlines()) + "\n"
    pattern = "".join(_line(line.rstrip()) for line in expected.strip("\n").splitlines())
    return re.fullmatch(pattern, printed) is not None
