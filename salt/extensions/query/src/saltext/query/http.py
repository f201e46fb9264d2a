"""
Queries that come over HTTP: what both servers of salt-api make of them.

They are handed to the runner ``query``, so whoever asks needs the rights for it. What is
wrong with a request is told before anything is run.
"""

import saltext.query
from saltext.query.errors import QueryError

_KEYS = ("fields", "filter", "limit", "offset", "sort", "tgt", "tgt_type")


def posted(opts, what, body):
    """
    Return the low data for the body of a POST.

    :param dict opts: the master's options
    :param str what: the item type
    :param dict body: ``fields`` and optionally ``filter``, ``limit``, ``offset``, ``sort``,
        ``tgt`` and ``tgt_type``. Without ``fields`` it asks which fields there are.
    :raises QueryError: if something is wrong with it
    """
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if body is None or body == []:
        body = {}
    if not isinstance(body, dict) or not set(_KEYS).issuperset(body):
        raise QueryError(f"Send a mapping of {', '.join(_KEYS)}.")
    if "fields" not in body:
        if body:
            raise QueryError("Give the fields that are wanted as 'fields'.")
        saltext.query.fields(opts, what)
        return {"client": "runner", "fun": "query.fields", "what": what}
    fields = body["fields"]
    if isinstance(fields, str):
        fields = [name.strip() for name in fields.split(",") if name.strip()]
    low = {
        "client": "runner",
        "fun": "query.items",
        "what": what,
        "fields": fields,
        "filter": body.get("filter"),
        "limit": _number("limit", body.get("limit")),
        "offset": _number("offset", body.get("offset")) or 0,
    }
    for name in ("sort", "tgt", "tgt_type"):
        if body.get(name) is not None:
            low[name] = body[name]
    saltext.query.prepare(opts, what, fields, low["filter"], low.get("sort"))
    return low


def given(opts, what, name, query, arguments):
    """
    Return the low data for the parameters of a GET.

    :param dict opts: the master's options
    :param str what: the item type
    :param str name: the one item that is meant, or None
    :param str query: the parameter ``query``: the fields, with commas between them
    :param dict arguments: the parameters ``filter``, ``limit``, ``offset``, ``sort``, ``tgt`` and
        ``tgt_type``
    :raises QueryError: if something is wrong with them
    """
    body = dict(arguments, fields=query)
    if name:
        if body.get("filter"):
            raise QueryError("Give either an item in the path or a filter.")
        first = next(iter(saltext.query.item_type(opts, what).fields))
        body["filter"] = ["=", first, name]
    return posted(opts, what, body)


def _number(name, value):
    if isinstance(value, str):
        if not value.isdecimal() or len(value) > 18:
            raise QueryError(f"Give {name} as a number that is not negative.")
        return int(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise QueryError(f"Give {name} as a number that is not negative.")
    return value


def refusal(found):
    """
    Return the sentence with which the runner has refused a query, or None: an answer is
    no sentence.

    :param found: what the runner has returned
    """
    return found if isinstance(found, str) else None
