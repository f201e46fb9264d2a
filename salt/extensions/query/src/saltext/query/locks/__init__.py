"""
What the modules that find locks share.
"""


def accepted(context):
    """
    Yield the ids of minions whose key is accepted.
    """
    yield from context.accepted()


def of_minion(minion, name, **more):
    """
    Return a lock that is on a minion.

    :param str minion: its id
    :param str name: what is locked
    """
    return {"object": name, "node": minion, "owner": [minion], **more}
