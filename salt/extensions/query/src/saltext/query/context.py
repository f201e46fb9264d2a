"""
What the items of one query share: the master's options, the data that is asked for, and
what has been read once for all of them.
"""

import saltext.query.documents
import saltext.query.loader
from saltext.query.errors import QueryError


class Context:
    """
    :param dict opts: the master's options
    :param needs: the data that the query's fields read, each ``source`` or
        ``source:key``
    :param float now: seconds since the epoch
    :param Asked asked: who asks, or None for the user that the master runs as

    :ivar dict wanted: for each source, the keys of its documents that are read
    :ivar Filter filter: the query's filter, for item types that can do with less of it
    :ivar Asked asked: who asks, and how minions are asked
    :ivar Live live: what minions have answered, or None if they have not been asked
    :ivar list live_names: the names of the columns that ask minions
    :ivar list absent: names of items that were asked for and are not there
    """

    def __init__(self, opts, needs, now, asked=None):
        self.opts = opts
        self.asked = asked
        self.now = now
        self.wanted = {}
        for need in needs:
            source, _, key = need.partition(":")
            keys = self.wanted.setdefault(source, set())
            if key:
                keys.add(key)
        self.documents = saltext.query.documents.Documents(opts)
        self.live = None
        self.live_names = []
        self.absent = []
        self._sources = {}
        self.filter = None

    def read(self, bank, key, owner=None):
        """
        Return what the query needs of a document, or None.
        """
        return self.documents.fetch(bank, key, self.wanted.get(bank, set()), owner)

    def source(self, name):
        """
        Return what a module of ``query_sources`` (see :mod:`saltext.query.loader`) makes for this
        query; it is made when it is asked for, and once.

        :param str name: the name of the module
        :raises QueryError: if there is no such module
        """
        if name not in self._sources:
            loaded = saltext.query.loader.modules(self.opts, "query_sources")
            if f"{name}.source" not in loaded:
                told = saltext.query.loader.wrong(
                    self.opts, "query_sources", name, "source"
                )
                raise QueryError(
                    f"{told}; an item type asks for it."
                    if told
                    else f"Add a module {name!r:.80} to query_sources: an item type asks"
                    " for it."
                )
            self._sources[name] = loaded[f"{name}.source"](self)
        return self._sources[name]

    @property
    def keys(self):
        """
        The state of each minion's key.
        """
        return self.source("keys")

    def ask_live(self, items):
        """
        Ask the minions of these items for what the query needs of them.
        """
        minions = {}
        for item in items:
            minion = item.minion()
            if minion is not None and self.keys.get(minion) == "accepted":
                minions[minion] = None
        wanted = sorted(self.wanted.get("live", ()))
        self.live = self.source("live")(list(minions), wanted)
