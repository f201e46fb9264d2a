"""The patched Salt as a process that compiles pillars and runs runners, or that minions return with.

Salt changes the process that it is imported into (its loader, its warnings, its import hooks), so a test leaves it
in one of its own.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import SaltProcessError
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.bed import Bed
    from harness.database import Postgres


@dataclass(frozen=True)
class Salt:
    """The patched Salt, in a process of its own."""

    process: SaltProcess

    def compile(self, postgres: Postgres, source: list[dict[str, Any]], minions: Sequence[str]) -> list[dict[str, Any]]:
        """Return what `ext_pillar` gives to minions, with errors in `_errors`."""
        found: list[dict[str, Any]] = self.act("compile", options(postgres, source), list(minions))
        return found

    def run(self, postgres: Postgres, name: str, **arguments: object) -> Any:
        """Return the result of a runner; raises SaltProcessError if it fails."""
        answer = self.answer(postgres, name, **arguments)
        if answer["retcode"]:
            raise SaltProcessError(f"The runner {name} failed: {answer}")
        return answer["result"]

    def answer(self, postgres: Postgres, name: str, **arguments: object) -> dict[str, Any]:
        """Return the `result` or `error` of a runner, and its `retcode`."""
        answer: dict[str, Any] = self.act("run", options(postgres, []), name, arguments)
        return answer

    def act(self, action: str, *args: object) -> Any:
        """Do one action of `harness.saltprocess.compiler`."""
        return self.process.run(action, *args)[1]


def options(postgres: Postgres, source: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    """Return the options of a master that has its pillars from this source alone."""
    return {"postgres": {**postgres.salt_options(), **more}, "ext_pillar": source}


@contextmanager
def patched(folder: Path) -> Iterator[Salt]:
    """Start the patched Salt."""
    with SaltProcess("patched", "harness.saltprocess.compiler", {"folder": str(folder)}) as process:
        yield Salt(process)


class Pump(SaltProcess):
    """Minions of a bed's master that only return; their keys stay in `folder`.

    Every method raises SaltProcessError if their process has ended.
    """

    def __init__(self, bed: Bed, minions: int, folder: Path) -> None:
        """Connect them."""
        master = bed.master
        folders = {"folder": str(folder), "pki": str(master.pki_dir), "cache": str(master.cache_dir)}
        settings = {"port": master.request_port, "minions": minions, **folders}
        super().__init__("patched", "harness.saltprocess.pump", settings)

    def returns(self, jid: str) -> None:
        """Let all return a ping."""
        self.run("returns", jid)

    def insist(self, jid: str, patience: float) -> int:
        """Let all return a ping, each again and again after so many seconds without an answer; return the tries."""
        return int(self.run("insist", jid, patience)[1])

    def ask(self, number: int, jid: str, **load: object) -> None:
        """Let one return a ping, or what the load says else."""
        self.run("ask", number, jid, load)
