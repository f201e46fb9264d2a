"""Numbers as people write them: sizes such as ``4G``, ages such as ``7d``, and dates.
"""

import datetime
import re

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([kmgtp])(?:i?b)?", re.IGNORECASE)
_AGE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdwy])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


def size(text):
    """Return a size such as ``4G`` or ``1.5T`` in mebibytes, or None."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    return float(match.group(1)) * 1024 ** ("kmgtp".index(match.group(2).lower()) - 1)


def seconds(text):
    """Return a span of time such as ``90s``, ``5m`` or ``7d`` in seconds, or None."""
    match = _AGE.fullmatch(text)
    return None if match is None else float(match.group(1)) * _SECONDS[match.group(2)]


def date(text):
    """Return a date of this time zone in seconds since the epoch, or None."""
    try:
        return datetime.datetime.fromisoformat(text.strip()).timestamp()
    except (OverflowError, ValueError):
        return None
