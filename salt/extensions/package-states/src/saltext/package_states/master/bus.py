"""
Events of the master's bus, for engines.

A minion may fire an event with any tag and any data, also what is no text. An event is a hint
to look for oneself, and nothing on the bus ends an engine.
"""

import logging

log = logging.getLogger(__name__)

# how many characters the id of a minion may have, as its key is a file
LONGEST = 255
# how many ids of events an engine keeps until it has looked
HINTS = 100000


def event(bus, wait):
    """
    Return the tag and the data of the next event, a text and a dictionary, or None

    :param SaltEvent bus: the bus
    :param float wait: the seconds for which to wait
    """
    try:
        found = bus.get_event(wait=wait, full=True, auto_reconnect=True)
    except ValueError as exc:
        # Salt takes each tag for text
        log.debug("An event can't be read: %s", exc)
        return None
    if not found or not isinstance(found.get("tag"), str):
        return None
    data = found.get("data")
    return found["tag"], data if isinstance(data, dict) else {}
