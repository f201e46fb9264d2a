"""Numbers as people write them: sizes such as ``4G``, ages such as ``7d``, and dates.
"""

import datetime
import re

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([kmgtp])(?:i?b)?", re.IGNORECASE)
_AGE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdwy])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


def size(text):
    """
    Return a size in mebibytes, or None if the text is none: ``4G``, ``512M``, ``1.5T``.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    return float(match.group(1)) * 1024 ** ("kmgtp".index(match.group(2).lower()) - 1)


def seconds(text):
    """Return a span of time in seconds, or None if the text is none: ``90s``, ``5m``,
    ``12h``, ``7d``, ``2w``, ``1y``.
    """
    match = _AGE.fullmatch(text)
    return None if match is None else float(match.group(1)) * _SECONDS[match.group(2)]


def date(text):
    """Return a date in seconds since the epoch, or None if the text is none:
    ``2026-11-21``, ``2026-11-21T09:30`` or with seconds, in the time of this machine.
    """
    try:
        return datetime.datetime.fromisoformat(text.strip()).timestamp()
    except (OverflowError, ValueError):
        return None
