"""What a field is: its definition, which clients get, and how to get its value."""

import copy
import dataclasses
import difflib
import logging
import re
import typing

from saltext.query import kinds
from saltext.query.errors import QueryError, QueryStoreError
from saltext.query.kinds import NORMAL, Missing

log = logging.getLogger(__name__)

_UNKNOWN = Missing(kinds.UNKNOWN)
_RULES = {
    "name": re.compile(r"[a-z0-9/._]+"),
    "title": re.compile(r"\S+"),
    # one line that begins with a capital and has no full stop at its end
    "doc": re.compile(r"[A-Z].*[^.,?!\s]"),
}


@dataclasses.dataclass(eq=False)
class Field:
    """One field of an item type.

    :param str name: letters ``a-z``, digits, ``/``, ``.`` and ``_``
    :param str title: what to print above its column, without whitespace
    :param str kind: one of :data:`saltext.query.kinds.KINDS`
    :param str doc: one line that starts with a capital and ends without punctuation
    :param callable get: takes an item and returns its value, None if there is none for
        it, or one of the ``MISSING_`` constants of :mod:`saltext.query.kinds`
    :param needs: the data it reads, each ``source`` or ``source:key``
    :param bool host: whether its values are names of hosts, which compare by whole
        leading components
    :param bool span: whether its values are seconds, for which people write ``7d``
    :param callable manager: takes an item and returns the package manager whose order of
        versions its values have

    :cvar bool loose: whether its kind is known of its values only
    :ivar bool asks: whether it asks minions
    :ivar str alias_of: the name of the field that it is another name of, or None
    """

    loose = False

    name: str
    title: str
    kind: str
    doc: str
    get: typing.Callable
    needs: tuple = ()
    host: bool = False
    span: bool = False
    manager: typing.Callable = None

    def __post_init__(self):
        self.needs = tuple(self.needs)
        self.asks = any(need.startswith("live:") for need in self.needs)
        self.alias_of = None
        self._check = kinds.KINDS[self.kind]

    def cell(self, item):
        """Return the cell of an item. Minions may send anything: what is not of the
        field's kind is not passed on, and an error costs a cell, not the whole answer.
        """
        try:
            value = self.get(item)
        except (QueryError, QueryStoreError):
            raise
        except Exception:  # pylint: disable=broad-except
            log.debug("Could not get the field %s", self.name, exc_info=True)
            value = None
        if value.__class__ is Missing:
            return value.cell
        if value is not None and self._check(value):
            return (NORMAL, value)
        if kinds.is_large(value):
            item.context.too_large.add((id(item), self.name))
        return kinds.MISSING_UNAVAIL.cell

    def definition(self):
        """Return what clients get to know."""
        return {one: getattr(self, one) for one in ("name", "title", "kind", "doc")}


class Known:
    """The fields that a request may name.

    :param dict fields: those that all know, by name
    :param callable dynamic: finds others, see :class:`saltext.query.item.ItemType`
    :param dict site_kinds: the kinds of the fields of this site, by name

    :ivar str first: the name of the field that is the items' name
    """

    def __init__(self, fields, dynamic=None, site_kinds=None):
        self.fields = fields
        self.first = next(iter(fields), None)
        self._dynamic = dynamic
        self._site_kinds = site_kinds or {}
        self._made = {}

    def get(self, name, purpose):
        """Return the field of a name.

        :param str purpose: what it is wanted for, as the start of a sentence
        :raises QueryError: if there is none
        """
        ret = self.find(name)
        if ret is None:
            raise QueryError(
                f"{purpose} by a field that exists, not by {name!r:.80};"
                f" {self.suggestion(name)}"
            )
        return ret

    def suggestion(self, name):
        """Return a question for a name that is misspelt, or where the names are."""
        rest = str(name)[:80].partition(".")[2]
        known = [(field, field.alias_of or name) for name, field in self.fields.items()]
        titles = {field.title.lower(): name for field, name in known}
        names = {field.name: name for field, name in known}
        if rest and self._dynamic is not None:
            # any key is a field, but not of anything
            names.update((f"{start}.{rest}",) * 2 for start in kinds.BANKS)
        given = str(name).lower()
        last = given.rpartition("_")[2]  # "seen" of last_seen
        found = names.get(last) or titles.get(last) or names.get(similar(given, names))
        otherwise = "--list-fields shows those that there are"
        return f"did you mean {found!r}?" if found else otherwise

    def column(self, name):
        """Return the field of a name; if there is none, one that keeps its column."""
        return self.find(name) or Field(
            name, None, "unknown", None, lambda _item: _UNKNOWN
        )

    def find(self, name):
        """Return the field of a name, or None."""
        if not isinstance(name, str):
            return None
        ret = self.fields.get(name) or self._made.get(name)
        if ret is None and self._dynamic is not None:
            ret = self._dynamic(name, self._site_kinds)
            if ret is not None:
                self._made[name] = ret
        return ret


def similar(name, names):
    """Return the most similar name, or None if there is none."""
    # what is looked at grows with the square of a name
    found = difflib.get_close_matches(name[:60], names, 1)
    return found[0] if found else None


def alias(name, field):
    """Return a field that is another name of ``field``."""
    ret = copy.copy(field)
    ret.name = name
    ret.alias_of = field.name
    return ret


def read(text, items, getters, needs=None, **more):
    """Return the fields that a table defines. Each line is a field: its name and others
    of it, its title, its kind, the data it needs (with commas, or a minus), and its doc.

    :param items: the class of the items, whose methods with the names of fields return their
        values
    :param dict getters: for other fields, functions that take an item and return a value, by
        the name of the field; and by the source of its first need, with a colon, functions
        that take the key of that need and return such a function. ``-:`` takes the field's
        name.
    :param dict needs: what a source stands for: needs, or a function that takes the key and
        returns them
    :param more: for names of fields, further arguments of :class:`Field`
    """
    ret = []
    for line in text.strip().splitlines():
        names, title, kind, wanted, doc = line.split(None, 4)
        name, *others = names.split(",")
        source, _, key = wanted.partition(",")[0].partition(":")
        get = getters.get(name) or getattr(items, name, None)
        if not callable(get):
            get = getters[f"{source}:"](name if wanted == "-" else key)
        wanted = [] if wanted == "-" else wanted.split(",")
        if needs and source in needs:
            wanted = needs[source](key) if callable(needs[source]) else needs[source]
        found = Field(name, title, kind, doc, get, wanted, **more.get(name, {}))
        ret += [found, *[alias(one, found) for one in others]]
    return ret


def table(*fields):
    """Return a dictionary of fields by name.

    :raises ValueError: if a definition breaks the rules for names, titles or docs, or two
        fields of one type have the same name or title
    """
    ret = {}
    titles = {}
    for field in fields:
        for what, rule in _RULES.items():
            if not rule.fullmatch(getattr(field, what)):
                raise ValueError(
                    f"{getattr(field, what)!r} is no {what} of a field: {rule.pattern}"
                )
        if field.name in ret:
            raise ValueError(f"two fields have the name {field.name!r}")
        if field.alias_of is None:
            other = titles.setdefault(field.title.lower(), field.name)
            if other != field.name:
                raise ValueError(f"{field.name!r} and {other!r} have one title")
        ret[field.name] = field
    return ret
