"""
Which minions are connected, as far as the master can tell without asking them.

A minion counts as connected if one of the addresses in its grains is connected to the
master's publish port, as in ``salt-run manage.present``. Minions behind one address
can't be told apart this way; the field ``alive`` asks them.

One whose address is not connected may be behind another one: that of a router, or the
loopback. It is surely not connected only if each address that is connected is known to be
that of some minion.
"""

import functools

import salt.utils.network


def source(context):
    """
    Return what tells who is connected.
    """
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
    if "127.0.0.1" in ret:
        ret.discard("127.0.0.1")
        ret.update(salt.utils.network.ip_addrs(include_loopback=False))
    if "::1" in ret:
        ret.discard("::1")
        ret.update(salt.utils.network.ip_addrs6(include_loopback=False))
    return ret


class Presence:
    """
    :param Context context: the context of the query
    """

    def __init__(self, context):
        self.context = context
        self.addresses = addresses(context.opts)

    @functools.cached_property
    def _all_are_known(self):
        """
        Whether each address that is connected is that of a minion.
        """
        left = set(self.addresses)
        for minion, state in self.context.keys.items():
            if not left:
                break
            if state == "accepted":
                grains = self.context.documents.fetch(
                    "grains", minion, {"ipv4", "ipv6"}, minion
                )
                left.difference_update(_own(grains))
        return not left

    def is_connected(self, grains):
        """
        Return whether a minion is connected, or None if that can't be told.

        :param grains: ``ipv4`` and ``ipv6`` of the minion, or None
        """
        if self.addresses is None or not grains:
            return None
        own = _own(grains)
        if not own:
            return None
        if not self.addresses.isdisjoint(own):
            return True
        return False if self._all_are_known else None


def _own(grains):
    ret = []
    for name in ("ipv4", "ipv6"):
        values = (grains or {}).get(name)
        if isinstance(values, list):
            ret += [value for value in values if isinstance(value, str)]
    return ret
