"""
Reading the master's cache: of each document only what is asked for.

A minion's grains have ten kilobytes, of which a query needs a few values. What is not
needed is skipped where it lies, so that no object is ever made of it. That takes files: with
the driver ``localfs`` they are read directly, and 16 fields of 10,000 nodes take 0.3 seconds
of processor time in place of 1.4. Any other driver is asked through :mod:`salt.cache`.
"""

import logging
import os

import msgpack
from saltext.query.errors import QueryStoreError

import salt.cache
import salt.utils.data
import salt.version
from salt.exceptions import SaltCacheError, SaltDeserializationError

log = logging.getLogger(__name__)

#: By which function virtual machines are in the mine.
VM_INFO = "virt.vm_info"

_CHUNK = 65536
# Windows has neither the flag nor the need
_CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_ENVELOPE = {"data", "_expires"}

# Before 3008 a minion has a bank of its own, and its grains are beside its pillar
BANK_FOR_EACH = salt.version.__saltstack_version__.info[0] < 3008
_PLACES = {
    "grains": ("data", "grains"),
    "pillar": ("data", "pillar"),
    "mine": ("mine", None),
}


def _ext_hook(_code, data):
    return data.decode("utf-8", "replace")


def unpack(packed):
    """
    Return what is packed.

    :raises ValueError: if it is broken
    """
    try:
        return msgpack.unpackb(
            packed,
            raw=False,
            unicode_errors="replace",
            strict_map_key=False,
            ext_hook=_ext_hook,
        )
    except (msgpack.exceptions.UnpackException, TypeError, RecursionError) as exc:
        raise ValueError(f"not to be unpacked: {exc}") from exc


def project(packed, wanted, inside=None):
    """
    Return the wanted items of a mapping.

    :param bytes packed: the mapping, packed with msgpack
    :param wanted: the keys, as a set
    :param str inside: the mapping that is meant is the value of this key; nothing else is
        read then
    :raises ValueError: if it is no mapping, or broken
    """
    unpacker = msgpack.Unpacker(
        raw=False,
        unicode_errors="replace",
        strict_map_key=False,
        ext_hook=_ext_hook,
        max_buffer_size=0,
    )
    unpacker.feed(packed)
    ret = {}
    try:
        if inside is not None and not _enter(unpacker, inside):
            return ret
        for _ in range(unpacker.read_map_header()):
            key = unpacker.unpack()
            if key in wanted:
                ret[key] = unpacker.unpack()
            else:
                unpacker.skip()
    except (msgpack.exceptions.UnpackException, TypeError, RecursionError) as exc:
        raise ValueError(f"no mapping: {exc}") from exc
    return ret


def _enter(unpacker, name):
    """
    Go to the value of a key, and return whether there is one.
    """
    for _ in range(unpacker.read_map_header()):
        if unpacker.unpack() == name:
            return True
        unpacker.skip()
    return False


def read_file(path):
    """
    Return the content of a file. With a file object, which asks for the size and looks
    for the end, this takes twice as long, and it is most of what a query does.
    """
    handle = os.open(path, os.O_RDONLY | _CLOEXEC)
    try:
        parts = [os.read(handle, _CHUNK)]
        while len(parts[-1]) == _CHUNK:
            parts.append(os.read(handle, _CHUNK))
    finally:
        os.close(handle)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _is_name(key):
    return "/" not in key and "\\" not in key and "\0" not in key and key != ".."


def _decoded(found):
    """
    Return a document with text in it: where one value of it is no UTF-8, Salt's drivers
    give all of it as bytes.
    """
    if isinstance(found, dict) and any(isinstance(key, bytes) for key in found):
        return salt.utils.data.decode(found, errors="replace")
    return found


