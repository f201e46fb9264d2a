"""
What the modules that find locks share.
"""

import saltext.query.natural


def accepted(context):
    """
    Yield the ids of minions whose key is accepted.
    """
    for minion in sorted(context.keys, key=saltext.query.natural.key):
        if context.keys[minion] == "accepted":
            yield minion


def of_minion(minion, name, **more):
    """
    Return a lock that is on a minion.

    :param str minion: its id
    :param str name: what is locked
    """
    return {"object": name, "node": minion, "owner": [minion], **more}
