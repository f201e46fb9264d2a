"""Files of Salt's own drivers, which are read directly where that pays: documents, jobs
and keys. Of a document only what is asked for is unpacked: the rest is skipped, and what
comes after the last of it is not looked at.
"""

import logging
import os

import msgpack
from saltext.query.errors import QueryStoreError

log = logging.getLogger(__name__)

#: A larger document is as good as damaged, in bytes.
MAX_DOCUMENT = 64 * 1024 * 1024

_CHUNK = 65536
# a named pipe does not keep the query waiting
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK

_READING = {
    "raw": False,
    "unicode_errors": "replace",
    "strict_map_key": False,
    "ext_hook": lambda _code, data: data.decode("utf-8", "replace"),
}


def unpack(packed):
    """Return what is packed.

    :raises ValueError: if it is broken
    """
    try:
        return msgpack.unpackb(packed, **_READING)
    except (msgpack.exceptions.UnpackException, TypeError, RecursionError) as exc:
        raise ValueError(f"not to be unpacked: {exc}") from exc


def project(packed, wanted=None, inside=None):
    """Return the wanted items of a mapping.

    :param bytes packed: the mapping, packed with msgpack
    :param wanted: the keys, as a set, or None for all
    :param str inside: the mapping that is meant is the value of this key; nothing else is
        read then
    :raises ValueError: if it is no mapping, or broken
    """
    unpacker = msgpack.Unpacker(max_buffer_size=0, **_READING)
    unpacker.feed(packed)
    ret = {}
    try:
        left = unpacker.read_map_header()
        while inside is not None and left:
            left -= 1
            if unpacker.unpack() == inside:
                inside, left = None, unpacker.read_map_header()
            else:
                unpacker.skip()
        if wanted is None:
            return {unpacker.unpack(): unpacker.unpack() for _ in range(left)}
        while left and len(ret) < len(wanted):
            left -= 1
            key = unpacker.unpack()
            if key in wanted:
                ret[key] = unpacker.unpack()
            else:
                unpacker.skip()
    except (msgpack.exceptions.UnpackException, TypeError, RecursionError) as exc:
        raise ValueError(f"no mapping: {exc}") from exc
    return ret


def read_file(path):
    """Return the content of a file. With a file object, which asks for the size and
    looks for the end, this takes twice as long, and it is most of what a query does.

    :raises ValueError: if it is no file, or too large
    """
    handle = os.open(path, _FLAGS)
    try:
        parts = [os.read(handle, _CHUNK)]
        while len(parts[-1]) == _CHUNK:
            if len(parts) * _CHUNK > MAX_DOCUMENT:
                raise ValueError(f"larger than {MAX_DOCUMENT} bytes")
            parts.append(os.read(handle, _CHUNK))
    except (IsADirectoryError, BlockingIOError) as exc:
        raise ValueError("no file") from exc
    finally:
        os.close(handle)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Files:
    """The files of one driver.

    :param str sentence: what to say if they can't be read, without the reason
    :param Files parent: counts what is damaged instead of this one

    :ivar int broken: how many files could not be read, as they are damaged
    """

    def __init__(self, sentence, parent=None):
        self.sentence = sentence
        self.parent = parent
        self.broken = 0

    def damaged(self, what, exc):
        """Count what can't be read."""
        log.warning("%s is damaged: %s", what, exc)
        (self.parent or self).broken += 1

    def failed(self, exc):
        """Return the error for what hinders reading."""
        return QueryStoreError(f"{self.sentence} ({exc}).")

    def read(self, path, convert=bytes):
        """Return what is made of the content of a file; None if there is no file, or it
        is damaged.

        :param callable convert: takes the content, and raises ValueError if it is damaged
        :raises QueryStoreError: if it can't be read
        """
        try:
            return convert(read_file(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as exc:
            self.damaged(f"The file {path}", exc)
            return None
        except OSError as exc:
            raise self.failed(exc) from exc

    def project(self, path, wanted=None, inside=None):
        """Return the wanted items of the mapping in a file, see :func:`project`."""
        return self.read(path, lambda packed: project(packed, wanted, inside))

    def entries(self, folder):
        """Return what is in a folder; nothing if there is no folder.

        :raises QueryStoreError: if it can't be read
        """
        try:
            with os.scandir(folder) as found:
                return [*found]
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise self.failed(exc) from exc
