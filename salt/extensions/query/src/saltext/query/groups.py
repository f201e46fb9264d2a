"""
How many items there are of each kind: a table of groups and their counts.
"""

import json

import saltext.query.order

_COUNT = {
    "name": "count",
    "title": "Count",
    "kind": "number",
    "doc": "Number of items with these values",
}


def count(response):
    """
    Return a response with one row for each group of rows that are the same, the largest
    group first, and in ``counted`` how many items there are.
    """
    groups = {}
    for row in response["data"]:
        key = json.dumps(row, sort_keys=True)
        if key in groups:
            groups[key][1] += 1
        else:
            groups[key] = [row, 1]
    found = sorted(
        groups.values(),
        key=lambda one: (
            -one[1],
            [(key is None, key or ()) for key in map(saltext.query.order.key, one[0])],
        ),
    )
    return {
        **response,
        "fields": [*response["fields"], _COUNT],
        "data": [[*row, (0, number)] for row, number in found],
        "counted": len(response["data"]),
    }
