"""How values compare: one equality and one order, for filters, sorting and groups.

Texts are in natural order: numbers in them count as numbers, then case is ignored, and texts
that are still the same are in the order of their characters. A text that begins with a digit,
or with ``v`` and a digit, is a version: what a pre-release is called (``~``, ``alpha``, ``beta``,
``dev``, ``pre``, ``rc``, and ``a`` or ``b`` before a number) comes before the end of the text.

A number and a text compare as numbers if the number is the field's, or else as texts: a grain
``24.10`` may be either, and nobody knows how the next minion has it.

Items are in the order of the values of fields, where a minus before a name turns it round. What is
missing comes last either way.
"""

import json
import re

from saltext.query.errors import QueryError

#: The most fields to sort by.
MAX_FIELDS = 20

_DIGITS = re.compile(r"([0-9]{1,1000})")
_NUMERAL = re.compile(r"[+-]?[0-9]{1,300}(?:\.[0-9]{1,300})?")
_EARLY = frozenset(("alpha", "beta", "dev", "pre", "rc"))
_RPM_PARTS = re.compile(r"[0-9]+|[a-zA-Z]+|~|\^")
_DEB_PARTS = re.compile(r"([^0-9]*)([0-9]*)")


def text_key(text):
    """Return a key for the order of texts: ``web2`` comes before ``web10``."""
    parts = _DIGITS.split(text.lower())
    parts[1::2] = map(int, parts[1::2])
    if len(parts) > 1 and parts[0] in ("", "v"):
        last = len(parts) - 1
        for place in range(2, len(parts), 2):
            part = parts[place]
            word = part.strip("-._")
            if part.startswith("~") or (
                word in _EARLY or (word in ("a", "b") and place < last)
            ):
                parts[place] = "\0" + part
            else:
                parts[place] = ("\2" if part else "\1") + part
    return parts, text


def is_number(value):
    """Return whether a value is a number; a boolean is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def numeral(text):
    """Return the number that a text is, or None."""
    if _NUMERAL.fullmatch(text) is None:
        return None
    return float(text) if "." in text else int(text)


def same(found, wanted):
    """Return whether the value of a field is what somebody wants."""
    if isinstance(wanted, str):
        if isinstance(found, bool):
            return wanted.lower() == str(found).lower()
        if is_number(found):
            return found == numeral(wanted)
        return found == wanted
    if isinstance(found, str) and is_number(wanted):
        return found == str(wanted)
    if isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(
            same(value, wanted[key]) for key, value in found.items()
        )
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def order(found, wanted):
    """Return a number below, at or above 0 as ``found`` comes before, with or after."""
    if is_number(found) and isinstance(wanted, str):
        wanted = numeral(wanted)
    elif isinstance(found, str) and is_number(wanted):
        # words have no order with numbers
        wanted = str(wanted) if found[:1].isdecimal() else None
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = text_key(found), text_key(wanted)
    elif not is_number(found) or not is_number(wanted):
        return None
    return (found > wanted) - (found < wanted)


def sort_key(value):
    """Return a key by which all values sort: numbers, then texts, then all else."""
    if isinstance(value, str):
        return (1, text_key(value))
    if isinstance(value, (int, float)):
        return (0, value)
    return (2, json.dumps(value, sort_keys=True))


def leading(name):
    """Yield the names that mean a host: its own in lower case, and without each of its
    last components. ``web2`` means ``web2.example.com``, and not ``web21``.
    """
    name = name.lower()
    end = len(name)
    while end >= 0:
        yield name[:end]
        end = name.rfind(".", 0, end)


def names(given):
    """Return names with commas between them as a list; anything else as it is."""
    if isinstance(given, str):
        return [name.strip() for name in given.split(",") if name.strip()]
    return given


def checked(given, most, what):
    """Return the names of fields in a list.

    :raises QueryError: if it is no such list, or has more than ``most``
    """
    if not isinstance(given, (list, tuple)) or not all(
        isinstance(name, str) for name in given
    ):
        raise QueryError(f"Give {what} as a list of names of fields.")
    if len(given) > most:
        raise QueryError(f"Give {what} as at most {most} names of fields.")
    return [name.strip() for name in given]


def split(sort):
    """Return what to sort by: pairs of a name and whether the order is turned round.

    :raises QueryError: if these are no names
    """
    sort = [] if sort is None else names(sort)
    return [
        (name[1:] if name[:1] in ("-", "+") else name, name.startswith("-"))
        for name in checked(sort, MAX_FIELDS, "what to sort by")
    ]


def ordered(decorated, turned):
    """Return things in the order of their keys, of which each may be turned round.

    :param decorated: pairs of the keys of a thing, and of the thing
    """
    for place in reversed(range(len(turned))):
        there = [one for one in decorated if one[0][place] is not None]
        gone = [one for one in decorated if one[0][place] is None]
        there.sort(key=lambda one, at=place: one[0][at], reverse=turned[place])
        decorated = there + gone
    return [thing for _, thing in decorated]


def cell_key(cell):
    """Return what to sort a cell by, or None if it has no value."""
    status, value = cell
    return None if status else sort_key(value)


# Versions of packages, in the order of the package manager


def version_order(manager, found, wanted):
    """Return the order of a package's version and one that somebody has given, as dpkg
    or rpm see it; of any other manager the texts compare.

    One without an epoch is compared without epochs: the openssl ``1:1.1.1k`` of Red Hat
    is before ``3.0.2``.
    """
    if manager not in ("dpkg", "rpm"):
        return order(found, wanted)
    if _epoch(wanted)[1] == wanted:
        found = _epoch(found)[1]
    if manager == "dpkg":
        one, other = _deb_key(found), _deb_key(wanted)
    else:
        one, other = _rpm_parts(found), _rpm_parts(wanted)
        # without a release the other one's does not count
        count = 3 if one[2] and other[2] else 2
        one, other = (
            [epoch, *map(_rpm_key, texts)][:count] for epoch, *texts in (one, other)
        )
    return (one > other) - (one < other)


def _epoch(version):
    head, colon, rest = version.partition(":")
    return (int(head[:18]), rest) if colon and head.isdecimal() else (0, version)


def _rpm_parts(version):
    epoch, rest = _epoch(version)
    rest, _, release = rest.partition("-")
    return epoch, rest, release


def _rpm_key(text):
    marks = {"~": (-1,), "^": (1,)}
    return [
        marks.get(part) or ((3, int(part[:4000])) if part.isdecimal() else (2, part))
        for part in _RPM_PARTS.findall(text)
    ] + [(0,)]


def _deb_key(version):
    epoch, rest = _epoch(version)
    upstream, dash, revision = rest.rpartition("-")
    if not dash:
        upstream, revision = rest, "0"
    return [epoch, _deb_part(upstream), _deb_part(revision)]


def _deb_part(text):
    def weight(char):
        return -1 if char == "~" else ord(char) + (0 if char.isalpha() else 2**21)

    return [
        ([*map(weight, word), 0], int(number[:4000] or 0))
        for word, number in _DEB_PARTS.findall(text)
    ]
