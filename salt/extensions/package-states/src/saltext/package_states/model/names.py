"""Which names and versions are accepted; what is not raises :class:`InvalidInput`.

Names and versions come from people and end in SLS files, preferences of apt, and command lines.
What is accepted here has no meaning in YAML, Jinja, a shell, a path or an option, so nothing has to
be escaped later. What a package manager can't have is found by :mod:`.platforms`.
"""

import functools
import re

from saltext.package_states.errors import InvalidInput

# \Z, as $ permits a newline at the end
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,126}\Z", re.ASCII)
ARCHITECTURE = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z", re.ASCII)
VERSION = re.compile(
    r"(?:[0-9]{1,9}:)?[A-Za-z0-9][A-Za-z0-9.+~^:_-]{0,126}\Z", re.ASCII
)
GLOB = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9.+~^:_*?-]{0,126}\Z", re.ASCII)
STATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}\Z", re.ASCII)

# how many versions of one package a minion may tell of
VERSIONS = 10000


def _match(pattern, kind, value):
    if not isinstance(value, str) or not pattern.match(value):
        raise InvalidInput(
            f"{shown(value)} is no {kind}; use letters, digits and the marks that"
            f" {kind}s may have."
        )
    return value


def shown(value):
    """Return what a message shows of a value that may be hostile"""
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


package = functools.partial(_match, PACKAGE, "package name")
glob = functools.partial(_match, GLOB, "version")
# of a package state; it may be the id of a minion, and is a part of a file name
state = functools.partial(_match, STATE, "state name")


def version(value):
    """Return a version, which is a string: 1.10 as a float would be 1.1"""
    if isinstance(value, (int, float)):
        raise InvalidInput(
            f"{value!r} is a number here, and 1.10 and 1.1 are the same number; write"
            " the version with its operator, such as =1.10."
        )
    return _match(VERSION, "version", value)


def split(value):
    if not isinstance(value, str):
        raise InvalidInput(f"{shown(value)} is no package name; use a string.")
    name, colon, arch = value.partition(":")
    if colon and not arch:
        raise InvalidInput(
            f"{shown(value)} has an empty architecture; leave the colon out."
        )
    return package(name), _match(ARCHITECTURE, "architecture", arch) if arch else ""


def text(value, kind, most=1000):
    """Return text for people, such as a comment, on one line that is not too long"""
    value = "" if value is None else str(value)
    if len(value) > most or not all(mark.isprintable() for mark in value):
        raise InvalidInput(
            f"The {kind} must be one line of at most {most} printable characters."
        )
    return value


def is_line(value, most=256):
    """Return whether this is text of a minion that may be kept and shown: one line, printable"""
    return isinstance(value, str) and len(value) <= most and value.isprintable()


def are_versions(found, most, longest=256):
    """Return whether these are lists of versions by package, each at most so many packages"""
    return (
        isinstance(found, dict)
        and len(found) <= most
        and all(is_line(key, longest) and key for key in found)
        and all(isinstance(there, list) for there in found.values())
        and all(
            len(one) <= VERSIONS and all(map(is_line, one)) for one in found.values()
        )
    )


def line(value, most=200):
    """Return what a message or a result shows of what a minion sent: one line, printable"""
    return "".join(mark if mark.isprintable() else "?" for mark in str(value)[-most:])


author = functools.partial(text, kind="author", most=256)


def priority(value):
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**31 - 1
    ):
        raise InvalidInput("The priority must be a whole number; the higher one wins.")
    return value
