"""
What a field is: its definition, which clients get, and how to get its value.
"""

import logging
import re

import saltext.query.kinds
from saltext.query.errors import QueryError, QueryStoreError

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
    :param bool span: whether its values are seconds, for which people write ``7d``

    :cvar bool loose: whether its kind is known of its values only
    """

    loose = False

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
        "span",
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
        span=False,
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
        self.span = span
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
        except (QueryError, QueryStoreError):
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
    loose = False

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


class Known:
    """
    The fields that a request may name.

    :param dict fields: those that all know, by name
    :param callable dynamic: finds others, see :class:`saltext.query.item.ItemType`
    :param dict kinds: the kinds of the fields of this site, by name
    """

    def __init__(self, fields, dynamic=None, kinds=None):
        self.fields = fields
        self._dynamic = dynamic
        self._kinds = kinds or {}
        self._made = {}

    @property
    def first(self):
        """
        The name of the field that is the items' name.
        """
        return next(iter(self.fields))

    def find(self, name):
        """
        Return the field of a name, or None.
        """
        try:
            ret = self.fields.get(name) or self._made.get(name)
        except TypeError:
            return None
        if ret is None and self._dynamic is not None and isinstance(name, str):
            ret = self._dynamic(name, self._kinds)
            if ret is not None:
                self._made[name] = ret
        return ret


def known(fields):
    """
    Return the fields that a request may name.

    :param fields: fields by name, or what this has returned before
    """
    return fields if isinstance(fields, Known) else Known(fields)


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
        span=field.span,
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
            raise ValueError(
                f"the doc of {field.name!r} is not one line that begins with a capital and"
                " has no full stop at its end"
            )
        if field.alias_of is None:
            other = titles.setdefault(field.title.lower(), field.name)
            if other != field.name:
                raise ValueError(f"{field.name!r} and {other!r} have one title")
        ret[field.name] = field
    return ret
