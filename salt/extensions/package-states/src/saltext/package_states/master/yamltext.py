"""YAML as plain data, for text that somebody wrote.

Every scalar is a string, so a version such as 1.10 needs no quotes. Refused are tags, anchors and
aliases, a key that is there twice, more than one document, and what is too long or too deep. No
message shows what the text holds, which may be that of any file of the master.
"""

import yaml
from saltext.package_states.errors import InvalidInput

# bytes, nodes and levels that a text may have
MOST = 16 * 1024 * 1024
NODES = 1000000
DEPTH = 8
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def load(text):
    """Return the dictionaries, lists and strings of a text, or raise which line is wrong"""
    if not isinstance(text, str) or len(text) > MOST:
        raise InvalidInput(
            f"YAML is a text of at most {MOST // 1024 // 1024} MiB; give such a one."
        )
    try:
        return _built(yaml.parse(text, Loader=_LOADER))
    except (yaml.YAMLError, ValueError) as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"Line {mark.line + 1}" if mark else "The text"
        raise InvalidInput(f"{where} is no YAML; correct it.") from None


def _built(events):
    """Return what events of the parser are, without recursion"""
    found, count = [], 0
    # open lists and dictionaries; of a dictionary, the key whose value is to come
    stack, keys = [], []
    for event in events:
        count += 1
        where = f"Line {event.start_mark.line + 1}"
        if count > NODES or len(stack) > DEPTH:
            raise InvalidInput(
                f"{where} is one too many, or too deep; make it smaller."
            )
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidInput(
                f"{where} has an anchor or alias; write out what it means."
            )
        if getattr(event, "tag", None):
            raise InvalidInput(f"{where} has a tag; leave it out.")
        if isinstance(event, yaml.ScalarEvent):
            _put(found, stack, keys, event.value, where)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            new = {} if isinstance(event, yaml.MappingStartEvent) else []
            _put(found, stack, keys, new, where)
            stack.append(new)
            keys.append(None)
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            keys.pop()
    if len(found) != 1:
        raise InvalidInput("The text is not one document; give one.")
    return found[0]


def _put(found, stack, keys, value, where):
    """Put a value where it belongs"""
    if not stack:
        found.append(value)
    elif isinstance(stack[-1], list):
        stack[-1].append(value)
    elif keys[-1] is None:
        if not isinstance(value, str) or value in stack[-1]:
            raise InvalidInput(
                f"{where} has a key that is no text, or is there twice; correct it."
            )
        keys[-1] = value
        stack[-1][value] = None
    else:
        stack[-1][keys[-1]] = value
        keys[-1] = None
