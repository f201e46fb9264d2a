"""Answers as people and scripts read them, made from the definitions alone."""

import datetime
import json
import shlex

from saltext.query.kinds import NODATA, NORMAL, NUMERIC, OFFLINE, UNAVAIL, UNKNOWN

from salt.utils.jid import is_jid

#: For each status without a value, the word and the mark that stand for it, and the name of
#: a colour of :func:`salt.utils.color.get_colors`.
_MISSING = {
    UNKNOWN: ("unknown", "??", "LIGHT_RED"),
    NODATA: ("nodata", "?", "YELLOW"),
    UNAVAIL: ("unavail", "-", "DARK_GRAY"),
    OFFLINE: ("offline", "*", "LIGHT_RED"),
}

_NOTES = {
    "left_out": "{} item{} left out, as jobs of runners and of Salt itself; --all or the"
    " filter '[\"&\"]' shows them",
    "undecided": "{} item{} not judged, as the master lacks the data;"
    " 'FIELD is missing' shows them",
    "untold": "{} minion{} without the data in the mine: add the function that sends it, such"
    " as pkg.list_pkgs, to mine_functions",
    "damaged": "{} damaged document{} in the cache, shown as no data: see the log",
    "too_large": "{} value{} too large for a query, shown as not available",
}

#: A column that is made narrower keeps at least so much, and job ids as a whole.
_LEAST_WIDTH = 12

#: Without a terminal, a value is cut to so much, and padded to so much.
_MOST_CUT = 1000
_MOST_PADDED = 100


def size(mebibytes, units="h"):
    """Return a size in mebibytes for people.

    :param str units: in what it is shown: in mebibytes (m), gibibytes (g), tebibytes (t), or
        in what suits it, with its letter (h)
    """
    if units == "m":
        return str(mebibytes)
    for letter, factor in (("t", 1024 * 1024), ("g", 1024)):
        if units == letter:
            return f"{mebibytes / factor:.1f}"
        if units == "h" and abs(mebibytes) >= factor:
            return f"{mebibytes / factor:.1f}{letter.upper()}"
    return f"{mebibytes}M"


