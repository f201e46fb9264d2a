"""
Answers as people and scripts read them, made from the definitions alone.
"""

import datetime
import json

from saltext.query.kinds import NODATA, NORMAL, NUMERIC, OFFLINE, UNAVAIL, UNKNOWN

#: What stands for a missing value.
TERSE = {UNKNOWN: "??", NODATA: "?", UNAVAIL: "-", OFFLINE: "*"}
VERBOSE = {
    UNKNOWN: "(unknown)",
    NODATA: "(nodata)",
    UNAVAIL: "(unavail)",
    OFFLINE: "(offline)",
}

#: Names of colours of :func:`salt.utils.color.get_colors`.
COLOURS = {
    UNKNOWN: "LIGHT_RED",
    NODATA: "YELLOW",
    UNAVAIL: "DARK_GRAY",
    OFFLINE: "LIGHT_RED",
}


def size(mebibytes):
    """
    Return a size in mebibytes for people.
    """
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


def _shown(text):
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


def value(kind, cell, verbose=False, plain=False):
    """
    Return a cell as text.

    :param str kind: the kind of its field. One that is not known is like ``other``.
    :param cell: a status and a value
    :param bool verbose: whether words stand for what is missing, or marks
    :param bool plain: whether sizes and times stay numbers
    """
    status, found = cell
    if status != NORMAL:
        return (VERBOSE if verbose else TERSE).get(status, f"({status})")
    if kind == "bool":
        return "Y" if found else "N"
    if kind == "unit" and not plain:
        return size(found)
    if kind == "timestamp" and not plain:
        return _time(found)
    if kind in NUMERIC:
        return str(found)
    return _shown(_other(found))


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


def lines(
    response, separator=None, headers=True, verbose=False, colours=None, width=None
):
    """
    Yield the lines of a table.

    :param dict response: the answer to a data query
    :param str separator: what stands between columns. Nothing is padded then, and sizes
        and times are numbers. By default columns are aligned, one blank apart, numbers
        to the right.
    :param bool headers: whether the titles come first
    :param bool verbose: whether words stand for what is missing, or marks
    :param dict colours: escape sequences by name, or None for no colours
    :param int width: how wide the terminal is. If the table is wider, each item becomes
        a block with a line for each field. None if there is no terminal.
    """
    fields = response["fields"]
    plain = separator is not None
    titles = [field["title"] or field["name"] for field in fields]
    kinds = [field["kind"] for field in fields]
    table = [
        [value(kind, cell, verbose, plain) for kind, cell in zip(kinds, row)]
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
            yield separator.join(titles)
        for row, cells in zip(table, response["data"]):
            yield separator.join(paint(text, cell[0]) for text, cell in zip(row, cells))
        return
    shown = [titles, *table] if headers else table
    widths = [max(map(len, column)) for column in zip(*shown)] if shown else []
    if width is not None and sum(widths) + len(widths) - 1 > width:
        yield from _blocks(titles, table, response["data"], paint)
        return
    right = [kind in NUMERIC and kind != "timestamp" for kind in kinds]

    def line(row, statuses):
        parts = []
        for place, text in enumerate(row):
            fill = " " * (widths[place] - len(text))
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


def _blocks(titles, table, data, paint):
    longest = max(map(len, titles))
    for number, (row, cells) in enumerate(zip(table, data)):
        if number:
            yield ""
        for title, text, cell in zip(titles, row, cells):
            yield f"{title + ':':<{longest + 1}} {paint(text, cell[0])}"


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
