"""All states and assignments of a site as one text, which can live in git: see the page of commands.

The text is the same for the same set, so its lines can be compared. What a text leaves out
(``packages`` or ``assigned``) is not changed by it.

It is YAML of plain data: every scalar is a string, so a version such as 1.10 needs no quotes. Refused
are tags, anchors and aliases, a key that is there twice, more than one document, and what is too long
or too deep. Messages show names only, as the text may be that of any file of the master.
"""

import re
from typing import NamedTuple

import yaml
from saltext.package_states.errors import InvalidInput
from saltext.package_states.model import item, names
from saltext.package_states.model.resolver import LEVELS

KEY = "package_states"
FORMAT = "1"
KINDS = LEVELS[:-1]
_NUMBER = re.compile(r"-?[0-9]{1,10}\Z", re.ASCII)
# bytes, nodes and levels that a text may have
MOST = 16 * 1024 * 1024
NODES = 1000000
DEPTH = 8
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Assigned(NamedTuple):
    # what it is, and its name or id
    kind: str
    target: str
    priority: int = 0  # among assignments of one kind, the higher one wins


class Entry(NamedTuple):
    """A state; what is None is left as it is"""

    packages: tuple = None  # the items of the newest revision
    assigned: tuple = None  # a tuple of Assigned


def dump(states):
    data = {name: _plain(states[name]) for name in sorted(states)}
    return to_yaml({KEY: int(FORMAT), "states": data})


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
    data = from_yaml(text)
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
        wrong = sorted(set(data) - known)[:1] if isinstance(data, dict) else ()
        wrong = "".join(f", and no {names.shown(one)}" for one in wrong)
        raise InvalidInput(
            f"{what} has the fields {', '.join(sorted(known))}{wrong}; correct it."
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
        try:
            version = words[1] if words[1:] else None
            found.append(item.make(key, words[0], version, floor))
        except InvalidInput as exc:
            raise InvalidInput(f"state {name}: {exc}") from None
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


def to_yaml(data):
    """Return plain data as text, which has one line for each string"""
    return yaml.dump(
        data, Dumper=_DUMPER, allow_unicode=True, sort_keys=False, width=MOST
    )


def from_yaml(text):
    """Return the dictionaries, lists and strings of a text, or raise which line is wrong"""
    if not isinstance(text, str) or len(text) > MOST:
        raise InvalidInput(
            f"YAML is a text of at most {MOST // 1024 // 1024} MiB; give such a one."
        )
    try:
        _check(yaml.parse(text, Loader=_LOADER))
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"Line {mark.line + 1}" if mark else "The text"
        raise InvalidInput(f"{where} is no YAML; correct it.") from None


def _check(events):
    """Check that events of the parser are one document that is refused for nothing"""
    documents = depth = 0
    for count, event in enumerate(events, 1):
        where = _where(event)
        if count > NODES or depth > DEPTH:
            raise InvalidInput(
                f"{where} is one too many, or too deep; make it smaller."
            )
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidInput(
                f"{where} has an anchor or alias; write out what it means."
            )
        if getattr(event, "tag", None):
            raise InvalidInput(f"{where} has a tag; leave it out.")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
    if documents != 1:
        raise InvalidInput("The text is not one document; give one.")


def _where(part):
    return f"Line {part.start_mark.line + 1}"


class _Loader(_LOADER):
    def construct_mapping(self, node, deep=False):
        found = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in found:
                raise InvalidInput(
                    f"{_where(key)} has a key that is no text, or is there twice; correct it."
                )
            found[key.value] = self.construct_object(value, deep=True)
        return found
