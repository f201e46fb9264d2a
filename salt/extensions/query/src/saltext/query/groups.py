"""How many items there are of each kind: a table of groups, their counts, and sums,
least and largest values and means of fields.
"""

import json
import re

from saltext.query import compare
from saltext.query.errors import QueryError
from saltext.query.kinds import NODATA, NORMAL, NUMERIC

_COUNT = {
    "name": "count",
    "title": "Count",
    "kind": "number",
    "doc": "Number of items with these values",
}
_CALL = re.compile(r"(sum|min|max|avg)\((.+)\)")
_DOCS = {"sum": "Sum", "min": "Least", "max": "Largest", "avg": "Mean"}


def split(names):
    """Return the names of the fields that make groups, and pairs of a function and the
    name of its field: names may be such as ``sum(mtotal)``.
    """
    if not isinstance(names, (list, tuple)):
        return names, []
    found = [(one, _CALL.fullmatch(str(one).strip())) for one in names]
    plain = [one for one, match in found if match is None]
    return plain, [match.groups() for _, match in found if match is not None]


def check(functions, known):
    """
    :param Known known: the fields that there are
    :raises QueryError: if there is no such field, or a sum or a mean of what is no number
    """
    for function, name in functions:
        kind = known.get(name, f"Make the {function}").kind
        if function in ("sum", "avg") and kind not in (*NUMERIC, "other"):
            raise QueryError(
                f"Give {function}() a field of numbers: {name} is of the kind {kind!r}."
            )


def _made(function, cells):
    """Return a cell for the cells of a group."""
    values = [value for status, value in cells if status == NORMAL]
    if function in ("sum", "avg"):
        values = [one for one in values if compare.is_number(one)]
    if not values:
        return (NODATA, None)
    if function == "avg":
        return (NORMAL, round(sum(values) / len(values), 2))
    if function == "sum":
        return (NORMAL, sum(values))
    best = min if function == "min" else max
    return (NORMAL, best(values, key=compare.sort_key))


def count(response, functions=(), sort=None):
    """Return a response with one row for each group of rows that are the same, the
    largest group first, and in ``counted`` how many items there are.

    :param functions: pairs of a function and a field's name, for the last columns
    :param sort: columns to sort by, see :func:`saltext.query.compare.split`
    """
    columns = response["fields"]
    size = len(columns) - len(functions)
    groups = {}
    for row in response["data"]:
        key = tuple(row[:size])
        if not all(isinstance(one, str) for _, one in key):
            # 1, 1.0 and True are the same to Python, and lists can't be looked up
            key = json.dumps(key, sort_keys=True)
        groups.setdefault(key, []).append(row)
    fields = [*columns[:size], _COUNT, *map(_column, functions, columns[size:])]
    rows = []
    for group in groups.values():
        made = [
            _made(function, [row[place] for row in group])
            for place, (function, _) in enumerate(functions, size)
        ]
        rows.append([*group[0][:size], (NORMAL, len(group)), *made])
    names = [one["name"] for one in fields]
    wanted = compare.split(sort)
    wanted += [("count", True), *[(name, False) for name in names[:size]]]
    for name, _ in wanted:
        if name not in names:
            raise QueryError(
                f"Sort groups by one of {', '.join(names)}, not {name!r:.80}."
            )
    places = [names.index(name) for name, _ in wanted]
    found = [([compare.cell_key(row[place]) for place in places], row) for row in rows]
    return {
        **response,
        "fields": fields,
        "data": compare.ordered(found, [turned for _, turned in wanted]),
        "counted": len(response["data"]),
    }


def _column(called, column):
    """Return the definition of the column of a function."""
    function, name = called
    kind = column["kind"]
    if function == "avg" or (function == "sum" and kind == "other"):
        kind = "float"
    return {
        "name": f"{function}({name})",
        "title": f"{function}({column['title']})",
        "kind": kind,
        "doc": f"{_DOCS[function]} of {name}",
    }
