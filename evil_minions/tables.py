"""The one reader of TOML files, strict: behaviours and populations, and the scenarios of load runs.

A misspelt key that is ignored would make something else happen than the author meant. So every key has to be asked
for, and what is left over is an error. What is wrong is said in one sentence with file and key.
"""

from __future__ import annotations

import difflib
import tomllib
from typing import TYPE_CHECKING, TypeVar

from evil_minions.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Value = TypeVar("Value")
Word = TypeVar("Word", bound=str)

_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


def read_table(path: Path, source: str = "", fault: type[Exception] = UsageError) -> Table:
    """Return the top table of a TOML file; `source` is what errors call it, its path by default.

    Raises:
        UsageError: if it can't be read, or `fault` in its place; the table raises the same.
    """
    try:
        return Table(tomllib.loads(path.read_text(encoding="utf-8")), source or str(path), fault=fault)
    except OSError as error:
        raise fault(f"{path} can't be read ({error.strerror}): give the path of a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise fault(f"{source or path} is no TOML file: {error}.") from error


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Return the one of `words` that `word` was most probably meant to be, or None."""
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return found[0] if found else None


class Table:
    """One table: `source` names the file, `path` the table in it (`rules[2].delay`), `fault` is what it raises."""

    def __init__(
        self, values: Mapping[str, object], source: str, path: str = "", *, fault: type[Exception] = UsageError
    ) -> None:
        """Wrap what tomllib read."""
        self.values = dict(values)
        self.source = source
        self.path = path
        self._fault = fault

    def allow(self, *keys: str) -> Table:
        """Return the table itself; raise an error if it has any other key."""
        for key in self.values:
            if key not in keys:
                near = nearest(key, keys)
                hint = f"the nearest one is `{near}`" if near else f"there are {', '.join(sorted(keys))}"
                raise self.error(key, f"is no key here; {hint}")
        return self

    def error(self, key: str, problem: str) -> Exception:
        """Return the error that says what is wrong with a key."""
        return self._fault(f"{self.source}: `{self.name(key)}` {problem}.")

    def name(self, key: str) -> str:
        """Return the full name of a key."""
        return f"{self.path}.{key}" if self.path else key

    def __contains__(self, key: str) -> bool:
        """Return whether the file gives a key."""
        return key in self.values

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys that the file gives."""
        return iter(self.values)

    def one(self, *keys: str) -> str | None:
        """Return which one of some keys that exclude each other is given; raise an error if several are."""
        given = [key for key in keys if key in self.values]
        if len(given) > 1:
            raise self.error(given[1], f"and `{given[0]}` exclude each other: leave one out")
        return given[0] if given else None

    def take(self, key: str, kind: type[Value], default: Value | None = None) -> Value:
        """Return the value of a key, or the default; without one the key is needed."""
        if key not in self.values:
            if default is None:
                raise self.error(key, f"is missing: give it {_NAMES[kind]}")
            return default
        value = self.values[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(key, f"is {value!r}, but has to be {_NAMES[kind]}")
        return value

    def number(self, key: str, default: float | None = None, *, low: float = 0.0, high: float = 1e9) -> float:
        """Return a number from `low` to `high`."""
        value = self.take(key, float, default)
        if not low <= value <= high:
            raise self.error(key, f"is {value:g}, but has to be from {low:g} to {high:g}")
        return value

    def count(self, key: str, default: int | None = None, *, low: int = 0, high: int = 1_000_000_000) -> int:
        """Return a whole number from `low` to `high`."""
        self.take(key, int, default)
        return int(self.number(key, default, low=low, high=high))

    def choice(self, key: str, choices: Sequence[Word], default: Word | None = None) -> Word:
        """Return one of some texts."""
        given: str | None = default
        value = self.take(key, str, given)
        for word in choices:
            if word == value:
                return word
        near = nearest(value, choices)
        hint = f"; the nearest one is {near}" if near else ""
        raise self.error(key, f"is {value!r}, but has to be one of {', '.join(choices)}{hint}")

    def texts(self, key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """Return texts: one, or a list of them."""
        value = self.values.get(key, list(default))
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
            raise self.error(key, f"is {value!r}, but has to be a text or a list of texts")
        return tuple(values)

    def table(self, key: str) -> Table:
        """Return the table under a key, an empty one where there is none."""
        return self._inner(self.take(key, dict, {}), self.name(key))

    def tables(self, key: str, least: int = 0) -> list[Table]:
        """Return the tables of a list, none where there is no such list; there have to be `least` of them."""
        values = self.take(key, list, [])
        if len(values) < least or not all(isinstance(value, dict) for value in values):
            number = f"{least} or more " if least else ""
            raise self.error(key, f"has to be {number}tables, each under a line [[{self.name(key)}]]")
        return [self._inner(value, f"{self.name(key)}[{place}]") for place, value in enumerate(values, start=1)]

    def _inner(self, values: Mapping[str, object], path: str) -> Table:
        return Table(values, self.source, path, fault=self._fault)
