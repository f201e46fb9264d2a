"""
Answers for programs: CSV, and JSON with one item on each line.
"""

import json

from saltext.query.kinds import NODATA, NORMAL, OFFLINE, UNAVAIL, UNKNOWN

#: What JSON lines call what is missing.
STATUSES = {
    UNKNOWN: "unknown",
    NODATA: "nodata",
    UNAVAIL: "unavail",
    OFFLINE: "offline",
}

_QUOTED = ('"', "\r", "\n")


def quoted(text, separator):
    """
    Return a text as a value of CSV: in quotes if a reader would take it apart.
    """
    if (
        separator in text
        or any(one in text for one in _QUOTED)
        # a reader may take blanks away
        or text != text.strip()
    ):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv(response, shown, headers=True):
    """
    Yield the lines of CSV, as in RFC 4180 but for the end of the lines, which is that of
    the system. The header has the names of the fields. What is missing is empty; what is
    neither text nor number is JSON.

    :param callable shown: takes a text and returns it as the output can show it
    """
    if headers:
        names = [one["name"] for one in response["fields"]]
        yield ",".join(quoted(shown(name), ",") for name in names)
    alone = len(response["fields"]) == 1
    for row in response["data"]:
        texts = [_csv_value(cell, shown) for cell in row]
        # an empty line is no row to most readers
        yield '""' if alone and texts == [""] else ",".join(texts)


def _csv_value(cell, shown):
    status, value = cell
    if status != NORMAL:
        return ""
    if not isinstance(value, str):
        value = json.dumps(value, sort_keys=True)
    return quoted(shown(value), ",")


def json_lines(response):
    """
    Yield a JSON object for each item: values by the names of fields, null for what is
    missing, and in ``_missing`` why.
    """
    names = [one["name"] for one in response["fields"]]
    for row in response["data"]:
        ret = {name: value for name, (_, value) in zip(names, row)}
        missing = {
            name: STATUSES.get(status, str(status))
            for name, (status, _) in zip(names, row)
            if status != NORMAL
        }
        if missing:
            ret["_missing"] = missing
        yield json.dumps(ret)


def json_whole(response):
    """
    Yield the whole answer as JSON.
    """
    yield json.dumps(response)


def notes(response):
    """
    Yield sentences about what an answer does not show: pages, minions that did not
    answer, damaged documents.
    """
    if response.get("next") is not None:
        first = response["offset"] + 1
        yield (
            f"{first} to {response['next']} of {response['total']} items; go on with"
            f" offset {response['next']}"
        )
    live = response.get("live")
    if live:
        parts = [f"{live['answered']} minions answered"]
        if live["offline"]:
            parts.append(f"{live['offline']} are offline")
        if live["not_asked"]:
            parts.append(f"{live['not_asked']} were not asked")
        if live["cached"]:
            parts.append(f"{live['cached']} were asked up to {live['age']} s ago")
        yield ", ".join(parts)
        for reason, number in sorted(live["reasons"].items()):
            yield f"not asked, {number}: {reason}"
    if response.get("damaged"):
        yield (
            f"{response['damaged']} documents of the cache are damaged and look like no"
            " data: see the log"
        )
