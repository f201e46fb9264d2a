"""Run the engine `pillar_changes` without a master: options as JSON on stdin, each batch of minions as JSON on stdout.

Run by the patched environment, outside of the tests' own process.
"""

import json
import sys
from pathlib import Path
from typing import Any

import saltext.uyuni_pillar.engines.pillar_changes as engine


class Master(engine.Master):  # type: ignore[misc]  # Salt has no types
    """A master whose minions all do what they are told at once."""

    def __init__(self, opts: dict[str, object]) -> None:
        """Begin without events."""
        super().__init__(opts)
        self._found: list[tuple[str, dict[str, object]]] = []

    def load(self, waiting: Any) -> None:
        """Continue where an earlier process was."""
        if STATE.exists():
            waiting.snapshot = STATE.read_text()

    def save(self, waiting: Any) -> None:
        """Note up to where changes are known."""
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_text(waiting.snapshot)

    def known(self) -> "Everyone":
        """Return a set with all minions, of which none is listed."""
        return Everyone()

    def refresh(self, minions: list[str]) -> str:
        """Write a batch where the master would send it."""
        print(json.dumps(minions), flush=True)
        self._found = [("salt/job/1/ret/x", {"id": name, "jid": "1", "return": True}) for name in minions]
        return "1"

    def has_errors(self, minion: str) -> bool:
        """Say that no pillar has errors."""
        del minion
        return False

    def listen(self) -> None:
        """Do nothing: the answers are known."""

    def events(self) -> list[tuple[str, dict[str, object]]]:
        """Return the answers to the last batch."""
        found, self._found = self._found, []
        return found


class Everyone(frozenset[str]):
    """A set that has all names."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        """Say yes."""
        return isinstance(name, str)


GIVEN = json.load(sys.stdin)
STATE = Path(GIVEN["opts"]["cachedir"]) / "snapshot"
engine.__opts__ = GIVEN["opts"]
engine.Master = Master
engine.RETRY = (0.2, 1)
engine.start(**GIVEN["options"])
