"""
What the items of one query share: the master's options, the data that is asked for, and
what has been read once for all of them.
"""

import functools

import salt.query.documents
import salt.query.instances
import salt.query.jobs
import salt.query.keys
import salt.query.live
import salt.query.presence
import salt.query.queue


class Context:
    """
    :param dict opts: the master's options
    :param needs: the data that the query's fields read, each ``source`` or
        ``source:key``
    :param float now: seconds since the epoch

    :ivar dict wanted: for each source, the keys of its documents that are read
    :ivar Filter filter: the query's filter, for item types that can do with less of it
    :ivar Live live: what minions have answered, or None if they have not been asked
    """

    def __init__(self, opts, needs, now):
        self.opts = opts
        self.now = now
        self.wanted = {}
        for need in needs:
            source, _, key = need.partition(":")
            keys = self.wanted.setdefault(source, set())
            if key:
                keys.add(key)
        self.documents = salt.query.documents.Documents(opts)
        self.live = None
        self.filter = None

    def read(self, bank, key, owner=None):
        """
        Return what the query needs of a document, or None.
        """
        return self.documents.fetch(bank, key, self.wanted.get(bank, set()), owner)

    @functools.cached_property
    def keys(self):
        """
        The state of each minion's key.
        """
        return salt.query.keys.states(self.opts)

    @functools.cached_property
    def addresses(self):
        """
        The addresses that are connected to the master, or None if that can't be told.
        """
        return salt.query.presence.addresses(self.opts)

    @functools.cached_property
    def jobs(self):
        """
        Where jobs are kept.
        """
        return salt.query.jobs.source(self.opts)

    @functools.cached_property
    def queue(self):
        """
        What the job handler says.
        """
        return salt.query.queue.Queue(self.opts)

    @functools.cached_property
    def instances(self):
        """
        The instances that minions manage.
        """
        return salt.query.instances.Instances(self)

    def ask_live(self, items):
        """
        Ask the minions of these items for what the query needs of them.
        """
        minions = {}
        for item in items:
            minion = item.minion()
            if minion is not None and self.keys.get(minion) == "accepted":
                minions[minion] = None
        self.live = salt.query.live.ask(
            self.opts, list(minions), sorted(self.wanted.get("live", ()))
        )
