"""Mappings that templates read, and that note which of their values were read.

They are no dictionaries on purpose: code in C would read a dictionary without a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class TrackedMapping(Mapping[str, Any]):
    """A mapping, and the names that were looked at, found or not."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Begin with nothing looked at."""
        self._values = values
        self.seen: set[str] = set()
        # what only shows in files: whether it is there matters, its value doesn't
        self.shown: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        """Return a value, and remember that."""
        self.seen.add(str(name))
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a name, and remember the question."""
        self.seen.add(str(name))
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names: everything has been seen then."""
        self.see_all()
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of names; counting them counts as having looked at all."""
        self.see_all()
        return len(self._values)

    def __repr__(self) -> str:
        """Return all of it as text."""
        self.see_all()
        return repr(dict(self._values))

    def see_all(self) -> Mapping[str, Any]:
        """Remember that everything was looked at, and return it."""
        self.seen.update(map(str, self._values))
        return self._values

    def names(self, looks: set[str]) -> list[str]:
        """Return the names of the top level among what was looked at, found or not."""
        return sorted(name for name in looks if name in self._values or ":" not in name)

    def see(self, path: str, delimiter: str = ":") -> Mapping[str, Any]:
        """Remember a look at what a path such as `a:b` leads to, and return everything."""
        self.seen.add(path.split(delimiter, 1)[0])
        self.seen.add(path)
        return self._values


class Options(TrackedMapping):
    """A minion's options, whose grains, pillar and id are looked at as such."""

    def __init__(self, values: Mapping[str, Any], grains: TrackedMapping, pillar: TrackedMapping) -> None:
        """Begin with nothing looked at."""
        super().__init__(values)
        self._grains = grains
        self._pillar = pillar

    def __getitem__(self, name: str) -> Any:
        """Return an option."""
        if name == "grains":
            return self._grains
        if name == "pillar":
            return self._pillar
        if name == "id":
            return self._grains["id"]
        return self._values[name]

    def see_all(self) -> Mapping[str, Any]:
        """Remember that everything was looked at."""
        self._grains.see_all()
        self._pillar.see_all()
        return self._values
