"""
Items and their types.
"""

import saltext.query.field
import saltext.query.natural
from saltext.query.kinds import MISSING_NODATA, MISSING_PENDING, MISSING_UNAVAIL


class Item:
    """
    One thing that is asked about. It reads what is asked for when it is asked for, and
    once.

    :param Context context: what it shares with the other items
    :param str name: its name
    """

    __slots__ = ("context", "name", "_documents")

    def __init__(self, context, name):
        self.context = context
        self.name = name
        self._documents = None

    def minion(self):
        """
        Return the id of the minion to ask about it, or None.
        """
        return None

    def document(self, bank, key, owner=None):
        """
        Return what the query needs of a document, or None if there is none.
        """
        if self._documents is None:
            self._documents = {}
        place = (bank, key)
        if place not in self._documents:
            self._documents[place] = self.context.read(bank, key, owner)
        return self._documents[place]

    def forget(self):
        """
        Forget what has been read of it; it is read again when it is asked for.
        """
        self._documents = None

    def grains(self, minion):
        """
        Return what the query needs of a minion's grains, or None if there are none.
        """
        return self.document("grains", minion, minion)

    def live(self, key):
        """
        Return what the item's minion has answered, or why there is no answer.
        """
        live = self.context.live
        if live is None:
            return MISSING_PENDING
        return live.of_minion(self.minion(), key)


class ItemType:
    """
    A type of items.

    :param str name: what a request calls it
    :param str doc: one line about it
    :param list fields: its fields; the first one is the items' name
    :param callable items: takes a context and the names that are wanted, or None for
        all, and yields items; in the order of the names, or in natural order. It adds
        names that nothing has to ``context.absent``
    :param usual: the names of the fields to show if none are asked for; by default the
        first five
    :param usual_sort: what people want to see first if they don't say it
    :param int usual_limit: how many people want to see if they don't say it
    :param callable dynamic: takes the name of a field and the kinds of the site, and
        returns a field or None
    """

    def __init__(
        self,
        name,
        doc,
        fields,
        items,
        usual=None,
        usual_sort=None,
        usual_limit=None,
        dynamic=None,
    ):
        self.name = name
        self.doc = doc
        self.fields = saltext.query.field.table(*fields)
        self.items = items
        self.usual = list(usual or list(self.fields)[:5])
        self.usual_sort = usual_sort
        self.usual_limit = usual_limit
        self.dynamic = dynamic


def named(found, wanted, absent=None):
    """
    Yield those of the items that are wanted, each once and in the order in which they
    are, or all in natural order.

    :param dict found: items by name, or anything by name
    :param wanted: names, or None
    :param list absent: gets the names that nothing has
    """
    if wanted is None:
        yield from sorted(found, key=saltext.query.natural.key)
        return
    for name in dict.fromkeys(wanted):
        if name in found:
            yield name
        elif absent is not None:
            absent.append(name)


def several(found, wanted, absent=None):
    """
    Yield those of the items that are wanted, where several may have one name: each in
    the order of the names, and of the items for each of them.

    :param list found: items
    :param wanted: names
    :param list absent: gets the names that nothing has
    """
    by_name = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    for name in dict.fromkeys(wanted):
        if name not in by_name and absent is not None:
            absent.append(name)
        yield from by_name.get(name, ())


def hosts(found, wanted, absent=None):
    """
    Do the same for names of hosts, which need not be whole.
    """
    if wanted is None:
        yield from sorted(found, key=saltext.query.natural.key)
        return
    matched = {}
    chosen = saltext.query.natural.HostSet(wanted)
    for name in chosen.candidates(found):
        for one in chosen.match(name):
            matched.setdefault(one, []).append(name)
    seen = set()
    for one in wanted:
        if one.lower() not in matched and absent is not None:
            absent.append(one)
        for name in sorted(matched.get(one.lower(), ()), key=saltext.query.natural.key):
            if name not in seen:
                seen.add(name)
                yield name


def grain(document, key):
    """
    Return a value of a document, or why there is none.
    """
    if document is None:
        return MISSING_NODATA
    value = document.get(key)
    return MISSING_UNAVAIL if value is None or value == "" else value


def interfaces(document):
    """
    Return the first address of each interface but loopback, in the interfaces' natural
    order, or why there are none.

    :param document: grains with ``ip4_interfaces``, or None
    """
    value = grain(document, "ip4_interfaces")
    if not isinstance(value, dict):
        return value
    ret = []
    for name in sorted(value, key=lambda one: saltext.query.natural.key(str(one))):
        found = value[name]
        if not isinstance(found, list) or not found:
            continue
        if not str(found[0]).startswith("127."):
            ret.append(found[0])
    return ret
