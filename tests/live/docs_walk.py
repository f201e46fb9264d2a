"""Follow a page word by word: write what it says to write, type what it says to type, compare what it shows."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from tests.live.docs_page import Block, Typed, blocks
from tests.live.docs_shell import Answer, Shell, by_minion, is_shown

if TYPE_CHECKING:
    from pathlib import Path

COMMAND_S = 240.0
MAIN = ""


class Place(Protocol):
    """Where a page is followed: a machine of its own, or a folder of this one."""

    def shell(self) -> Shell:
        """Return a new terminal, in the folder in which the reader is."""

    def write(self, path: str, text: str) -> None:
        """Write a file; a path without a slash in front lies in the reader's folder."""


class WrongPageError(AssertionError):
    """What happened is not what the page says."""


def follow(page: Path, place: Place) -> None:
    """Follow a page from its first block to its last; raise WrongPageError at the first difference."""
    with ExitStack() as stack:
        terminals: dict[str, Shell] = {}
        waiting: dict[str, Typed] = {}
        for block in blocks(page):
            if block.is_left_out:
                continue
            if block.problem:
                raise WrongPageError(f"{page}:{block.line}: {block.problem}")
            if block.file:
                place.write(block.file, block.text + "\n")
                continue
            name = block.markers.get("terminal", MAIN)
            if name not in terminals:
                terminals[name] = stack.enter_context(place.shell())
            if name == MAIN:
                _type(page, block, terminals[name])
                continue
            for command in block.commands:
                if earlier := waiting.pop(name, None):
                    _compare(page, earlier, terminals[name].read(COMMAND_S), checked=True)
                terminals[name].send(command.text)
                waiting[name] = command
        for name, command in waiting.items():
            _compare(page, command, terminals[name].read(COMMAND_S), checked=True)


def _type(page: Path, block: Block, shell: Shell) -> None:
    """Type the commands of a block."""
    commands = block.commands
    following = [command.text for command in commands[1:]] + [""]
    for command, after in zip(commands, following, strict=True):
        answer = _answer(page, command, shell)
        if "again" in block.markers and command is commands[-1]:
            end = time.monotonic() + float(block.markers["again"])
            while not is_shown(command.shown, answer.output) and time.monotonic() < end:
                time.sleep(1)
                answer = _answer(page, command, shell)
        _compare(page, command, answer, checked=after != "echo $?")


def _answer(page: Path, command: Typed, shell: Shell) -> Answer:
    """Type one command."""
    try:
        answer = shell.type(command.text, COMMAND_S)
    except (TimeoutError, EOFError) as error:
        raise WrongPageError(f"{page}:{command.line}: {command.text}\n{error}") from error
    # pytest shows it if the page is wrong
    print(f"$ {command.text}\n{answer.output}", flush=True)
    return answer


def _compare(page: Path, command: Typed, answer: Answer, *, checked: bool) -> None:
    """Raise WrongPageError if an answer is not the one of the page; `checked` says whether it has to be a success."""
    where = f"{page}:{command.line}: {command.text}"
    if checked and answer.code != 0:
        raise WrongPageError(f"{where}\nends with exit code {answer.code}:\n{answer.output}")
    shown = is_shown(command.shown, answer.output)
    if not shown and command.text.startswith("salt "):
        shown = is_shown(by_minion(command.shown), by_minion(answer.output))
    if command.shown and not shown:
        raise WrongPageError(f"{where}\nthe page shows:\n{command.shown}\nit prints:\n{answer.output}")
