"""Strict reading of one table of a TOML file.

A misspelt key that is silently ignored makes a load test measure something else than its author meant, so every key
has to be asked for, and whatever is left over is an error that names the nearest valid key.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, TypeVar

from harness.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Value = TypeVar("Value")

_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


class Table:
    """One table: `allow` names every valid key, the others read and check one key each.

    `source` names the file, `path` the table within it ("" at the top, else such as `clients[2]`).
    """

    def __init__(self, values: Mapping[str, object], source: str, path: str = "") -> None:
        """Wrap `values`, the table as tomllib read it."""
        self._values = dict(values)
        self.source = source
        self.path = path

    def allow(self, *keys: str) -> Table:
        """Raise ScenarioError if the file gives any other key; return the table itself."""
        for key in self._values:
            if key not in keys:
                hint = _hint(key, keys) or f"; valid keys are {_listed(sorted(keys), 'and')}"
                raise ScenarioError(f"{self.source}: unknown key `{self._name(key)}`{hint}.")
        return self

    def error(self, key: str, problem: str) -> ScenarioError:
        """Return the error that says what is wrong with `key`, in one sentence."""
        return ScenarioError(f"{self.source}: `{self._name(key)}` {problem}.")

    def has(self, key: str) -> bool:
        """Return whether the file gives `key`."""
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys that the file gives, in its order."""
        return iter(self._values)

    def take(self, key: str, kind: type[Value], default: Value | None = None) -> Value:
        """Return the value of `key`, or `default` where the file doesn't give it; without one the key is required.

        A whole number is good enough for a `float`; true and false are no numbers.
        """
        if key not in self._values:
            if default is None:
                raise self.error(key, f"is missing: give it {_NAMES[kind]}")
            return default
        value = self._values[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(key, f"is {value!r}, but has to be {_NAMES[kind]}")
        return value

    def value(self, key: str) -> object:
        """Return the value of a key that the file gives, whatever it is."""
        return self._values[key]

    def number(self, key: str, default: float | None = None, *, low: float = 0, high: float = 1e9) -> float:
        """Return a number from `low` to `high`."""
        return self._within(key, self.take(key, float, default), low, high)

    def count(self, key: str, default: int | None = None, *, low: int = 0, high: int = 1_000_000_000) -> int:
        """Return a whole number from `low` to `high`."""
        return int(self._within(key, self.take(key, int, default), low, high))

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return one of `choices`."""
        value = self.take(key, str, default)
        if value not in choices:
            raise self.error(
                key, f"is {value!r}, but has to be {_listed([repr(c) for c in choices])}{_hint(value, choices)}"
            )
        return value

    def texts(self, key: str, choices: Sequence[str]) -> tuple[str, ...]:
        """Return a list of texts out of `choices`, all of them where the file doesn't give the key."""
        values = self.take(key, list, list(choices))
        for value in values:
            if value not in choices:
                raise self.error(key, f"holds {value!r}, but may hold {_listed([repr(c) for c in choices])} only")
        return tuple(values)

    def table(self, key: str) -> Table:
        """Return the table under `key`, an empty one where the file doesn't give it."""
        return Table(self.take(key, dict, {}), self.source, self._name(key))

    def tables(self, key: str) -> list[Table]:
        """Return the list of tables under `key`, which has to hold at least one."""
        values = self.take(key, list)
        if not values or not all(isinstance(value, dict) for value in values):
            raise self.error(key, f"has to be one or more tables, each below `[[{self._name(key)}]]`")
        return [
            Table(value, self.source, f"{self._name(key)}[{number}]") for number, value in enumerate(values, start=1)
        ]

    def _name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _within(self, key: str, value: float, low: float, high: float) -> float:
        if not low <= value <= high:
            raise self.error(key, f"is {value:g}, but has to be from {low:g} to {high:g}")
        return value


def nearest(word: str, words: Sequence[str]) -> str | None:
    """Return the one of `words` that `word` was most probably meant to be, or None."""
    found = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return found[0] if found else None


def _hint(word: str, words: Sequence[str]) -> str:
    found = nearest(word, words)
    return f"; the nearest valid one is `{found}`" if found else ""


def _listed(words: Sequence[str], last: str = "or") -> str:
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
