"""All faults of a scenario at once: whoever corrects one is told of the others, too."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Faults:
    """Collects the errors of parts that can be read one without the other."""

    def __init__(self) -> None:
        """Begin with none."""
        self._told: list[str] = []

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._told)

    @contextmanager
    def part(self) -> Iterator[None]:
        """Note the ScenarioError that a part raises; what comes after this part goes on."""
        try:
            yield
        except ScenarioError as error:
            self.add(str(error))

    def add(self, text: str) -> None:
        """Note an error, or several, each in a line of its own."""
        self._told += text.splitlines()

    def end(self) -> None:
        """Raise ScenarioError with a line for each error that was noted, if there are any."""
        if self._told:
            # two checks may find the same
            raise ScenarioError("\n".join(dict.fromkeys(self._told)))
