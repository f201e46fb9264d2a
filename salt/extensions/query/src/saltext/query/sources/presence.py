"""
Which minions are connected, as far as the master can tell without asking them.

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


def addresses(opts):
    """
    Return the addresses that are connected to the publish port, or None if the master
    keeps no grains to compare them with.
    """
    if not opts.get("minion_data_cache", True):
        return None
    ret = set(salt.utils.network.local_port_tcp(int(opts["publish_port"])))
    if opts.get("detect_remote_minions"):
        ret |= salt.utils.network.remote_port_tcp(opts["remote_minions_port"])
    return ret


class Presence:
    """
    Which minions are connected.
    """

    def __init__(self, context):
        self.context = context
        self.addresses = addresses(context.opts)
        # behind the loopback may be any minion on this machine
        self.told = (self.addresses or set()) - {"127.0.0.1", "::1"}

    @functools.cached_property
    def _owners(self):
        """
        How many minions have each address that is connected.
        """
        ret = collections.Counter()
        for minion in self.context.accepted():
            grains = self.context.documents.fetch("grains", minion, {"ipv4", "ipv6"})
            ret.update(self.told.intersection(_own(grains)))
        return ret

    def is_connected(self, grains):
        """
        Return whether the minion with these addresses is connected, or that this can't be told.
        """
        own = _own(grains)
        if self.addresses is None or not (self.addresses or own):
            return MISSING_NODATA
        if not self.addresses:
            return False
        found = self.told.intersection(own)
        return any(self._owners[one] == 1 for one in found) or MISSING_NODATA


def _own(grains):
    values = [(grains or {}).get(name) for name in ("ipv4", "ipv6")]
    values = [one for value in values if isinstance(value, list) for one in value]
    return {one for one in values if isinstance(one, str)}
