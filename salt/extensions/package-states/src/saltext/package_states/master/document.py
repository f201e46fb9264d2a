"""All states and assignments of a site as one text, which can live in git.

.. code-block:: yaml

    package_states: 1
    states:
      web:
        packages:
          nginx: "installed >=1.22,<2.0"
          telnet: "removed"
        assigned:
          - {group: "Webservers", priority: 10}

The text is the same for the same set, so its lines can be compared. What a text leaves out
(``packages`` or ``assigned``) is not changed by it.
"""

import json
import re
from typing import NamedTuple

import saltext.package_states.master.yamltext as yamltext
from saltext.package_states.errors import InvalidInput
from saltext.package_states.model import item, names
from saltext.package_states.model.resolver import LEVELS

KEY = "package_states"
FORMAT = "1"
KINDS = LEVELS[:-1]
_PLAIN = re.compile(r"[a-z][a-z0-9._-]*[a-z0-9]\Z", re.ASCII)
# what others than this module read as something else than a string
_WORDS = frozenset("null true false yes no on off y n inf nan".split())
_NUMBER = re.compile(r"-?[0-9]{1,10}\Z", re.ASCII)


class Assigned(NamedTuple):
    """To whom a state applies"""

    # what it is, and its name or id
    kind: str
    target: str
    priority: int = 0  # among assignments of one kind, the higher one wins


class Entry(NamedTuple):
    """A state; what is None is left as it is"""

    packages: tuple = None  # the items of the newest revision
    assigned: tuple = None  # a tuple of Assigned


def dump(states):
    lines = [f"{KEY}: {FORMAT}", "states:" if states else "states: {}"]
    for name in sorted(states):
        entry = states[name]
        lines.append(
            f"  {_key(name)}:{'' if any(p is not None for p in entry) else ' {}'}"
        )
        if entry.packages is not None:
            lines += _packages(entry.packages)
        if entry.assigned is not None:
            lines.append("    assigned:" if entry.assigned else "    assigned: []")
            lines += [
                f"      - {shown(one)}" for one in sorted(entry.assigned, key=str)
            ]
    return "".join(f"{line}\n" for line in lines)


def _text(value):
    return json.dumps(value, ensure_ascii=False)


def _key(value):
    plain = _PLAIN.match(value) and value not in _WORDS
    return value if plain else _text(value)


def _packages(entries):
    lines = ["    packages:" if entries else "    packages: {}"]
    for entry in entries:
        text = f"{entry.wanted} {entry.version}".rstrip()
        if entry.floor:
            text = f"{text} from {entry.floor}"
        lines.append(f"      {_key(entry.key)}: {_text(text)}")
    return lines


def shown(one):
    """Return an assignment as text"""
    parts = [f"{one.kind}: {_text(one.target)}"]
    if one.priority:
        parts.append(f"priority: {one.priority}")
    return f"{{{', '.join(parts)}}}"


def load(text):
    """Return the set of a text, an :class:`Entry` for each state by name"""
    data = yamltext.load(text)
    if not isinstance(data, dict) or data.get(KEY) != FORMAT:
        raise InvalidInput(
            "The text is no set of package states; make one with package_states.export."
        )
    _fields(data, {KEY, "states"}, "The text")
    states = data.get("states")
    if not isinstance(states, dict):
        raise InvalidInput("The text has no states by name; add the key states.")
    return {names.state(name): _entry(name, part) for name, part in states.items()}


def _fields(data, known, what):
    if not isinstance(data, dict) or not set(data) <= known:
        raise InvalidInput(
            f"{what} has the fields {', '.join(sorted(known))}, and no others; correct it."
        )


def _entry(name, data):
    _fields(data, {"packages", "assigned"}, f"The state {name}")
    packages, assigned = map(data.get, ("packages", "assigned"))
    if packages is not None:
        packages = _items(name, packages)
    if assigned is not None:
        if not isinstance(assigned, list):
            raise InvalidInput(f"{name} is assigned to no list; correct it.")
        assigned = tuple(_one(name, part) for part in assigned)
        if len({one[:2] for one in assigned}) < len(assigned):
            raise InvalidInput(f"{name} is assigned to something twice; keep one.")
    return Entry(packages, assigned)


def _items(name, data):
    if not isinstance(data, dict):
        raise InvalidInput(f"The packages of {name} have no names; write name: wanted.")
    found = []
    for key, text in data.items():
        words = text.split() if isinstance(text, str) else []
        floor = None
        if len(words) > 2 and words[-2] == "from":
            floor, words = words[-1], words[:-2]
        if not 1 <= len(words) <= 2:
            raise InvalidInput(
                f"{names.shown(key)} of {name} must be what is wanted, and maybe a condition,"
                " such as 'installed >=1.0'; correct it."
            )
        found.append(item.make(key, words[0], words[1] if words[1:] else None, floor))
    return item.ordered(found)


def _one(name, data):
    kinds = [kind for kind in KINDS if isinstance(data, dict) and kind in data]
    if len(kinds) != 1 or not all(isinstance(value, str) for value in data.values()):
        raise InvalidInput(
            f"{name} must be assigned to one of {', '.join(KINDS)}, such as"
            " {group: web, priority: 1}; correct it."
        )
    (kind,) = kinds
    _fields(data, {kind, "priority"}, f"An assignment of {name}")
    priority = data.get("priority", "0")
    if not _NUMBER.match(priority):
        raise InvalidInput("The priority must be a whole number; the higher one wins.")
    return Assigned(kind, names.text(data[kind], kind), names.priority(int(priority)))
