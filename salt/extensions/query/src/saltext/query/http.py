"""
Queries that come over HTTP: what both servers of salt-api make of them.

They are handed to the runner ``query``, so whoever asks needs the rights for it. What is
wrong with a request is told before anything is run.
"""

import saltext.query
import saltext.query.engine
import saltext.query.order
import saltext.query.target
from saltext.query.errors import QueryError

#: What a request may have besides the item type.
KEYS = ("fields", "filter", "limit", "offset", "sort", "tgt", "tgt_type")


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
    if not isinstance(body, dict) or not set(KEYS).issuperset(body):
        raise QueryError(f"Send a mapping of {', '.join(KEYS)}.")
    if "fields" not in body:
        if body:
            raise QueryError("Give the fields that are wanted as 'fields'.")
        saltext.query.prepare(opts, what, [])
        return {"client": "runner", "fun": "query.fields", "what": what}
    fields = saltext.query.order.names(body["fields"])
    low = {
        "client": "runner",
        "fun": "query.items",
        "what": what,
        "fields": fields,
        "filter": body.get("filter"),
        "limit": _number(body.get("limit")),
        "offset": _number(body.get("offset") or 0),
    }
    for name in ("sort", "tgt", "tgt_type"):
        if body.get(name) is not None:
            low[name] = body[name]
    saltext.query.engine.check_paging(low["limit"], low["offset"])
    saltext.query.prepare(opts, what, fields, low["filter"], low.get("sort"))
    if low.get("tgt") is not None:
        saltext.query.target.Target(low["tgt"], low.get("tgt_type", "glob"))
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


def _number(value):
    # any other text is "next" of the page before, or no number
    is_number = isinstance(value, str) and value.isdecimal() and len(value) < 19
    return int(value) if is_number else value


def refusal(found):
    """
    Return the sentence with which the runner has refused a query, or None: an answer is
    no sentence.

    :param found: what the runner has returned
    """
    return found if isinstance(found, str) else None
