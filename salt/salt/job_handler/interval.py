"""
Parts of a job's minions that need no list: the neighbours in the order of their ids.

A wave goes to neighbours, so a regular expression of two hundred bytes says who they are,
instead of a list of thirty thousand that all connected minions hear.
"""

import bisect
import collections
import os

#: The last character: no id comes after it.
_END = chr(0x10FFFF)

#: The minions of a wave are all those of the job from ``low`` on and below ``high``, texts
#: or None for no bound, without the ids in ``skipped``.
Stretch = collections.namedtuple("Stretch", ("low", "high", "skipped"))


def stretch(job, minions, excluded):
    """
    Return the :class:`Stretch` of a wave, or None if its minions are not neighbours. Call
    this once for each part of a job that leaves the queue.

    :param Job job: with the minions that still wait
    :param list minions: those of the wave, sorted
    :param excluded: those that are left out with it
    """
    low, gone = job.upto, [*minions[:1], *minions[-1:], *excluded]
    if low is None and job.waves > 1:
        # some had their turn before, and it is not known who
        job.upto = _END
        return None
    waiting = job.minions
    place = bisect.bisect_left(waiting, max(gone))
    high = _boundary(max(gone), waiting[place]) if place < len(waiting) else None
    job.upto = max(low or "", _END if high is None else high)
    if low is not None and min(gone) < low:
        return None
    first = 0 if low is None else bisect.bisect_left(waiting, low)
    return Stretch(low, high, [*sorted(excluded), *waiting[first:place]])


def _boundary(last, following):
    """
    Return the shortest beginning of an id that is greater than the id before it.
    """
    for length in range(1, len(following)):
        if following[:length] > last:
            return following[:length]
    return following


def pattern(low, high, ids, group=False):
    """
    Return a regular expression that ``re.match`` finds in these ids, and in no id that is
    less than ``low`` or not less than ``high``. There is no white space in it.

    :param low: a text, or None
    :param high: a text, or None
    :param list ids: sorted ids between the two
    :param bool group: whether there may be parentheses
    """
    words = []
    for prefix, first, last in _parts(low, high):
        start = bisect.bisect_left(ids, prefix + first)
        if start == len(ids) or not ids[start].startswith(prefix):
            continue
        if not first:
            if ids[start] == prefix:
                words.append((prefix, r"\Z"))
        elif ids[start][len(prefix)] <= last:
            # as far as there are ids
            end = bisect.bisect_right(ids, prefix + last + _END) - 1
            place = len(prefix)
            words.append((prefix, _class(ids[start][place], ids[end][place])))
    same = ""
    if group and len(words) > 1:
        same = os.path.commonprefix([prefix for prefix, _ in words])
    found = "|".join(_literal(prefix[len(same) :]) + rest for prefix, rest in words)
    return f"{_literal(same)}({found})" if same else found


def _parts(low, high):
    """
    Yield the parts of an interval as ``(prefix, first, last)``: what begins with
    ``prefix`` and goes on with a character from ``first`` to ``last``, or ``prefix``
    itself if these are empty.
    """
    same = -1
    if low is not None and high is not None:
        same = 0
        while same < len(low) and low[same] == high[same]:
            same += 1
    if low is not None:
        # what begins with low itself is not less
        starts = [*map(_after, low[:-1]), low[-1]]
        for place in range(len(low) - 1, same, -1):
            yield low[:place], starts[place], _END
        if high is not None and same < len(low):
            yield low[:same], starts[same], _before(high[same])
            same += 1
    if high is not None:
        for place in range(max(same, 0), len(high)):
            yield high[:place], "", ""
            if high[place] != "\0":
                yield high[:place], "\0", _before(high[place])


def _after(char):
    return chr(min(ord(char) + 1, ord(_END)))


def _before(char):
    return chr(max(ord(char) - 1, 0))


def _class(first, last):
    """
    Return the expression for a character from one to another.
    """
    if first == last:
        return _literal(first)
    return f"[{_escaped(first)}-{_escaped(last)}]"


def _literal(text):
    return "".join(char if char in "-_" else _escaped(char) for char in text)


def _escaped(char):
    """
    Return a character as it may stand anywhere in a regular expression.
    """
    if char.isalnum() and char.isascii():
        return char
    if char == ".":
        return r"\."
    code = ord(char)
    if code < 0x100:
        return rf"\x{code:02x}"
    return rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}"
