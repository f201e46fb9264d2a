"""What a version must fulfil: ``>=1.0,<2.0``, ``!=1.5``, ``=1.*``.

All parts must hold. Without an operator, ``=`` is meant. ``=`` and ``!=`` take ``*`` and ``?``.
"""

import fnmatch
import functools
import re

import saltext.package_states.model.names as names
from saltext.package_states.errors import InvalidInput
from saltext.package_states.model.version import APT, DNF, compare

_PART = re.compile(r"(<=|>=|!=|==|=|<|>)?\s*(.*)\Z", re.DOTALL)
_HOLDS = {
    "=": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
# a digit or a wildcard, and no v of a tag before a number
_VERSION = re.compile(r"\A(?![vV]\d).*[0-9*?]", re.DOTALL)
# how many parts one condition may have
MOST = 16


def is_glob(version):
    return "*" in version or "?" in version


@functools.lru_cache(maxsize=16384)
def parse(text):
    """Return the parts of a condition, pairs of operator and version; none without a text"""
    if text is None or text == "":
        return ()
    if not isinstance(text, str):
        names.version(text)
    parts = []
    for part in text.split(","):
        operator, version = _PART.match(part.strip()).groups()
        operator = {None: "=", "==": "="}.get(operator, operator)
        if not _VERSION.search(version):
            raise InvalidInput(
                f"{names.shown(version)} is no version; write one such as 1.10, or latest or"
                " any alone."
            )
        if is_glob(version):
            if operator not in ("=", "!="):
                raise InvalidInput(
                    f"{operator} takes no wildcards; write a whole version, or use = or !=."
                )
            names.glob(version)
        else:
            names.version(version)
        parts.append((operator, version))
    if len(parts) > MOST:
        raise InvalidInput(f"A condition has at most {MOST} parts; split the state.")
    found = tuple(dict.fromkeys(parts))
    for one in found:
        for two in found:
            if all(_excludes(order, one, two) for order in (APT, DNF)):
                raise InvalidInput(
                    f"No version is {one[0]}{one[1]} and {two[0]}{two[1]} as well; correct"
                    " the condition."
                )
    return found


def _excludes(manager, low, high):
    """Return whether nothing can meet two parts, the first of which is no upper bound"""
    if low[0] == high[0] == "=" and (is_glob(low[1]) or is_glob(high[1])):
        # what is before the first wildcard; a version without an epoch may have any
        heads = [re.split(r"[*?]", one[1])[0] for one in (low, high)]
        if sum(":" in head for head in heads) == 1:
            heads = [head.rpartition(":")[2] for head in heads]
        return not (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0]))
    if is_glob(low[1]) or is_glob(high[1]) or low[0] not in ("=", ">", ">="):
        return False
    order = compare(manager, low[1], high[1])
    if low[0] == high[0] == "=":
        return order != 0
    if high[0] in ("<", "<=", "="):
        return order > 0 or (order == 0 and (low[0] == ">" or high[0] == "<"))
    return low[0] == "=" and high[0] == "!=" and order == 0


def show(parts):
    """Return parts of a condition as text that :func:`parse` takes"""
    return ",".join(f"{operator}{version}" for operator, version in parts)


def meets(manager, version, parts):
    for operator, wanted in parts:
        if is_glob(wanted):
            if _like(version, wanted) != (operator == "="):
                return False
        elif not _HOLDS[operator](compare(manager, version, wanted)):
            return False
    return True


def _like(version, pattern):
    if fnmatch.fnmatchcase(version, pattern):
        return True
    return ":" not in pattern and fnmatch.fnmatchcase(
        version.partition(":")[2], pattern
    )
