"""What the modules that find locks share."""


def of_minion(minion, name, **more):
    """Return a lock on something of a minion."""
    return {"object": name, "node": minion, "owner": [minion], **more}
