"""
Answers as people and scripts read them, made from the definitions alone.
"""

import datetime
import json
import unicodedata

import saltext.query.formats
from saltext.query.kinds import (
    NODATA,
    NORMAL,
    NUMERIC,
    OFFLINE,
    UNAVAIL,
    UNKNOWN,
    WORDS,
)

#: What stands for a missing value.
TERSE = {UNKNOWN: "??", NODATA: "?", UNAVAIL: "-", OFFLINE: "*"}
#: Names of colours of :func:`salt.utils.color.get_colors`.
COLOURS = {
    UNKNOWN: "LIGHT_RED",
    NODATA: "YELLOW",
    UNAVAIL: "DARK_GRAY",
    OFFLINE: "LIGHT_RED",
}


#: What sizes can be shown in: what suits each, or mebibytes, gibibytes and tebibytes.
UNITS = {"h": None, "m": 1, "g": 1024, "t": 1024 * 1024}

#: A column that is made narrower keeps at least so much.
_LEAST_WIDTH = 12

#: Without a terminal, a value is cut to so much, and padded to so much.
_MOST_CUT = 1000
_MOST_PADDED = 100


def size(mebibytes, units="h"):
    """
    Return a size in mebibytes for people.

    :param str units: one of :data:`UNITS`
    """
    if units == "m":
        return str(mebibytes)
    if units != "h":
        return f"{mebibytes / UNITS[units]:.1f}"
    if abs(mebibytes) < 1024:
        return f"{mebibytes}M"
    if abs(mebibytes) < 1024 * 1024:
        return f"{mebibytes / 1024:.1f}G"
    return f"{mebibytes / 1024 / 1024:.1f}T"


def _time(seconds):
    try:
        found = datetime.datetime.fromtimestamp(seconds)
    except (OverflowError, OSError, ValueError):
        return str(seconds)
    return found.strftime("%Y-%m-%d %H:%M:%S")


def _other(value):
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def width_of(text):
    """
    Return how many columns of a terminal a text takes.
    """
    if text.isascii():
        return len(text)
    return sum(
        (
            0
            if unicodedata.combining(one)
            else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        )
        for one in text
    )


