"""A Salt tree whose master writes down every request that it decrypts, for tests of what minions ask for.

The tree is a folder with a link to a real one and a `salt-master` of its own, so nothing of the bed knows of it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

LOG = "requests.jsonl"
_MASTER = '''\
"""Start a master that writes its requests down."""
import asyncio, json, os, sys, time

import salt.master
import salt.payload

LOG = {log!r}


def note(load, answer):
    """Write one request and the size of its answer."""
    if isinstance(answer, tuple):
        answer = answer[0]
    found = {{name: load.get(name) for name in ("id", "cmd", "path", "saltenv", "prefix", "loc", "tag", "fun", "jid")}}
    data = answer.get("data") if isinstance(answer, dict) and load["cmd"] == "_serve_file" else None
    found["bytes"] = len(data or b"")
    found["time"] = time.time()
    found["answer"] = len(salt.payload.dumps(answer))
    text = json.dumps({{name: value for name, value in found.items() if value is not None}}) + "\\n"
    descriptor = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, text.encode())
    os.close(descriptor)


plain = salt.master.AESFuncs.run_func


def run_func(self, func, load):
    kept = dict(load)
    answer = plain(self, func, load)
    if not asyncio.iscoroutine(answer):
        note(kept, answer)
        return answer

    async def wait():
        found = await answer
        note(kept, found)
        return found

    return wait()


salt.master.AESFuncs.run_func = run_func

import salt.scripts

if __name__ == "__main__":
    salt.scripts.salt_master()
'''


@dataclass(frozen=True)
class Request:
    """One request: who asked for what, the bytes of a file that the answer held, and the answer's size in all."""

    id: str
    cmd: str
    path: str = ""
    loc: int = 0
    bytes: int = 0
    answer: int = 0

    @property
    def kind(self) -> str:
        """Return the command, and what it was about."""
        return f"{self.cmd} {self.path}".strip()


@dataclass(frozen=True)
class Tap:
    """The tree, and what its master has been asked so far."""

    tree: Path

    def mark(self) -> int:
        """Return how much has been written by now."""
        path = self.tree / LOG
        return path.stat().st_size if path.exists() else 0

    def since(self, mark: int) -> list[Request]:
        """Return the requests since then."""
        with (self.tree / LOG).open("rb") as log:
            log.seek(mark)
            rows: list[dict[str, Any]] = [json.loads(line) for line in log if line.endswith(b"\n")]
        return [
            Request(
                row["id"],
                row["cmd"],
                row.get("path", row.get("prefix", "")),
                row.get("loc", 0),
                row["bytes"],
                row["answer"],
            )
            for row in rows
        ]


def kinds(requests: list[Request], minion: str) -> Counter[str]:
    """Return how often a minion asked for what; not its returns."""
    return Counter(request.kind for request in requests if request.id == minion and request.cmd != "_return")


def make(folder: Path, tree: Path) -> Tap:
    """Make a tree in `folder` after `tree`."""
    folder.mkdir()
    (folder / "scripts").mkdir()
    for entry in tree.iterdir():
        if entry.name != "scripts":
            (folder / entry.name).symlink_to(entry.absolute())
    for script in (tree / "scripts").iterdir():
        (folder / "scripts" / script.name).symlink_to(script.absolute())
    (folder / "scripts" / "salt-master").unlink()
    (folder / "scripts" / "salt-master").write_text(_MASTER.format(log=str((folder / LOG).absolute())))
    return Tap(folder)
