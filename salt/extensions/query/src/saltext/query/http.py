"""Queries that come over HTTP: what both servers of salt-api make of them.

They are handed to the runner ``query``, so whoever asks needs the rights for it. What is
wrong with a request is told before anything is run.
"""

import saltext.query
from saltext.query import compare, engine, target
from saltext.query.errors import QueryError

#: What a request may have besides the item type.
KEYS = ("fields", "filter", "limit", "offset", "sort", "tgt", "tgt_type")


def posted(opts, what, body):
    """Return the low data for the body of a POST.

    :param dict opts: the master's options
    :param str what: the item type
    :param dict body: ``fields`` and optionally ``filter``, ``limit``, ``offset``, ``sort``,
        ``tgt`` and ``tgt_type``. Without ``fields`` it asks which fields there are.
    :raises QueryError: if something is wrong with it
    """
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    body = {} if body is None or body == [] else body
    if not isinstance(body, dict) or not set(KEYS).issuperset(body):
        raise QueryError(f"Send a mapping of {', '.join(KEYS)}.")
    if not body:
        saltext.query.prepare(opts, what, [])
        return {"client": "runner", "fun": "query.fields", "what": what}
    if "fields" not in body:
        raise QueryError("Give the fields that are wanted as 'fields'.")
    low = {
        "client": "runner",
        "fun": "query.items",
        "what": what,
        "filter": None,
        "limit": None,
        **{name: value for name, value in body.items() if value is not None},
        "fields": compare.names(body["fields"]),
        "offset": body.get("offset") or 0,
    }
    for name in ("limit", "offset"):
        # any other text is "next" of the page before, or no number
        text = low[name]
        if isinstance(text, str) and text.isdecimal() and len(text) < 19:
            low[name] = int(text)
    engine.check_paging(low["limit"], low["offset"])
    saltext.query.prepare(opts, what, low["fields"], low["filter"], low.get("sort"))
    if "tgt" in low:
        target.Target(low["tgt"], low.get("tgt_type", "glob"))
    return low


def given(opts, what, name, query, arguments):
    """Return the low data for the parameters of a GET.

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


def refusal(found):
    """Return the sentence with which a runner that returned this refused, or None."""
    return found if isinstance(found, str) else None
