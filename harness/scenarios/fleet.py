"""The table `[fleet]` of a scenario: options of the fleet's command, handed through.

The harness knows the fleet by its command alone, so the table's keys are that command's options and their values go to
it as they stand; what they mean is said in `python -m evil_minions run --help`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from harness.errors import ScenarioError
from harness.scenarios.clients import TARGET_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from evil_minions import Table

# the command's option, and the kinds of value that it takes
OPTIONS: dict[str, tuple[str, tuple[type, ...]]] = {
    "auth_rate": ("--auth-rate", (int, float)),
    "beacon_interval": ("--beacon-interval", (int, float)),
    "behaviours": ("--behaviour", (str, list, dict)),
    "grains": ("--grains", (str,)),
    "jitter": ("--jitter", (int, float)),
    "network": ("--network", (dict, list)),
    "per_process": ("--per-process", (int,)),
    "population": ("--population", (str,)),
    "recording": ("--recording", (str,)),
    "slowdown": ("--slowdown", (int, float)),
}
# what a network is given by, and the most of it
NETWORK_MOST = {"rtt_ms": 60_000.0, "jitter_ms": 60_000.0, "loss": 0.5, "bandwidth_mbit": 1e6}
NETWORK = tuple(NETWORK_MOST)
# options of the master that name folders, for which a path is seen from the scenario's own
ROOTS = ("file_roots", "pillar_roots")
# values of these may be files, beside the scenario unless their path is absolute
_FILES = {OPTIONS[key][0]: key for key in ("behaviours", "grains", "population", "recording")}
_SUFFIXES = (".toml", ".json", ".yaml", ".yml", ".jsonl", ".gz", ".csv")
_NAMES = {int: "a whole number", float: "a number", str: "a text", list: "a list of texts", dict: "a table"}


def read_fleet(table: Table) -> tuple[str, ...]:
    """Return the options for the fleet's command.

    Raises:
        ScenarioError: for a key that is none, or a value's kind.
    """
    table.allow(*OPTIONS)
    found: list[str] = []
    for key in table:
        value = table.values[key]
        option, kinds = OPTIONS[key]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise table.error(key, f"is {value!r}, but has to be {' or '.join(_NAMES[kind] for kind in kinds)}")
        if key == "network":
            found += [f"{option}={text}" for text in _regions(table, value)]
        else:
            found += [f"{option}={text}" for text in _texts(value)]
    return tuple(found)


def _regions(table: Table, value: object) -> list[str]:
    """Return the networks of one table or of several, in words as the fleet's command takes them."""
    entries = table.tables("network", least=1) if isinstance(value, list) else [table.table("network")]
    return [" ".join(_words(entry.allow(*NETWORK, "share", "tgt", "tgt_type"))) for entry in entries]


def _words(table: Table) -> list[str]:
    if "share" in table and "tgt" in table:
        raise table.error("share", "can't stand beside `tgt`: say whose network it is by one of them")
    path = [f"{key}={value:g}" for key, value in read_path(table).items()]
    if "share" in table:
        return [*path, f"share={table.number('share', low=0.0, high=1.0):g}"]
    if "tgt" not in table:
        return path
    kind = table.choice("tgt_type", TARGET_TYPES, "glob")
    return [*path, shlex.quote(f"tgt={table.take('tgt', str)}"), f"tgt_type={kind}"]


def network_targets(options: Iterable[str]) -> list[tuple[str, str]]:
    """Return the targets, with their types, that networks are given to by these options of a fleet's command."""
    texts = [text.partition("=")[2] for text in options if text.startswith(f"{OPTIONS['network'][0]}=")]
    words = [dict(word.partition("=")[::2] for word in shlex.split(text)) for text in texts]
    return [(found["tgt"], found["tgt_type"]) for found in words if "tgt" in found]


def read_path(table: Table) -> dict[str, float]:
    """Return what a table says of a network: round trip, jitter, loss, bandwidth.

    Raises:
        ScenarioError: for nonsense.
    """
    if not any(key in table for key in NETWORK):
        raise table.error(NETWORK[0], f"is missing: a network has one of {', '.join(NETWORK)} at least")
    path = {key: table.number(key, high=NETWORK_MOST[key]) for key in NETWORK if key in table}
    if path.get("jitter_ms", 0.0) > path.get("rtt_ms", 0.0):
        raise table.error("jitter_ms", "can't be more than `rtt_ms`")
    return path


def resolve_roots(options: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Return options of the master with the folders of its file servers made absolute, as seen from `folder`.

    Raises:
        ScenarioError: for a folder that is not there.
    """
    found = dict(options)
    for key in ROOTS:
        roots = found.get(key)
        if isinstance(roots, dict):
            found[key] = {
                saltenv: [_root(key, root, folder) for root in _listed(each)] for saltenv, each in roots.items()
            }
    return found


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _root(key: str, root: object, folder: Path) -> str:
    path = (folder / str(root)).absolute()
    # the environment's name may stand in the path, and is filled in by the master
    if "__env__" not in str(root) and not path.is_dir():
        raise ScenarioError(f"`master.{key}` names a folder that is not there: {path}.")
    return str(path)


def resolve(options: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Return the options with the paths of files made absolute; they are looked for in `folder`, the scenario's.

    Raises:
        ScenarioError: for a file that is not there.
    """
    return tuple(_resolved(option, folder) for option in options)


def _texts(value: object) -> list[str]:
    """Return the values of an option; a table holds shares of the fleet, such as `{ slow-tail = 0.1 }`."""
    if isinstance(value, list):
        return [str(entry) for entry in value]
    if isinstance(value, dict):
        return [f"{name}={share}" for name, share in value.items()]
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