def shown(text):
    """Return a text without characters that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in text
    )


def _missing(status):
    return _MISSING.get(status, (str(status), f"({status})", "YELLOW"))


def value(kind, cell, verbose=False, plain=False, units="h"):
    """Return a cell as text.

    :param bool verbose: whether words stand for what is missing, or marks
    :param bool plain: whether sizes and times stay numbers
    :param str units: see :func:`size`
    """
    status, found = cell
    if status != NORMAL:
        word, mark, _ = _missing(status)
        return f"({word})" if verbose else mark
    if kind == "bool":
        return "Y" if found else "N"
    if kind == "unit" and (not plain or units != "h"):
        return size(found, units)
    if kind == "timestamp" and not plain:
        try:
            time = datetime.datetime.fromtimestamp(found)
            return time.isoformat(" ", "seconds")
        except (OverflowError, OSError, ValueError):
            return str(found)
    if kind in NUMERIC:
        return str(found)
    if isinstance(found, (list, tuple)) and all(isinstance(one, str) for one in found):
        found = ",".join(found)
    return shown(found if isinstance(found, str) else json.dumps(found, sort_keys=True))


def known(response):
    """Return a response without the columns of unknown fields, and the names of these."""
    fields = response["fields"]
    places = [place for place, one in enumerate(fields) if one["kind"] != "unknown"]
    if len(places) == len(fields):
        return response, []
    rows = [[row[place] for place in places] for row in (fields, *response["data"])]
    names = [one["name"] for one in fields if one["kind"] == "unknown"]
    return {**response, "fields": rows[0], "data": rows[1:]}, list(dict.fromkeys(names))


def counted(number, sentence):
    """Return a sentence with a number, and an "s" if it is not one."""
    return sentence.format(number, "s" * (number != 1))


def cut(text, width):
    """Return a text that is at most so wide, with ``…`` for what is cut off."""
    return text if len(text) <= width else text[: width - 1] + "…"


def lines(
    response,
    separator=None,
    headers=True,
    verbose=False,
    colours=None,
    width=None,
    units="h",
):
    """Yield the lines of a table.

    :param dict response: the answer to a data query
    :param str separator: what stands between columns. Nothing is padded or cut then, sizes
        and times are numbers, and what holds the separator is in quotes. By default columns
        are aligned, one blank apart, numbers to the right.
    :param bool headers: whether the titles come first
    :param bool verbose: whether words stand for what is missing, or marks
    :param dict colours: escape sequences by name, or None for no colours
    :param int width: how wide the terminal is. If the table is wider, the values of its widest
        columns are cut. None if there is no terminal.
    :param str units: see :func:`size`
    """
    fields = response["fields"]
    if not fields:
        return
    kinds = [field["kind"] for field in fields]
    plain = separator is not None
    titles = [shown(field["title"] or field["name"]) for field in fields]
    table = [(titles, [NORMAL] * len(fields))] if headers else []
    for row in response["data"]:
        texts = [
            value(kind, cell, verbose, plain, units) for kind, cell in zip(kinds, row)
        ]
        table.append((texts, [status for status, _ in row]))

    def paint(text, status):
        if not colours or status == NORMAL:
            return text
        return f"{colours[_missing(status)[2]]}{text}{colours['ENDC']}"

    if plain:
        for texts, statuses in table:
            texts = [quoted(text, separator) for text in texts]
            yield separator.join(map(paint, texts, statuses))
        return
    columns = [*zip(*[texts for texts, _ in table])]
    widths = [max(map(len, column)) for column in columns]
    if width is None:
        # one long value pads no other
        cuts = [_MOST_CUT] * len(fields)
        widths = [min(one, _MOST_PADDED) for one in widths]
    else:
        cuts = widths = fitted(columns, widths, width - len(widths) + 1)
    for texts, statuses in table:
        parts = []
        for place, (text, kind) in enumerate(zip(texts, kinds)):
            text = cut(text, cuts[place])
            fill = " " * (widths[place] - len(text))
            text = paint(text, statuses[place])
            if kind in NUMERIC and kind != "timestamp":
                text = fill + text
            elif place + 1 < len(texts):
                text += fill
            parts.append(text)
        yield " ".join(parts)
    if "counted" in response:
        groups = response.get("total", len(response["data"]))
        items = counted(response["counted"], "{} item{} in ")
        yield items + counted(groups, "{} group{}")


def fitted(columns, widths, most):
    """Return widths of columns that are together at most ``most``: the widest ones give
    way, but none below :data:`_LEAST_WIDTH`, and none with a job id below that.
    """
    ids = [[len(one) for one in column if is_jid(one)] for column in columns]
    least = [max(one, default=_LEAST_WIDTH) for one in ids]
    ret = widths
    widest = max(widths, default=0)
    while widest > _LEAST_WIDTH and sum(ret) > most:
        widest -= 1
        ret = [min(one, max(widest, low)) for one, low in zip(widths, least)]
    return ret


def definitions(response):
    """Return the answer to a fields query as if it was one to a data query."""
    names = ("name", "kind", "title", "doc")
    fields = [
        {"name": one, "title": word, "kind": "text", "doc": word}
        for one, word in [(one, one.capitalize()) for one in names]
    ]
    data = [
        [
            (UNAVAIL, None) if one[name] is None else (NORMAL, one[name])
            for name in names
        ]
        for one in response["fields"]
    ]
    return {"fields": fields, "data": data}


def quoted(text, separator):
    """Return a text as a value of CSV: in quotes if a reader would take it apart."""
    wrong = (separator, '"', "\r", "\n")
    # a reader may take blanks away
    if separator and (any(one in text for one in wrong) or text != text.strip()):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv(response, shown, headers=True):
    """
    Yield the lines of CSV, as in RFC 4180 but for the end of the lines, which is that of
    the system. The header has the names of the fields. What is missing is empty; what is
    neither text nor number is JSON. ``shown`` takes a text and returns what the output can show.
    """
    rows = [[(NORMAL, one["name"]) for one in response["fields"]]] if headers else []
    for row in (*rows, *response["data"]):
        texts = [
            found if isinstance(found, str) else json.dumps(found, sort_keys=True)
            for found in ["" if status else found for status, found in row]
        ]
        # an empty line is no row to most readers
        yield ",".join(quoted(shown(one), ",") for one in texts) or '""' * len(texts)


def json_lines(response):
    """Yield a JSON object for each item: values by the names of fields, null for what
    is missing, and in ``_missing`` why.
    """
    names = [one["name"] for one in response["fields"]]
    for row in response["data"]:
        ret = {name: value for name, (_, value) in zip(names, row)}
        missing = {
            name: _missing(status)[0]
            for name, (status, _) in zip(names, row)
            if status != NORMAL
        }
        if missing:
            ret["_missing"] = missing
        yield json.dumps(ret)


def names(response, shown):
    """Yield the names of all items with commas between them, as ``salt -L`` takes them."""
    found = dict.fromkeys(row[0][1] for row in response["data"] if row[0][0] == NORMAL)
    if found:
        yield ",".join(shown(str(name)) for name in found)


def notes(response):
    """Yield sentences about what an answer does not show."""
    if response.get("next") is not None:
        yield (
            f"{len(response['data'])} of {response['total']}"
            f" {'groups' if 'counted' in response else 'items'}; go on with offset"
            f" {shlex.quote(str(response['next']))}"
        )
    live = response.get("live")
    if live:
        parts = [counted(live["answered"], "{} minion{} answered")]
        if live["offline"]:
            parts.append(f"{live['offline']} offline")
        if live["not_asked"]:
            parts.append(f"of {live['not_asked']} there is no answer")
        if live["cached"]:
            parts.append(f"{live['cached']} asked up to {live['age']} s ago")
        yield ", ".join(parts)
        for reason, number in sorted(live["reasons"].items()):
            yield f"no answer, {number}: {reason}"
    for name, other in (response.get("valueless") or {}).items():
        hint = f"; did you mean {other!r}?" if other else ""
        yield f"nothing that is looked at has {name}{hint}"
    for name, sentence in _NOTES.items():
        if response.get(name):
            yield counted(response[name], sentence)
