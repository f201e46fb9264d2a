"""
What a field is: its definition, which clients get, and how to get its value.
"""

import logging
import re

import saltext.query.kinds
from saltext.query.errors import QueryError

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9/._]+")
_TITLE = re.compile(r"\S+")
_DOC = re.compile(r"[A-Z].*[^.,?!\s]")


class Field:
    """
    One field of an item type.

    :param str name: letters ``a-z``, digits, ``/``, ``.`` and ``_``
    :param str title: what to print above its column, without whitespace
    :param str kind: one of :data:`saltext.query.kinds.KINDS`
    :param str doc: one line that starts with a capital and ends without punctuation
    :param callable get: takes an item and returns its value, or one of the
        ``MISSING_`` constants of :mod:`saltext.query.kinds`
    :param needs: the data it reads, each ``source`` or ``source:key``
    :param bool host: whether its values are names of hosts, which compare by whole
        leading components
    :param int cost: how dear it is: 0 is in a listing, 1 in a document per item, 2 asks
        minions. Filters look at cheap fields first.
    :param str alias_of: the field that it is another name of
    """

    __slots__ = (
        "name",
        "title",
        "kind",
        "doc",
        "get",
        "needs",
        "host",
        "cost",
        "alias_of",
        "_check",
    )

    def __init__(
        self,
        name,
        title,
        kind,
        doc,
        get,
        needs=(),
        host=False,
        cost=None,
        alias_of=None,
    ):
        self.name = name
        self.title = title
        self.kind = kind
        self.doc = doc
        self.get = get
        self.needs = tuple(needs)
        self.host = host
        if cost is None:
            cost = 2 if "live" in self.sources() else 1 if self.needs else 0
        self.cost = cost
        self.alias_of = alias_of
        self._check = saltext.query.kinds.KINDS[kind]

    def sources(self):
        """
        Return the names of the sources that it reads.
        """
        return {need.partition(":")[0] for need in self.needs}

    def cell(self, item):
        """
        Return the cell of an item. Data that nobody thought of costs a cell, not the
        whole answer.
        """
        try:
            value = self.get(item)
        except QueryError:
            raise
        except Exception:  # pylint: disable=broad-except
            log.debug("Could not get the field %s", self.name, exc_info=True)
            value = saltext.query.kinds.MISSING_UNAVAIL
        return saltext.query.kinds.make_cell(self._check, value)

    def definition(self):
        """
        Return what clients get to know.
        """
        return {
            "name": self.name,
            "title": self.title,
            "kind": self.kind,
            "doc": self.doc,
        }


class UnknownField:
    """
    Stands in for a field that is asked for and does not exist: it keeps its column.
    """

    kind = "unknown"
    needs = ()

    def __init__(self, name):
        self.name = name

    @staticmethod
    def sources():
        """
        Return an empty set.
        """
        return set()

    @staticmethod
    def cell(_item):
        """
        Return the cell of any item.
        """
        return saltext.query.kinds.UNKNOWN_CELL

    def definition(self):
        """
        Return what clients get to know: that there is no such field.
        """
        return {"name": self.name, "title": None, "kind": "unknown", "doc": None}


def alias(name, field):
    """
    Return a field that is another name of ``field``.
    """
    return Field(
        name,
        field.title,
        field.kind,
        field.doc,
        field.get,
        needs=field.needs,
        host=field.host,
        cost=field.cost,
        alias_of=field.name,
    )


def table(*fields):
    """
    Return a dictionary of fields by name.

    :raises ValueError: if a definition breaks the rules for names, titles, kinds or
        docs, or two fields of one type have the same name or title
    """
    ret = {}
    titles = {}
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise ValueError(f"{field.name!r} is not a name for a field")
        if field.name in ret:
            raise ValueError(f"two fields have the name {field.name!r}")
        if not _TITLE.fullmatch(field.title):
            raise ValueError(f"{field.title!r} is not a title for a field")
        if not _DOC.fullmatch(field.doc):
            raise ValueError(f"the doc of {field.name!r} is not a line without its end")
        if field.alias_of is None:
            other = titles.setdefault(field.title.lower(), field.name)
            if other != field.name:
                raise ValueError(f"{field.name!r} and {other!r} have one title")
        ret[field.name] = field
    return ret
