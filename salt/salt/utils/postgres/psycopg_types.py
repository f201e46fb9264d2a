"""
Values of psycopg 3 as psycopg2 reads and writes them

.. versionadded:: 3009.0
"""

import datetime
import re

# only the driver imports this, where there is one
# pylint: disable=3rd-party-module-not-gated
import psycopg
from psycopg.types import datetime as datetimes

# pylint: enable=3rd-party-module-not-gated

# The types that psycopg2 leaves to be text, and those whose arrays it does too
TEXT = ("inet", "cidr", "uuid", "record")
TEXT_ARRAYS = ("uuid", "record")

# Those that are text anyway, which psycopg 3 leaves to be bytes where the
# database has no encoding
STRINGS = ("text", "varchar", "bpchar", "name", '"char"', "unknown")

# What the server writes behind a time
OFFSET = re.compile(rb"([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$")


class OffsetLoader(datetimes.TimestamptzLoader):
    """
    Has the offset that the server writes, as Python may not know its time zone
    """

    def load(self, data):
        value = super().load(data)
        sign, *parts = OFFSET.search(data).groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        zone = datetime.timezone(-offset if sign == b"-" else offset)
        return value.astimezone(zone)


def _endless(base, kind, **zone):
    """
    Return a loader that has the greatest and the least value for infinity
    """

    class Loader(base):
        """
        Has the text as it came from the server
        """

        def load(self, data):
            text = bytes(data)
            if text == b"infinity":
                return kind.max.replace(**zone)
            if text == b"-infinity":
                return kind.min.replace(**zone)
            return super().load(data)

    return Loader


class ListDumper(psycopg.adapt.RecursiveDumper):
    """
    Writes the constructor of an array, whose type is that of its values
    """

    def dump(self, obj):
        return self.quote(obj)

    def quote(self, obj):
        if not obj:
            return b"'{}'"
        return b"ARRAY[" + self._values(obj) + b"]"

    def _values(self, obj):
        return b", ".join(self._tx.as_literal(value) for value in obj)


class TupleDumper(ListDumper):
    """
    Writes the values that something may be IN
    """

    def quote(self, obj):
        return b"(" + self._values(obj) + b")"


def register(conn):
    """
    Read and write the values of a connection as psycopg2 does
    """
    encoding = conn.info.encoding
    adapters = conn.adapters

    class Text(psycopg.adapt.Loader):
        """
        Has the text as it came from the server
        """

        def load(self, data):
            return bytes(data).decode(encoding)

    for name in TEXT:
        adapters.register_loader(adapters.types[name].oid, Text)
    for name in TEXT_ARRAYS:
        adapters.register_loader(adapters.types[name].array_oid, Text)
    if encoding == "ascii":
        for name in STRINGS:
            if adapters.types.get(name):
                adapters.register_loader(adapters.types[name].oid, Text)
    utc = {"tzinfo": datetime.timezone.utc}
    for name, base, kind, zone in (
        ("date", datetimes.DateLoader, datetime.date, {}),
        ("timestamp", datetimes.TimestampLoader, datetime.datetime, {}),
        ("timestamptz", OffsetLoader, datetime.datetime, utc),
    ):
        adapters.register_loader(name, _endless(base, kind, **zone))
    adapters.register_dumper(list, ListDumper)
    adapters.register_dumper(tuple, TupleDumper)
