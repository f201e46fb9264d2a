"""
Numbers as people write them: sizes such as ``4G``, ages such as ``7d``, and dates.
"""

import datetime
import re

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([kmgtp])(?:i?b)?", re.IGNORECASE)
_MEBIBYTES = {
    "k": 1 / 1024,
    "m": 1,
    "g": 1024,
    "t": 1024 * 1024,
    "p": 1024 * 1024 * 1024,
}
_AGE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdwy])")
_SECONDS = {
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
    "w": 7 * 86400,
    "y": 365 * 86400,
}
_DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")


def size(text):
    """
    Return a size in mebibytes, or None if the text is none: ``4G``, ``512M``, ``1.5T``.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    return float(match.group(1)) * _MEBIBYTES[match.group(2).lower()]


def seconds(text):
    """
    Return a span of time in seconds, or None if the text is none: ``90s``, ``5m``,
    ``12h``, ``7d``, ``2w``, ``1y``.
    """
    match = _AGE.fullmatch(text)
    return None if match is None else float(match.group(1)) * _SECONDS[match.group(2)]


def date(text):
    """
    Return a date in seconds since the epoch, or None if the text is none: ``2026-11-21``,
    ``2026-11-21T09:30`` or with seconds, in the time of this machine.
    """
    for form in _DATES:
        try:
            return datetime.datetime.strptime(
                text.strip().replace(" ", "T"), form
            ).timestamp()
        except (OverflowError, ValueError):
            continue
    return None
