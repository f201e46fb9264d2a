r"""
Which regular expressions a filter may have.

========================================  ============================================
characters, ``.``, ``[a-z]``, ``[^a-z]``
``\d \D \w \W \s \S \b \B \A \Z``          as in Python
``\n \r \t \f \v \a \xHH``                 one character
``\`` and a character that is no letter    this character
``a|b``, ``(a)``, ``(?:a)``, ``(?P<n>a)``  groups
``* + ? {n} {n,} {n,m}``                   repeats, and with ``?`` after them
``^ $``                                    start and end
``(?i) (?s) (?m)``, ``(?i:a)``             flags at the start, or for a group
========================================  ============================================
"""

import re

from saltext.query.errors import QueryError, QueryTooDearError

#: The most repeats of one part.
MAX_REPEATS = 1000

_ESCAPES = frozenset("dDwWsSbBAZnrtfvax")
_GROUP = re.compile(r"\((?:\?(?:[ims]+[:)]|-[ims]+:|[ims]+-[ims]+:|:|P<\w+>))?")
_GOES_BACK = re.compile(r"\(\?(?:[=!>]|<[=!]|P=|\()")
_REPEAT = re.compile(r"(?:[*+?]|\{([0-9]*)(?:,([0-9]*))?\})([+?]?)")
_CLASS_END = "]"


def check(pattern):
    """
    :raises QueryError: if the pattern, which Python can read, has something else
    :raises QueryTooDearError: if it has larger repeats than :data:`MAX_REPEATS`
    """
    for kind, part in _parts(pattern):
        if kind == "other":
            raise QueryError(
                f"Leave {part!r} out of the regular expression {pattern!r}: not all"
                " engines read it as Python does."
            )
        if kind == "back":
            raise QueryError(
                "Leave out of the regular expression what looks back or ahead:"
                " references to groups, lookahead, lookbehind, atomic groups and"
                " possessive repeats."
            )
        if kind == "repeat":
            match = _REPEAT.fullmatch(part)
            if any(int(one) > MAX_REPEATS for one in match.groups()[:2] if one):
                raise QueryTooDearError(
                    f"Give a regular expression with repeats of at most {MAX_REPEATS}."
                )


def as_re2(pattern):
    """
    Return the same pattern in the words of RE2, for texts of printable ASCII.
    """
    ret = []
    for kind, part in _parts(pattern):
        ret.append(r"\z" if kind == "escape" and part == r"\Z" else part)
    return "".join(ret)


def _parts(pattern):
    """
    Yield the kind and the text of each part.
    """
    at = 0
    while at < len(pattern):
        kind, end = _part(pattern, at)
        yield kind, pattern[at:end]
        at = end


def _part(pattern, at):
    char = pattern[at]
    if char == "\\":
        return _escape(pattern, at)
    if char == "[":
        return _class(pattern, at)
    if char == "(":
        match = _GROUP.match(pattern, at)
        if _GOES_BACK.match(pattern, at):
            return "back", at + 3
        if pattern[at + 1 : at + 2] == "?" and len(match.group()) == 1:
            return "other", at + 3
        return "group", match.end()
    match = _REPEAT.match(pattern, at)
    if match is None:
        return "char", at + 1
    if match.group(3) == "+":
        return "back", match.end()
    if char == "{":
        low, high = match.group(1), match.group(2)
        if not low and not high and match.group() != "{,}":
            return "char", at + 1
        if not low:
            return "other", match.end()
    return "repeat", match.end()


def _escape(pattern, at):
    char = pattern[at + 1 : at + 2]
    if char.isdigit() and char != "0":
        return "back", at + 2
    if char.isalnum() and (char not in _ESCAPES or not char.isascii()):
        return "other", at + 2
    return "escape", at + (4 if char == "x" else 2)


def _class(pattern, at):
    """
    Return the kind and the end of a set of characters.
    """
    kind = "class"
    place = at + 1
    if pattern[place : place + 1] == "^":
        place += 1
    first = place
    while pattern[place] != _CLASS_END or place == first:
        if pattern[place] == "\\":
            inner, place = _escape(pattern, place)
            if inner != "escape":
                kind = "other"
            continue
        if pattern[place : place + 2] in ("[:", "[=", "[.") or (
            pattern[place : place + 2] in ("--", "&&", "||", "~~")
        ):
            kind = "other"
        place += 1
    return kind, place + 1
