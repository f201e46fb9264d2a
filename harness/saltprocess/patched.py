"""The patched Salt as a process that compiles pillars and runs runners.

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

    from harness.database.postgres import Postgres


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
        """Do one action of `harness.saltprocess.tasks.compiler`."""
        return self.process.run(action, *args)[1]


def options(postgres: Postgres, source: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    """Return the options of a master that has its pillars from this source alone."""
    return {"postgres": {**postgres.salt_options(), **more}, "ext_pillar": source}


@contextmanager
def patched(folder: Path, without: Sequence[str] = ()) -> Iterator[Salt]:
    """Start the patched Salt, as where some packages are not installed."""
    settings = {"folder": str(folder), "without": list(without)}
    with SaltProcess("patched", "harness.saltprocess.tasks.compiler", settings) as process:
        yield Salt(process)
