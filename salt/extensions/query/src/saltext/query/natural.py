"""
Names as people see them: numbers in them count as numbers, and a host's name may be
given without its domain.
"""

import re

_DIGITS = re.compile(r"([0-9]{1,1000})")

#: Trying each of so many is quicker than taking each name apart.
_FEW = 20


def key(name):
    """
    Return a key for sorting: ``web2`` comes before ``web10``, and case matters last.
    """
    parts = _DIGITS.split(name.lower())
    if len(parts) == 3:
        # most names have one number
        parts[1] = int(parts[1])
        return parts, name
    parts[1::2] = map(int, parts[1::2])
    return parts, name


def is_host(name, wanted):
    """
    Return whether ``name`` is the host ``wanted``: the same, or the same whole leading
    components, whatever the case. ``web2`` is ``web2.example.com``, but not ``web21``.
    """
    name = name.lower()
    wanted = wanted.lower()
    return name == wanted or name.startswith(wanted + ".")


class HostSet:
    """
    Many wanted hosts, to compare a name with all of them at once.
    """

    def __init__(self, wanted):
        self.wanted = {one.lower() for one in wanted}

    def candidates(self, names):
        """
        Return at least those of the names that may match: a quick look that spares
        most names the other.
        """
        if len(self.wanted) > _FEW:
            return names
        starts = tuple(self.wanted)
        return [name for name in names if name.lower().startswith(starts)]

    def match(self, name):
        """
        Return those of the wanted, in lower case, that ``name`` is.
        """
        name = name.lower()
        ret = []
        end = len(name)
        while end >= 0:
            if name[:end] in self.wanted:
                ret.append(name[:end])
            end = name.rfind(".", 0, end)
        return ret
