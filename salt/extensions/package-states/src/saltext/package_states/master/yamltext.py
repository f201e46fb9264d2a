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
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def dump(data):
    """Return plain data as text, which has one line for each string"""
    return yaml.dump(
        data, Dumper=_DUMPER, allow_unicode=True, sort_keys=False, width=MOST
    )


def load(text):
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
