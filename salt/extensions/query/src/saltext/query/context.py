"""What the items of one query share: the master's options, the data that is asked for,
and what has been read once for all of them.
"""

import functools
import importlib

from saltext.query import compare, documents, filters, loader
from saltext.query.caller import Caller
from saltext.query.errors import of_site


class Context:
    """
    :param dict opts: the master's options
    :param needs: the data that the query's fields read, each ``source`` or
        ``source:key``
    :param float now: seconds since the epoch
    :param Caller caller: who asks; by default the user that the master runs as
    :param Target target: a target of Salt's, or None for all minions
    :param dict live: how minions are asked, see :mod:`saltext.query.live`

    :ivar dict wanted: for each source, the keys of its documents that are read
    :ivar Filter filter: the query's filter, for item types that can do with less of it
    :ivar Live live: what minions have answered, or None if they have not been asked
    :ivar list live_names: the names of the columns that ask minions

    ``absent`` and the counts are for what :func:`saltext.query.items` returns.
    """

    def __init__(self, opts, needs, now, caller=None, target=None, live=None):
        self.opts = opts
        self.caller = caller or Caller()
        self.target = target
        self.live_settings = live or {}
        self.now = now
        self.wanted = {}
        self.want(needs)
        self.documents = documents.Documents(opts)
        self.filter = filters.Filter(None, None)
        self.live = None
        self.live_names = []
        self.absent = []
        self.too_large = set()
        self.left_out = self.undecided = self.untold = 0
        self._sources = {}

    def want(self, needs):
        """Note data that is read, each ``source`` or ``source:key``."""
        for need in needs:
            source, _, key = need.partition(":")
            keys = self.wanted.setdefault(source, set())
            if key:
                keys.add(key)

    def read(self, bank, key):
        """Return what the query needs of a minion's document, or None."""
        return self.documents.fetch(bank, key, self.wanted.get(bank, set()))

    def accepted(self):
        """Return the ids of the minions whose key is accepted, in natural order."""
        found = [one for one, state in self.keys.items() if state == "accepted"]
        return sorted(found, key=compare.text_key)

    def source(self, name):
        """Return what a module of ``query_sources`` (see :mod:`saltext.query.loader`)
        makes for this query; it is made when it is asked for, and once.

        :param str name: the name of the module
        :raises QueryError: if there is no such module
        """
        if name not in self._sources:
            otherwise = (
                f"Add a module {name!r:.80} to query_sources: a type asks for it."
            )
            found = loader.found(self.opts, "query_sources", name, otherwise)
            with of_site(f"source {name}"):
                self._sources[name] = found(self)
        return self._sources[name]

    @functools.cached_property
    def keys(self):
        """The state of each minion's key."""
        return self.source("keys")

    def ask_live(self, items):
        """Ask the minions of these items for what the query needs of them."""
        minions = dict.fromkeys(item.minion for item in items)
        minions = [one for one in minions if self.keys.get(one) == "accepted"]
        # it imports half of Salt
        live = importlib.import_module("saltext.query.live")
        self.live = live.ask(self, minions, self.wanted.get("live", ()))
