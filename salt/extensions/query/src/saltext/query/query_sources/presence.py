"""
Which minions are connected, as far as the master can tell without asking them.

A minion counts as connected if one of the addresses in its grains is connected to the
master's publish port, as in ``salt-run manage.present``. Minions behind one address
can't be told apart this way; the field ``alive`` asks them.
"""

import salt.utils.network


def source(context):
    """
    Return what tells who is connected.
    """
    return Presence(context.opts)


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
    :param dict opts: the master's options
    """

    def __init__(self, opts):
        self.addresses = addresses(opts)

    def is_connected(self, grains):
        """
        Return whether a minion is connected, or None if that can't be told.

        :param grains: ``ipv4`` and ``ipv6`` of the minion, or None
        """
        if self.addresses is None or not grains:
            return None
        own = []
        for name in ("ipv4", "ipv6"):
            values = grains.get(name)
            if isinstance(values, list):
                own += [value for value in values if isinstance(value, str)]
        return not self.addresses.isdisjoint(own) if own else None
