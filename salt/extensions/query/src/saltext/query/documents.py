"""The master's cache: of each document only what is asked for.

That takes documents as they are stored: with the driver ``localfs`` their files are read by
:mod:`saltext.query.files`, and with ``mmap_cache`` by :mod:`salt.utils.mmap_cache`. Any other
driver is asked through :mod:`salt.cache`.
"""

import functools
import importlib
import logging
import os

from saltext.query.files import Files, project

import salt.cache
import salt.utils.data
import salt.version
from salt.exceptions import SaltCacheError, SaltDeserializationError

log = logging.getLogger(__name__)

#: By which function virtual machines are in the mine.
VM_INFO = "virt.vm_info"

_FAILURES = (OSError, SaltCacheError, KeyError, ImportError)
# the drivers whose files are read directly
_DIRECT = ("localfs",)

# Before 3008 a minion has a bank of its own, and its grains are beside its pillar
BANK_FOR_EACH = salt.version.__saltstack_version__.info[0] < 3008
_PLACES = {
    "grains": ("data", "grains"),
    "pillar": ("data", "pillar"),
    "mine": ("mine", None),
}


class Documents:
    """The documents of the data cache, whichever its driver.

    :ivar Files files: the files that are read, which count those that are damaged
    """

    def __init__(self, opts):
        self.opts = opts
        self.driver = opts.get("cache", "localfs")
        self.files = Files(
            f"The master's cache can't be read: see what is wrong with {self.driver}"
        )
        # Salt's options take long to look into
        self._root = opts.get("cachedir")
        self._key_size = opts.get("mmap_cache_key_size", 64)
        self._banks = {}

    @functools.cached_property
    def cache(self):
        """The cache as everybody else uses it, which takes long to set up."""
        return salt.cache.Cache(self.opts, driver=self.driver)

    def _place(self, bank, key):
        """Return where this Salt keeps a document: bank and key, and under which key of
        what is there it is, or None; nothing if it may be the document of another key.
        """
        if key == ".." or "/" in key or "\\" in key or "\0" in key:
            return None
        if bank != "grains" and self._is_cut(key):
            # only grains have the minion's id in them
            return None
        if BANK_FOR_EACH and bank in _PLACES:
            name, inside = _PLACES[bank]
            return f"minions/{key}", name, inside
        return bank, key, None

    def _path(self, bank, key):
        return f"{self._root}/{bank}/{key}.p"

    def fetch(self, bank, key, wanted=None):
        """Return the wanted items of a document, or None if there is no such document
        or it is damaged.

        :param str bank: such as ``grains``
        :param str key: such as a minion's id
        :param wanted: the keys, as a set, or None for all
        :raises QueryStoreError: if the cache fails
        """
        place = self._place(bank, key)
        if place is None:
            return None
        try:
            return self._fetch(*place, wanted)
        except (ValueError, SaltDeserializationError) as exc:
            self.files.damaged(f"The document of {key} in the bank {bank}", exc)
            return None
        except _FAILURES as exc:
            raise self.files.failed(exc) from exc

    def _fetch(self, bank, key, inside, wanted):
        if self.driver in _DIRECT:
            return self.files.project(self._path(bank, key), wanted, inside)
        if self.driver == "mmap_cache":
            raw = self._mapped(bank).get(key)
            if raw in (None, True, b"\x80"):
                return None
            found = project(raw, None if wanted is None else wanted | {"id"})
            return self._own(bank, key, found, wanted)
        found = self.cache.fetch(bank, key)
        if isinstance(found, dict) and any(isinstance(one, bytes) for one in found):
            # where one value is no UTF-8, Salt's drivers give all of it as bytes
            found = salt.utils.data.decode(found, errors="replace")
        if inside is not None and isinstance(found, dict):
            found = found.get(inside)
        if not isinstance(found, dict) or not found:
            return None
        return self._own(bank, key, found, wanted)

    def _mapped(self, bank):
        """Return a reader of a bank of ``mmap_cache``: the driver unpacks all."""
        if bank not in self._banks:
            # Salt has it since 3008
            mapped = importlib.import_module("salt.utils.mmap_cache")
            self._banks[bank] = mapped.MmapCache(
                os.path.join(self._root, bank, ".mmap_cache.idx"),
                size=self.opts.get("mmap_cache_size", 1_000_000),
                slot_size=self.opts.get("mmap_cache_slot_size", 96),
                key_size=self._key_size,
            )
        return self._banks[bank]

    def _own(self, bank, key, found, wanted):
        """Return what is wanted of a document, or None if it is that of another key."""
        owner = found.get("id", None if self._is_cut(key) else key)
        if bank == "grains" and owner != key:
            log.debug("The cache has the document of another one for %s", key)
            return None
        if wanted is None:
            return found
        return {one: found[one] for one in wanted if one in found}

    def _is_cut(self, key):
        """Return whether a driver cuts a key, so that another one may be the same."""
        if self.driver != "mmap_cache":
            return False
        return len(key.encode("utf-8", "replace")) >= self._key_size

    def updated(self, bank, key):
        """Return when a document was written, in seconds since the epoch, or None."""
        place = self._place(bank, key)
        if place is None or (
            self._is_cut(key) and self.fetch(bank, key, set()) is None
        ):
            return None
        bank, key, _ = place
        try:
            if self.driver in _DIRECT:
                return int(os.stat(self._path(bank, key)).st_mtime)
            return self.cache.updated(bank, key)
        except FileNotFoundError:
            return None
        except _FAILURES as exc:
            raise self.files.failed(exc) from exc