class Documents:
    """
    The documents of the data cache, whichever its driver.

    :param dict opts: the master's options

    :ivar int broken: how many documents could not be read, as they are damaged
    """

    def __init__(self, opts):
        self.opts = opts
        self.broken = 0
        self.driver = opts.get("cache", "localfs")
        self._cache = None

    @property
    def cache(self):
        """
        The cache as everybody else uses it. Setting it up takes longer than reading a
        few files, so it is done only for drivers other than that of the file system.
        """
        if self._cache is None:
            self._cache = salt.cache.Cache(self.opts, driver=self.driver)
        return self._cache

    @property
    def is_local(self):
        """
        Whether the documents are files that can be read without the driver.
        """
        return self.driver == "localfs"

    @staticmethod
    def _place(bank, key):
        """
        Return where this Salt keeps a document: bank and key, and under which key of what
        is there it is, or None.
        """
        if BANK_FOR_EACH and bank in _PLACES:
            name, inside = _PLACES[bank]
            return f"minions/{key}", name, inside
        return bank, key, None

    def _path(self, bank, key):
        return f"{self.opts['cachedir']}/{bank}/{key}.p"

    def fetch(self, bank, key, wanted, owner=None):
        """
        Return the wanted items of a document, or None if there is no such document or
        it is damaged.

        :param str bank: such as ``grains``
        :param str key: such as a minion's id
        :param wanted: the keys, as a set
        :param str owner: the value that the document's ``id`` must have, if it has one:
            a driver that cuts keys gives one minion the document of another
        :raises QueryStoreError: if the cache fails
        """
        if not _is_name(key):
            return None
        place = self._place(bank, key)
        try:
            if self.is_local:
                ret = self._fetch_file(*place, wanted)
            else:
                ret = self._fetch(*place, wanted, owner)
        except ValueError as exc:
            log.warning("%s of %s is damaged in the cache: %s", bank, key, exc)
            self.broken += 1
            return None
        except SaltDeserializationError as exc:
            log.warning("%s of %s is damaged in the cache: %s", bank, key, exc)
            self.broken += 1
            return None
        except (OSError, SaltCacheError, KeyError) as exc:
            raise self._failed(exc) from exc
        return ret

    def _failed(self, exc):
        return QueryStoreError(
            f"The master's cache can't be read: see what is wrong with {self.driver}"
            f" ({exc})."
        )

    def whole(self, bank, key):
        """
        Return a whole document, or None if there is none or it is damaged.

        :raises QueryStoreError: if the cache fails
        """
        if not _is_name(key):
            return None
        bank, key, inside = self._place(bank, key)
        try:
            found = _decoded(self.cache.fetch(bank, key))
        except (SaltDeserializationError, ValueError):
            return None
        except (OSError, SaltCacheError, KeyError) as exc:
            raise self._failed(exc) from exc
        if inside is not None and isinstance(found, dict):
            found = found.get(inside)
        return found if isinstance(found, dict) else None

    def _fetch_file(self, bank, key, inside, wanted):
        try:
            packed = read_file(self._path(bank, key))
        except FileNotFoundError:
            return None
        if inside is not None:
            return project(packed, wanted, inside)
        ret = project(packed, wanted | _ENVELOPE)
        if ret.keys() == _ENVELOPE and not _ENVELOPE & wanted:
            # somebody has set an expiry
            return self._fetch(bank, key, None, wanted, None)
        return ret

    def _fetch(self, bank, key, inside, wanted, owner):
        found = _decoded(self.cache.fetch(bank, key))
        if inside is not None and isinstance(found, dict):
            found = found.get(inside)
        if not isinstance(found, dict) or not found:
            return None
        if owner is not None and found.get("id", owner) != owner:
            log.debug("The cache has the document of another one for %s", key)
            return None
        return {one: found[one] for one in wanted if one in found}

    def updated(self, bank, key):
        """
        Return when a document was written, in seconds since the epoch, or None.
        """
        if not _is_name(key):
            return None
        bank, key, _ = self._place(bank, key)
        try:
            if self.is_local:
                return int(os.stat(self._path(bank, key)).st_mtime)
            return self.cache.updated(bank, key)
        except FileNotFoundError:
            return None
        except (OSError, SaltCacheError, KeyError) as exc:
            raise self._failed(exc) from exc
