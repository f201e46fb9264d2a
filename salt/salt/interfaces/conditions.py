"""
Whether the grains of a minion meet what ``supported`` and ``not_applicable`` were given

.. versionadded:: 3009.0
"""

# How people write a grain, and how Salt calls it
_SPELLINGS = {"osfamily": "os_family"}


def _values(given):
    if isinstance(given, (list, tuple, set, frozenset)):
        return given
    return (given,)


def _folded(value):
    return str(value).casefold()


def matches(wanted, grains):
    """
    Whether any of the grains has one of its listed values

    Case makes no difference. A grain that is a list matches with any of its items,
    a grain that the minion does not have never matches.

    :param dict wanted: What :func:`salt.interfaces.marks.condition` returned
    :param dict grains: The grains of the minion
    :rtype: bool
    """
    for name, values in wanted.items():
        if name not in grains:
            name = _SPELLINGS.get(name, name)
        if name not in grains:
            continue
        listed = {_folded(value) for value in values}
        if any(_folded(value) in listed for value in _values(grains[name])):
            return True
    return False
