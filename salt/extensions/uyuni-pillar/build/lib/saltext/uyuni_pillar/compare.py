"""
What differs in two pillars
"""

from collections.abc import Mapping


def difference(old, new, old_name, new_name):
    """
    Return what differs in two pillars, by the name of the side, None if nothing does

    The types of values differ as well: 1, 1.0 and True are equal, but not the same in a
    template. The order of keys does not count, as jsonb has one of its own.
    """
    try:
        found = _difference(old, new)
    except RecursionError:
        return {"both": ["it is nested too deeply to be compared"]}
    if found is None:
        # an error is never right
        return {"both": old["_errors"]} if "_errors" in old else None
    return {old_name: found[0], new_name: found[1]}


def _difference(one, other):
    """
    Return what two values have and the respective other one has not, or None
    """
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return None if _same(one, other) else (one, other)
    lack = ({}, {})
    for key in dict.fromkeys([*one, *other]):
        if key not in other:
            lack[0][key] = one[key]
        elif key not in one:
            lack[1][key] = other[key]
        else:
            found = _difference(one[key], other[key])
            if found is not None:
                lack[0][key], lack[1][key] = found
    return lack if any(lack) else None


def _same(one, other):
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and not any(map(_difference, one, other))
    # -0.0 is equal to 0.0
    return type(one) is type(other) and repr(one) == repr(other)
