"""Which minions are connected, as far as the master can tell without asking them.

A minion counts as connected if one of the addresses in its grains, which no other minion
has, is connected to the master's publish port. One whose address is not connected may be behind
another one: that of a router, which may be a minion itself, or the loopback. So it is surely not
connected only if nothing is. The field ``alive`` asks the minions.
"""

import collections
import functools

from saltext.query.kinds import MISSING_NODATA

import salt.utils.network


def source(context):
    return Presence(context)


class Presence:
    """Which minions are connected."""

    def __init__(self, context):
        self.context = context
        opts = context.opts
        self.is_kept = opts.get("minion_data_cache", True)
        port = int(opts["publish_port"])
        self.addresses = set(salt.utils.network.local_port_tcp(port))
        if opts.get("detect_remote_minions"):
            port = opts["remote_minions_port"]
            self.addresses |= salt.utils.network.remote_port_tcp(port)
        # behind the loopback may be any minion on this machine
        self.told = self.addresses - {"127.0.0.1", "::1"}

    @functools.cached_property
    def _owners(self):
        """How many minions have each address that is connected."""
        ret = collections.Counter()
        for minion in self.context.accepted():
            grains = self.context.documents.fetch("grains", minion, {"ipv4", "ipv6"})
            ret.update(self.told.intersection(_own(grains)))
        return ret

    def is_connected(self, grains):
        """Return whether the minion with these grains is connected, if known."""
        # where the master keeps no grains, those that there are may be old
        own = _own(grains) if self.is_kept else set()
        if not self.addresses:
            return False if own else MISSING_NODATA
        found = self.told.intersection(own)
        return any(self._owners[one] == 1 for one in found) or MISSING_NODATA


def _own(grains):
    values = [(grains or {}).get(name) for name in ("ipv4", "ipv6")]
    values = [one for value in values if isinstance(value, list) for one in value]
    return {one for one in values if isinstance(one, str)}
