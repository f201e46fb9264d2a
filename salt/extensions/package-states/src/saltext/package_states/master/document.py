"""All states and assignments of a site as one text, which can live in git.

.. code-block:: yaml

    package_states: 1
    states:
      web:
        packages:
          nginx: installed >=1.22,<2.0
          telnet: removed
        assigned:
        - group: Webservers
          priority: 10

The text is the same for the same set, so its lines can be compared. What a text leaves out
(``packages`` or ``assigned``) is not changed by it.
"""

import re
from typing import NamedTuple

import saltext.package_states.master.yamltext as yamltext
from saltext.package_states.errors import InvalidInput
from saltext.package_states.model import item, names
from saltext.package_states.model.resolver import LEVELS

KEY = "package_states"
FORMAT = "1"
KINDS = LEVELS[:-1]
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
    """Return a set as text, the same for the same set"""
    data = {name: _plain(states[name]) for name in sorted(states)}
    return yamltext.dump({KEY: int(FORMAT), "states": data})


def _plain(entry):
    found = {}
    if entry.packages is not None:
        found["packages"] = {one.key: _text(one) for one in entry.packages}
    if entry.assigned is not None:
        found["assigned"] = [
            {
                one.kind: one.target,
                **({"priority": one.priority} if one.priority else {}),
            }
            for one in sorted(entry.assigned, key=str)
        ]
    return found


def _text(entry):
    floor = f"from {entry.floor}" if entry.floor else ""
    return " ".join(filter(None, (entry.wanted, entry.version, floor)))


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
