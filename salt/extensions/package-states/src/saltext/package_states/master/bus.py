"""Events of the master's bus, for engines.

A minion may fire an event with any tag and any data: it is a hint to look, and ends no engine.
"""

import logging
import time

import salt.utils.event

log = logging.getLogger(__name__)

# how many characters the id of a minion may have, as its key is a file
LONGEST = 255
# how many ids of events an engine keeps until it has looked
HINTS = 100000
# seconds between two looks at the clock when no event comes
TICK = 0.5


def event(bus, wait):
    """Return the tag and the data of the next event, a text and a dictionary, or None"""
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


def serve(opts, event_came, tick):
    """Give the tag, the data and the time of events to an engine, and let it do what is due at a time,
    until the master ends
    """
    with salt.utils.event.get_master_event(opts, opts["sock_dir"], listen=True) as bus:
        looked = 0
        while True:
            found, now = event(bus, TICK), time.monotonic()
            if found:
                event_came(*found, now)
            if not found or now - looked >= TICK:
                tick(now)
                looked = time.monotonic()