def shown(text):
    """
    Return a text without characters that a terminal would obey. Much of what is shown
    was chosen by minions.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in text
    )


def value(kind, cell, verbose=False, plain=False, units="h"):
    """
    Return a cell as text.

    :param str kind: the kind of its field. One that is not known is like ``other``.
    :param cell: a status and a value
    :param bool verbose: whether words stand for what is missing, or marks
    :param bool plain: whether sizes and times stay numbers
    :param str units: one of :data:`UNITS`
    """
    status, found = cell
    if status != NORMAL:
        word = f"({WORDS.get(status, status)})"
        return word if verbose else TERSE.get(status, word)
    if kind == "bool":
        return "Y" if found else "N"
    if kind == "unit" and (not plain or units != "h"):
        return size(found, units)
    if kind == "timestamp" and not plain:
        return _time(found)
    if kind in NUMERIC:
        return str(found)
    return shown(_other(found))


def known(response):
    """
    Return a response without the columns of unknown fields, and the names of these.
    """
    kinds = [field["kind"] for field in response["fields"]]
    if "unknown" not in kinds:
        return response, []
    names = [one["name"] for one in response["fields"] if one["kind"] == "unknown"]

    def keep(row):
        return [one for one, kind in zip(row, kinds) if kind != "unknown"]

    kept = dict(
        response,
        fields=keep(response["fields"]),
        data=[keep(row) for row in response["data"]],
    )
    return kept, list(dict.fromkeys(names))


def cut(text, width):
    """
    Return a text that is at most so wide, with ``…`` for what is cut off.
    """
    if width_of(text) <= width:
        return text
    ret = ""
    room = width - 1
    for char in text:
        room -= width_of(char)
        if room < 0:
            break
        ret += char
    return ret + "…"


def lines(
    response,
    separator=None,
    headers=True,
    verbose=False,
    colours=None,
    width=None,
    units="h",
):
    """
    Yield the lines of a table.

    :param dict response: the answer to a data query
    :param str separator: what stands between columns. Nothing is padded or cut then, sizes
        and times are numbers, and what holds the separator is in quotes. By default columns
        are aligned, one blank apart, numbers to the right.
    :param bool headers: whether the titles come first
    :param bool verbose: whether words stand for what is missing, or marks
    :param dict colours: escape sequences by name, or None for no colours
    :param int width: how wide the terminal is. If the table is wider, the values of its widest
        columns are cut; if that is not enough, each item becomes a block with a line for each
        field. None if there is no terminal.
    :param str units: one of :data:`UNITS`
    """
    fields = response["fields"]
    plain = separator is not None
    titles = [shown(field["title"] or field["name"]) for field in fields]
    kinds = [field["kind"] for field in fields]
    table = [
        [value(kind, cell, verbose, plain, units) for kind, cell in zip(kinds, row)]
        for row in response["data"]
    ]
    if not fields:
        return

    def paint(text, status):
        if not colours or status == NORMAL:
            return text
        return f"{colours[COLOURS.get(status, 'YELLOW')]}{text}{colours['ENDC']}"

    if plain:
        if headers:
            yield separator.join(_quoted(title, separator) for title in titles)
        for row, cells in zip(table, response["data"]):
            yield separator.join(
                paint(_quoted(text, separator), cell[0])
                for text, cell in zip(row, cells)
            )
        return
    if width is None:
        table = [[cut(text, _MOST_CUT) for text in row] for row in table]
    whole = [titles, *table] if headers else table
    widths = [max(map(width_of, column)) for column in zip(*whole)] if whole else []
    if width is None:
        # one long value pads no other
        widths = [min(one, _MOST_PADDED) for one in widths]
    else:
        widths = fitted(widths, width - len(widths) + 1)
        if widths is None:
            yield from _blocks(titles, table, response["data"], paint)
            return
    right = [kind in NUMERIC and kind != "timestamp" for kind in kinds]

    def line(row, statuses):
        parts = []
        for place, text in enumerate(row):
            if width is not None:
                text = cut(text, widths[place])
            fill = " " * (widths[place] - width_of(text))
            text = paint(text, statuses[place])
            if right[place]:
                parts.append(fill + text)
            elif place + 1 < len(row):
                parts.append(text + fill)
            else:
                parts.append(text)
        return " ".join(parts)

    if headers:
        yield line(titles, [NORMAL] * len(titles))
    for row, cells in zip(table, response["data"]):
        yield line(row, [cell[0] for cell in cells])
    if "counted" in response:
        groups = response.get("total", len(table))
        yield f"{response['counted']} items in {groups} groups"


def _quoted(text, separator):
    return saltext.query.formats.quoted(text, separator) if separator else text


def fitted(widths, most):
    """
    Return widths of columns that are together at most ``most``: the widest ones give
    way. None if that would leave too little of them.
    """
    widths = list(widths)
    over = sum(widths) - most
    while over > 0:
        widest = max(widths)
        if widest <= _LEAST_WIDTH:
            return None
        places = [place for place, one in enumerate(widths) if one == widest]
        floor = max([_LEAST_WIDTH, *[one for one in widths if one < widest]])
        for place in places:
            step = min(widest - floor, -(-over // len(places)), over)
            widths[place] -= step
            over -= step
    return widths


def _blocks(titles, table, data, paint):
    longest = max(map(width_of, titles))
    for number, (row, cells) in enumerate(zip(table, data)):
        if number:
            yield ""
        for title, text, cell in zip(titles, row, cells):
            fill = " " * (longest - width_of(title))
            yield f"{title}:{fill} {paint(text, cell[0])}"


def definitions(response):
    """
    Return the answer to a fields query as if it was one to a data query.
    """
    columns = (("name", "Name"), ("kind", "Kind"), ("title", "Title"), ("doc", "Doc"))
    return {
        "fields": [
            {"name": name, "title": title, "kind": "text", "doc": title}
            for name, title in columns
        ],
        "data": [
            [
                (NORMAL, one[name]) if one[name] is not None else (UNAVAIL, None)
                for name, _ in columns
            ]
            for one in response["fields"]
        ],
    }
