"""
What minions have answered a moment ago, for the next page and the next call.
"""

import logging

from saltext.query.kinds import MISSING_OFFLINE, MISSING_UNAVAIL, Missing

from salt.exceptions import SaltCacheError

log = logging.getLogger(__name__)

BANK = "query"
KEY = "live"

#: How what is missing is stored, beside values.
_MISSING = {"offline": MISSING_OFFLINE, "unavailable": MISSING_UNAVAIL}


class LiveCache:
    """
    :param cache: the master's cache
    :param float seconds: for how long answers are used again
    :param float now: seconds since the epoch
    """

    def __init__(self, cache, seconds, now):
        self.cache = cache
        self.seconds = seconds
        self.now = now
        self._known = self._fetch() if seconds else {}

    def _fetch(self):
        try:
            found = self.cache.fetch(BANK, KEY)
        except (OSError, SaltCacheError) as exc:
            log.warning("Could not read what minions have answered before: %s", exc)
            return {}
        return found if isinstance(found, dict) else {}

    def of_minion(self, minion, key):
        """
        Return when a minion has answered and what, or None if it has not of late.
        """
        try:
            then, missing, value = self._known[key][minion]
            if not self.now - self.seconds <= then <= self.now:
                return None
            return then, _MISSING[missing] if missing else value
        except (KeyError, TypeError, ValueError):
            return None

    def store(self, answers):
        """
        Keep answers, and forget those that are too old.

        :param answers: tuples of a minion's id, a key, and a value or why there is none
        """
        if not self.seconds:
            return
        known = {}
        # another query may have asked meanwhile
        for key, minions in self._fetch().items():
            if isinstance(minions, dict):
                known[key] = {
                    minion: found
                    for minion, found in minions.items()
                    if isinstance(found, (list, tuple))
                    and found
                    and found[0] >= self.now - self.seconds
                }
        names = {missing: name for name, missing in _MISSING.items()}
        for minion, key, value in answers:
            found = (
                (self.now, names[value], None)
                if isinstance(value, Missing)
                else (self.now, "", value)
            )
            known.setdefault(key, {})[minion] = found
        try:
            self.cache.store(BANK, KEY, known)
        except (OSError, SaltCacheError) as exc:
            log.warning("Could not keep what minions have answered: %s", exc)
