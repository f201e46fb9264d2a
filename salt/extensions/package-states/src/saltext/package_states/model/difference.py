"""
What two lists of items differ in
"""


def between(old, new):
    """
    Return the differences of two lists of items, by package

    :return: a dictionary of ``name`` to ``{"old": ..., "new": ...}``; each is what
        is wanted as text, or None
    """
    old = {item.key: item for item in old}
    new = {item.key: item for item in new}
    return {
        key: {"old": show(old.get(key)), "new": show(new.get(key))}
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    }


def show(item):
    """
    Return what is wanted of a package as text, or None without an item

    :param Item item: an item or None
    """
    if item is None:
        return None
    words = [item.wanted, item.version, f"(from {item.floor} on)" if item.floor else ""]
    return " ".join(word for word in words if word)
