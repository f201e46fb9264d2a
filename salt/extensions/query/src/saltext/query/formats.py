"""
Answers for programs: CSV, and JSON with one item on each line.
"""

import json
import shlex

from saltext.query.kinds import NORMAL, WORDS

_NOTES = {
    "left_out": "{} items are left out that few want to see, as jobs of runners; --all or"
    " the filter '[\"&\"]' shows them",
    "undecided": "{} items could not be judged, as the master lacks their data;"
    " 'FIELD is missing' shows them",
    "untold": "{} minions have not told the mine what this type shows",
    "damaged": "{} documents of the cache are damaged and look like no data: see the log",
    "too_large": "{} values are larger than a query shows, and look like not available",
}


def quoted(text, separator):
    """
    Return a text as a value of CSV: in quotes if a reader would take it apart.
    """
    wrong = (separator, '"', "\r", "\n")
    # a reader may take blanks away
    if separator and (any(one in text for one in wrong) or text != text.strip()):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv(response, shown, headers=True):
    """
    Yield the lines of CSV, as in RFC 4180 but for the end of the lines, which is that of
    the system. The header has the names of the fields. What is missing is empty; what is
    neither text nor number is JSON.

    :param callable shown: takes a text and returns it as the output can show it
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
    """
    Yield a JSON object for each item: values by the names of fields, null for what is
    missing, and in ``_missing`` why.
    """
    names = [one["name"] for one in response["fields"]]
    for row in response["data"]:
        ret = {name: value for name, (_, value) in zip(names, row)}
        missing = {
            name: WORDS.get(status, str(status))
            for name, (status, _) in zip(names, row)
            if status != NORMAL
        }
        if missing:
            ret["_missing"] = missing
        yield json.dumps(ret)


def names(response, shown):
    """
    Yield the names of all items with commas between them, as ``salt -L`` takes them.

    :param callable shown: takes a text and returns it as the output can show it
    """
    found = dict.fromkeys(row[0][1] for row in response["data"] if row[0][0] == NORMAL)
    if found:
        yield ",".join(shown(str(name)) for name in found)


def notes(response):
    """
    Yield sentences about what an answer does not show: pages, minions that did not
    answer, what could not be judged or read.
    """
    if response.get("next") is not None:
        yield (
            f"{len(response['data'])} of {response['total']}"
            f" {'groups' if 'counted' in response else 'items'}; go on with offset"
            f" {shlex.quote(str(response['next']))}"
        )
    live = response.get("live")
    if live:
        parts = [f"{live['answered']} minions answered"]
        if live["offline"]:
            parts.append(f"{live['offline']} are offline")
        if live["not_asked"]:
            parts.append(f"of {live['not_asked']} there is no answer")
        if live["cached"]:
            parts.append(f"{live['cached']} were asked up to {live['age']} s ago")
        yield ", ".join(parts)
        for reason, number in sorted(live["reasons"].items()):
            yield f"no answer, {number}: {reason}"
    for name, other in (response.get("valueless") or {}).items():
        hint = f"; did you mean {other!r}?" if other else ""
        yield f"nothing that is looked at has {name}{hint}"
    for name, sentence in _NOTES.items():
        if response.get(name):
            yield sentence.format(response[name])
