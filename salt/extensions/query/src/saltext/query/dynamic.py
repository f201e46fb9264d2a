r"""Fields that sites have: any grain, any entry of the mine, and any key of the pillar.

``grain.ec2.region`` is the value ``region`` of the grain ``ec2``, or the grain
``ec2.region``; ``mine.network.ip_addrs.0`` is the first of a list; ``pillar.role`` is what
the master has cached of the pillar. In the name of a field a character other than ``a-z``,
``0-9`` and ``_`` of a key is written as ``/`` and two hexadecimal digits, or as it is: the
definition has it in the first form.

The kind of such a field is what its site says in the option ``query``, or else that of
the values that are there.
"""

import collections
import re

from saltext.query import field
from saltext.query.kinds import BANKS, MISSING_NODATA, MISSING_UNAVAIL, NORMAL, kind_of

import salt.utils.mine

#: From so many minions the names of fields are collected.
SAMPLE = 500

#: How deep values are looked into for the names of fields.
_LEVELS = 3

#: So many names of one minion are looked at, and so many characters of names are listed, with
#: some more for each name.
_MAX_NAMES = 20_000
MAX_CHARACTERS = 120_000
_EACH = 20

#: The longest name.
_MAX_NAME = 500

_PLAIN = re.compile(r"[^a-z0-9_.]")
_ESCAPED = re.compile(rb"/([0-9a-f]{2})")


class DynamicField(field.Field):
    """A field whose kind is that of its values: ``seen`` has their kinds so far."""

    loose = True

    def __post_init__(self):
        super().__post_init__()
        self.seen = set()
        self._is_read = False

    def is_valueless(self):
        """Return whether items have been looked at, and none has a value."""
        return self._is_read and not self.seen

    def cell(self, item):
        """Return the cell of an item, and remember its kind."""
        ret = super().cell(item)
        self._is_read = True
        if ret[0] == NORMAL:
            self.seen.add(kind_of(ret[1]))
        return ret

    def definition(self):
        """Return what clients get to know: the kind is that of all values so far."""
        kinds = self.seen - {"number"} if "float" in self.seen else self.seen
        kind = next(iter(kinds)) if len(kinds) == 1 else "other"
        return {**super().definition(), "kind": kind}


def escaped(key):
    """Return a key as it is in the name of a field."""
    return _PLAIN.sub(
        lambda match: "".join(f"/{byte:02x}" for byte in match.group().encode()), key
    )


def find(name, kinds):
    """Return the field of a name, or None if it is none of these.

    :param dict kinds: the kinds of fields by name, as the site has them
    """
    start, _, path = name.partition(".")
    if start not in BANKS or len(name) > _MAX_NAME:
        return None
    try:
        raw = _ESCAPED.sub(
            lambda match: bytes.fromhex(match.group(1).decode()), path.encode()
        ).decode("utf-8", "replace")
        name = f"{start}.{escaped(raw)}"
    except UnicodeError:
        # half of a surrogate pair
        return None
    parts = raw.split(".")
    if "" in parts:
        return None
    bank = BANKS[start]

    def get(node):
        document = node.document(bank, node.name)
        if document is None:
            return MISSING_NODATA
        return _inside(document, parts, bank == "mine")

    needs = [f"{bank}:{'.'.join(parts[:end])}" for end in range(len(parts), 0, -1)]
    title = f"{start}.{re.sub(r'[^!-~]', '_', raw)}"
    doc = f"Value {name} of the {start}"
    kind = kinds.get(name) or kinds.get(f"{start}.{raw}")
    if kind is not None and kind != "unknown":
        return field.Field(name, title, kind, doc, get, needs)
    return DynamicField(name, title, "other", doc, get, needs)


def _inside(value, parts, wrapped=False):
    """Return what is at a path: the longest key that is there comes first."""
    if not parts:
        return MISSING_UNAVAIL if value == "" else _plain(value)
    if isinstance(value, (list, tuple)):
        place = int(parts[0]) if parts[0].isdecimal() and len(parts[0]) < 9 else None
        if place is None or place >= len(value):
            return MISSING_UNAVAIL
        return _inside(value[place], parts[1:])
    for end in range(len(parts), 0, -1) if isinstance(value, dict) else ():
        key = ".".join(parts[:end])
        if key in value:
            found = unwrapped(value[key]) if wrapped else value[key]
            return _inside(found, parts[end:])
    return MISSING_UNAVAIL


def _plain(value):
    """Return a value as JSON can have it: keys are texts."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def unwrapped(found):
    """Return an entry of the mine without what says who may read it."""
    if (
        isinstance(found, dict)
        and salt.utils.mine.MINE_ITEM_ACL_ID in found
        and salt.utils.mine.MINE_ITEM_ACL_DATA in found
    ):
        return found[salt.utils.mine.MINE_ITEM_ACL_DATA]
    return found


def names(context):
    """Return the names of such fields, of a sample of the minions: those that most of
    them have come first, and there are no more than answers have room for. Those of
    pillars are there if the caller may see pillars.
    """
    pillars = context.caller.sees_pillars()
    minions = context.accepted()
    counted = collections.Counter()
    for minion in minions[:: max(1, len(minions) // SAMPLE)][:SAMPLE]:
        own = set()
        for start, bank in BANKS.items():
            if start != "pillar" or pillars:
                document = context.documents.fetch(bank, minion)
                _collect(start, document, 1 if bank == "mine" else _LEVELS, own)
        counted.update(own)
    room = MAX_CHARACTERS
    ret = []
    for name, _ in sorted(counted.items(), key=lambda one: (-one[1], one[0])):
        room -= len(name) + _EACH
        if room >= 0:
            ret.append(name)
    return sorted(ret)


def _collect(start, value, levels, ret):
    if not isinstance(value, dict) or levels == 0:
        return
    for key, inner in value.items():
        if not isinstance(key, str) or len(key) > _MAX_NAME // 4:
            continue
        if "" in key.split(".") or len(ret) >= _MAX_NAMES:
            continue
        name = f"{start}.{escaped(key)}"
        ret.add(name)
        _collect(name, inner, levels - 1, ret)
