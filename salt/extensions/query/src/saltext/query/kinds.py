"""The kinds of values a field can have, and the statuses of a cell.

A cell is a tuple of a status and a value. Only a normal cell has a value; all others
have None, so that what is missing can't be taken for a value.
"""

#: The value is available and is of the field's kind.
NORMAL = 0
#: There is no field of this name.
UNKNOWN = 1
#: There should be a value, but nobody has told it to the master. Of a live field: the
#: minion has not been asked.
NODATA = 2
#: The field does not apply to this item.
UNAVAIL = 3
#: The item is offline, so the value can't be asked for.
OFFLINE = 4
#: The value has yet to be asked for. Only filters see this.
PENDING = -1


class Missing:
    """What a field's function returns instead of a value.

    :ivar tuple cell: the cell it makes
    """

    def __init__(self, status):
        self.cell = (status, None)


MISSING_NODATA = Missing(NODATA)
MISSING_UNAVAIL = Missing(UNAVAIL)
MISSING_OFFLINE = Missing(OFFLINE)
MISSING_PENDING = Missing(PENDING)

#: Integers beyond this can be sent by none of msgpack and few readers of JSON.
_INT_LIMIT = 2**63

#: The largest value, in characters: what a minion sends must not be able to fill answers.
MAX_VALUE = 100_000


def is_large(value):
    """Return whether a value is larger than :data:`MAX_VALUE`."""
    room = MAX_VALUE
    todo = [value]
    while todo and room >= 0:
        one = todo.pop()
        room -= len(one) if isinstance(one, (str, list, tuple, dict)) else 1
        if room >= 0 and isinstance(one, (list, tuple, dict)):
            room -= 1
            todo += one
            todo += one.values() if isinstance(one, dict) else ()
    return room < 0


def _is_int(value):
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and -_INT_LIMIT <= value < _INT_LIMIT
    )


def _is_number(value):
    # neither NaN nor infinite: JSON has no words for them
    return value - value == 0 if isinstance(value, float) else _is_int(value)


def _is_plain(value, levels=20):
    if value is None or isinstance(value, (str, bool)) or _is_number(value):
        return True
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return False
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return False
    return levels > 0 and all(_is_plain(one, levels - 1) for one in value)


def _is_other(value):
    return not is_large(value) and _is_plain(value)


#: For each kind, whether a value is of it. A boolean is no number.
KINDS = {
    "unknown": lambda value: value is None,
    "text": lambda value: isinstance(value, str) and len(value) <= MAX_VALUE,
    "bool": lambda value: isinstance(value, bool),
    "number": _is_int,
    "unit": _is_int,
    "float": _is_number,
    "timestamp": _is_number,
    "other": _is_other,
}

#: By the start of the name of a field of a site: the bank of the cache that it is in.
BANKS = {"grain": "grains", "mine": "mine", "pillar": "pillar"}

#: Kinds whose values have an order among themselves and compare with any number.
NUMERIC = frozenset(("number", "unit", "float", "timestamp"))


def is_kind(kind, value):
    """Return whether a value is of a kind; an unknown kind is like ``other``."""
    return KINDS.get(kind, _is_other)(value)


def kind_of(value):
    """Return the kind of a value of a field that has none of its own."""
    for kind in ("bool", "number", "float", "text"):
        if KINDS[kind](value):
            return kind
    return "other"
