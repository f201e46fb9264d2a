"""Items and their types."""

import dataclasses
import typing

from saltext.query import compare, field
from saltext.query.kinds import MISSING_NODATA, MISSING_PENDING, MISSING_UNAVAIL


class Item:
    """One thing that is asked about, of which what is asked for is read once.

    :ivar str minion: the id of the minion to ask about it, or None
    """

    __slots__ = ("_documents", "context", "minion", "name")

    def __init__(self, context, name, minion=None):
        self.context = context
        self.name = name
        self.minion = minion
        self._documents = {}

    def key(self):
        """Return texts that tell it from all others, of which the first is its name."""
        return [self.name, self.minion or ""]

    def document(self, bank, key):
        """Return what the query needs of a document, or None if there is none."""
        try:
            return self._documents[bank, key]
        except KeyError:
            ret = self._documents[bank, key] = self.context.read(bank, key)
            return ret

    def live(self, key):
        """Return what the item's minion has answered, or why there is no answer."""
        live = self.context.live
        if live is None:
            return MISSING_PENDING
        return live.answers.get((self.minion, key), MISSING_NODATA)


@dataclasses.dataclass
class ItemType:
    """A type of items.

    :param str name: what a request calls it
    :param str doc: one line about it
    :param list fields: its fields; the first one is the items' name
    :param callable items: takes a context and the names that are wanted, or None for
        all, and yields items in natural order of their names. It may leave out those that are
        not wanted
    :param usual: the names of the fields to show if none are asked for; by default the
        first five
    :param usual_sort: what people want to see first if they don't say it
    :param int usual_limit: how many people want to see if they don't say it
    :param usual_filter: what people want to see if they don't say it, as a filter
    :param callable dynamic: takes the name of a field and the kinds of the site, and
        returns a field or None
    """

    name: str
    doc: str
    fields: dict
    items: typing.Callable
    usual: list = ()
    usual_sort: str = None
    usual_limit: int = None
    usual_filter: list = None
    dynamic: typing.Callable = None

    def __post_init__(self):
        self.fields = field.table(*self.fields)
        self.usual = list(self.usual or list(self.fields)[:5])


def named(found, wanted=None):
    """Yield names: those that are wanted, or all, in natural order."""
    if wanted is not None:
        found = {name for name in wanted if name in found}
    yield from sorted(found, key=compare.text_key)


def grain(document, key):
    """Return a value of a document, or why there is none."""
    if document is None:
        return MISSING_NODATA
    value = document.get(key)
    return MISSING_UNAVAIL if value is None or value == "" else value


def address(document, number):
    """Return the first address of an interface in the grains of a minion, or why there
    is none. Loopback does not count; the others are in natural order.
    """
    value = grain(document, "ip4_interfaces")
    if not isinstance(value, dict):
        return value
    found = [value[one] for one in sorted(value, key=compare.text_key)]
    found = [str(one[0]) for one in found if one and isinstance(one, list)]
    found = [one for one in found if not one.startswith("127.")]
    return found[number] if number < len(found) else MISSING_UNAVAIL
