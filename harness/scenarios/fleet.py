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

# the command's option, and the kinds of value that it takes
OPTIONS: dict[str, tuple[str, tuple[type, ...]]] = {
    "auth_rate": ("--auth-rate", (int, float)),
    "beacon_interval": ("--beacon-interval", (int, float)),
    "behaviours": ("--behaviour", (str, list, dict)),
    "grains": ("--grains", (str,)),
    "jitter": ("--jitter", (int, float)),
    "key_states": ("--keys", (str, dict)),
    "per_process": ("--per-process", (int,)),
    "population": ("--population", (str,)),
    "recording": ("--recording", (str,)),
    "slowdown": ("--slowdown", (int, float)),
    "states": ("--states", (int,)),
}
# values of these may be files, beside the scenario unless their path is absolute
_FILES = {OPTIONS[key][0]: key for key in ("behaviours", "grains", "population", "recording")}
_SUFFIXES = (".toml", ".json", ".yaml", ".yml", ".jsonl", ".gz", ".csv")
_NAMES = {int: "a whole number", float: "a number", str: "a text", list: "a list of texts", dict: "a table"}


def read_fleet(table: Table) -> tuple[str, ...]:
    """Return the options for the fleet's command. Raises ScenarioError for a key that is none, or a value's kind."""
    table.allow(*OPTIONS)
    found: list[str] = []
    for key in table:
        value = table.value(key)
        option, kinds = OPTIONS[key]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise table.error(key, f"is {value!r}, but has to be {' or '.join(_NAMES[kind] for kind in kinds)}")
        found += [f"{option}={text}" for text in _texts(key, value)]
    return tuple(found)


def resolve(options: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Return the options with the paths of files made absolute; they are looked for in `folder`, the scenario's.

    Raises ScenarioError for a file that is not there.
    """
    return tuple(_resolved(option, folder) for option in options)


def _texts(key: str, value: object) -> list[str]:
    """Return the values of an option; a table holds shares of the fleet, such as `{ slow-tail = 0.1 }`."""
    if isinstance(value, list):
        return [str(entry) for entry in value]
    if isinstance(value, dict):
        shares = [f"{name}={share}" for name, share in value.items()]
        # behaviours are given one by one, states of keys in one list
        return shares if key == "behaviours" else [",".join(shares)]
    return [str(value)]


def _resolved(option: str, folder: Path) -> str:
    name, _, text = option.partition("=")
    file, share = text, ""
    if name == OPTIONS["behaviours"][0] and "=" in text:
        file, _, share = text.rpartition("=")
    # a name without a suffix is a preset of the fleet's own
    if name not in _FILES or ("/" not in file and not file.endswith(_SUFFIXES)):
        return option
    path = (folder / file).absolute()
    if not path.is_file():
        raise ScenarioError(f"`fleet.{_FILES[name]}` names a file that is not there: {path}.")
    return f"{name}={path}{f'={share}' if share else ''}"
