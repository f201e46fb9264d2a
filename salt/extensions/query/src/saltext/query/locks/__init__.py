"""What the modules that find locks share."""


def of_minion(minion, name, **more):
    """Return a lock on something of a minion."""
    return {"object": name, "node": minion, "owner": [minion], **more}


def grains(context, name):
    """Yield each accepted minion that has a grain, the grain, and when it told that."""
    context.want([f"grains:{name}"])
    for minion in context.accepted():
        found = (context.read("grains", minion) or {}).get(name)
        if found is not None:
            yield minion, found, context.documents.updated("grains", minion)
