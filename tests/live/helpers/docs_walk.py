"""Follow a page word by word: write what it says to write, type what it says to type, compare what it shows."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tests.live.helpers.docs_page import Block, Typed, blocks, heading
from tests.live.helpers.docs_shell import Answer, Shell, by_minion, is_shown

if TYPE_CHECKING:
    from pathlib import Path

# far beyond what it takes: a busy machine needs minutes to start a bed
COMMAND_S = 600.0
MAIN = ""


class Place(Protocol):
    """Where a page is followed: a machine of its own, or a folder of this one."""

    def shell(self) -> Shell:
        """Return a new terminal, in the folder in which the reader is."""

    def write(self, path: str, text: str) -> None:
        """Write a file; a path without a slash in front lies in the reader's folder."""


class WrongPageError(AssertionError):
    """What happened is not what the page says."""


def follow(page: Path, place: Place, *, since: str | None = None, until: str | None = None) -> None:
    """Follow a page, or its chapters from `since` to before `until`; raise WrongPageError with all differences."""
    wrong: list[str] = []
    first = heading(page, since) if since else 0
    end = heading(page, until) if until else None
    with ExitStack() as stack:
        terminals: dict[str, Shell] = {}
        waiting: dict[str, Typed] = {}
        for block in blocks(page):
            if block.is_left_out or block.line < first or (end is not None and block.line >= end):
                continue
            if block.problem:
                raise WrongPageError(f"{page}:{block.line}: {block.problem}")
            if block.file:
                place.write(block.file, block.text + "\n")
                continue
            name = block.markers.get("terminal", MAIN)
            if name not in terminals:
                terminals[name] = stack.enter_context(place.shell())
            type_in = _type if name == MAIN else partial(_begin, waiting)
            wrong += type_in(page, block, terminals[name])
        for name, command in waiting.items():
            wrong += _differences(page, command, _end(page, command, terminals[name]))
    if wrong:
        raise WrongPageError("\n\n".join(wrong))


def _begin(waiting: dict[str, Typed], page: Path, block: Block, shell: Shell) -> list[str]:
    """Type the commands of a block in another terminal and leave the last one running, return what is wrong."""
    name, wrong = block.markers["terminal"], []
    for command in block.commands:
        if earlier := waiting.pop(name, None):
            wrong += _differences(page, earlier, _end(page, earlier, shell))
        shell.send(command.text)
        waiting[name] = command
    return wrong


def _type(page: Path, block: Block, shell: Shell) -> list[str]:
    """Type the commands of a block and return what is wrong."""
    wrong = []
    commands = block.commands
    following = [command.text for command in commands[1:]] + [""]
    for command, after in zip(commands, following, strict=True):
        # a command that fails is one whose exit code the page shows
        checked = after != "echo $?"
        shell.send(command.text)
        answer = _end(page, command, shell)
        if "again" in block.markers and command is commands[-1]:
            end = time.monotonic() + float(block.markers["again"])
            while _differences(page, command, answer, checked=checked) and time.monotonic() < end:
                time.sleep(1)
                shell.send(command.text)
                answer = _end(page, command, shell)
        wrong += _differences(page, command, answer, checked=checked)
    return wrong


def _end(page: Path, command: Typed, shell: Shell) -> Answer:
    """Return the answer to a command that was sent; raise WrongPageError if there is none in time."""
    try:
        answer = shell.read(COMMAND_S)
    except (TimeoutError, EOFError) as error:
        raise WrongPageError(f"{page}:{command.line}: {command.text}\n{error}") from error
    # pytest shows it if the page is wrong
    print(f"$ {command.text}\n{answer.output}", flush=True)
    return answer


def _differences(page: Path, command: Typed, answer: Answer, *, checked: bool = True) -> list[str]:
    """Return what is wrong with an answer; `checked` says whether it has to be a success."""
    where = f"{page}:{command.line}: {command.text}"
    if checked and answer.code != 0:
        return [f"{where}\nends with exit code {answer.code}:\n{answer.output}"]
    shown = is_shown(command.shown, answer.output)
    if not shown and command.text.startswith("salt "):
        shown = is_shown(by_minion(command.shown), by_minion(answer.output))
    if command.shown and not shown:
        return [f"{where}\nthe page shows:\n{command.shown}\nit prints:\n{answer.output}"]
    return []
