"""The table `[fleet]` of a scenario: options of the fleet's command, handed through.

The harness knows the fleet by its command alone, so the table's keys are that command's options and their values go to
it as they stand; what they mean is said in `python -m evil_minions run --help`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harness.scenarios.table import Table

# the kinds of value that each option takes
OPTIONS: dict[str, tuple[type, ...]] = {
    "auth_rate": (int, float),
    "behaviours": (str, list),
    "grains": (str,),
    "key_states": (str, dict),
    "per_process": (int,),
    "population": (str,),
    "recording": (str,),
    "slowdown": (int, float),
}
# values of these may be files, beside the scenario unless their path is absolute
_FILES = ("behaviours", "grains", "population", "recording")
_SUFFIXES = (".toml", ".json", ".yaml", ".yml", ".jsonl", ".gz", ".csv")
_NAMES = {int: "a whole number", float: "a number", str: "a text", list: "a list of texts", dict: "a table"}


def read_fleet(table: Table) -> tuple[str, ...]:
    """Return the options for the fleet's command. Raises ScenarioError for a key that is none, or a value's kind."""
    table.allow(*OPTIONS)
    found: list[str] = []
    for key in table:
        value = table.value(key)
        if not isinstance(value, OPTIONS[key]) or isinstance(value, bool):
            kinds = " or ".join(_NAMES[kind] for kind in OPTIONS[key])
            raise table.error(key, f"is {value!r}, but has to be {kinds}")
        found += [f"--{key.replace('_', '-')}={text}" for text in _texts(value)]
    return tuple(found)


def resolve(options: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Return the options with the paths of files made absolute; they are looked for in `folder`, the scenario's.

    Raises ScenarioError for a file that is not there.
    """
    return tuple(_resolved(option, folder) for option in options)


def _texts(value: object) -> list[str]:
    """Return the values of an option: a list gives it several times, a table becomes `key=value,key=value`."""
    if isinstance(value, list):
        return [str(entry) for entry in value]
    if isinstance(value, dict):
        return [",".join(f"{name}={entry}" for name, entry in value.items())]
    return [str(value)]


def _resolved(option: str, folder: Path) -> str:
    name, _, text = option.partition("=")
    key = name.removeprefix("--").replace("-", "_")
    # a name without a suffix is a preset of the fleet's own
    if key not in _FILES or ("/" not in text and not text.endswith(_SUFFIXES)):
        return option
    path = (folder / text).absolute()
    if not path.is_file():
        raise ScenarioError(f"`fleet.{key}` names a file that is not there: {path}.")
    return f"{name}={path}"
