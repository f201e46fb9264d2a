"""Values as msgpack, byte for byte as Salt packs them, without what that costs for each message.

Salt's `dumps` has msgpack reserve a megabyte each time, which a worker's allocator fetches from the system and gives
back: two requests to the kernel and a page to fill for half a kilobyte. What only Salt's own code knows goes there.
Source: salt/payload.py of Salt 3008.5.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import msgpack
import salt.payload

# the buffer grows if a value needs more
_BUFFER_SIZE: Final = 4096
# what most answers are, by their bytes; none of them can be changed by who gets it
_SCALARS: Final = {bytes(salt.payload.dumps(value)): value for value in (None, True, False, "")}
# headers of strings and of bytes with a size of one and of two bytes
_HEADERS: Final = {0xD9: 2, 0xC4: 2, 0xDA: 3, 0xC5: 3}


class _UnusualError(Exception):
    """A value isn't one of msgpack's own types."""


def _unusual(_value: object) -> NoReturn:
    """Leave a value to Salt."""
    raise _UnusualError


def dumps(value: object) -> bytes:
    """Return a value as `salt.payload.dumps` packs it."""
    try:
        return bytes(msgpack.Packer(default=_unusual, use_bin_type=False, buf_size=_BUFFER_SIZE).pack(value))
    except (_UnusualError, OverflowError, ValueError):
        return bytes(salt.payload.dumps(value))


def loads(data: bytes) -> Any:
    """Return the value that `salt.payload.loads` unpacks.

    Raises:
        SaltDeserializationError: if it isn't msgpack.

    """
    try:
        return _SCALARS[data]
    except KeyError:
        return salt.payload.loads(data)


def blob(data: bytes) -> bytes:
    """Return the bytes that are all of a message, empty if it holds something else."""
    size = len(data)
    header = _HEADERS.get(data[0], 0) if size else 0
    if not header or int.from_bytes(data[1:header], "big") != size - header:
        return b""
    return data[header:]
