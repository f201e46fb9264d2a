"""A patch: one topic, one pull request's worth of changes.

The file is a mail as `git format-patch` writes it. Its message is the pull request's text; its trailers say what
upstream knows of it, what it needs, when it can go, and which new files in ``salt/`` belong to it.
"""

from __future__ import annotations

import email
import email.policy
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.errors import UsageError
from patches.git import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
TRAILER = re.compile(r"^(?P<key>[A-Z][A-Za-z-]*): (?P<value>.+)$")
# what a complete patch says; Requires and Files may be absent
REQUIRED = ("Upstream-PR", "Remove-When")
# trailers that are ours alone and that upstream does not want to read
OURS = ("Upstream-PR", "Requires", "Remove-When", "Files")
PLACEHOLDER_SUBJECT = "Say in one imperative line what changes"
PLACEHOLDER_WHY = "Say why, as a pull request does."
PLACEHOLDER = f"""{PLACEHOLDER_SUBJECT}

{PLACEHOLDER_WHY}

Upstream-PR: none yet
Remove-When: upstream merges it
"""


@dataclass(frozen=True)
class Patch:
    """A topic's name and its file's bytes; the rest is read from them."""

    topic: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Hash of the file."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def subject(self) -> str:
        """First line of the message."""
        return str(email.message_from_bytes(self.data, policy=email.policy.default)["Subject"] or "").strip()

    @property
    def author(self) -> str:
        """Whom the file names as its author, as `Name <address>`."""
        return str(email.message_from_bytes(self.data, policy=email.policy.default)["From"] or "").strip()

    @property
    def message(self) -> str:
        """The message without its subject."""
        return decode(self._split()[1])

    @property
    def trailers(self) -> tuple[tuple[str, str], ...]:
        """Keys and values of the message's last paragraph, when that consists of trailers only."""
        return trailers_of(self.message)

    def values(self, key: str) -> tuple[str, ...]:
        """Return the values of all trailers of that key, in their order."""
        return tuple(value for name, value in self.trailers if name == key)

    @property
    def files(self) -> tuple[str, ...]:
        """New files that belong to this topic, relative to ``salt/``."""
        return self.values("Files")

    @property
    def requires(self) -> tuple[str, ...]:
        """Topics that this one needs."""
        return requires_of(self.trailers)

    @property
    def reason(self) -> str:
        """The message without its trailers: what is changed, and why."""
        return self.without_ours().message.strip()

    @property
    def missing_trailers(self) -> tuple[str, ...]:
        """Trailers that a complete patch has and this one has not."""
        return tuple(key for key in REQUIRED if not self.values(key))

    @property
    def is_template(self) -> bool:
        """Whether nobody has written the message yet."""
        return self.subject == PLACEHOLDER_SUBJECT or PLACEHOLDER_WHY in self.message

    @property
    def is_empty(self) -> bool:
        """Whether it changes no file of upstream's and brings none."""
        return not self.files and re.search(rb"^diff --git ", self._split()[2], re.MULTILINE) is None

    def with_files(self, files: Iterable[str]) -> Patch:
        """Return the same patch with these ``Files:`` trailers instead of its own.

        Raises:
            UsageError: when the message has no trailers to put them beside.
        """
        wanted = sorted(set(files))
        if wanted == list(self.files):
            return self
        if not self.trailers:
            raise UsageError(f"patches/{self.topic}.patch has no trailers: add at least 'Upstream-PR:' to its message.")
        headers, message, rest = self._split()
        lines = [line for line in message.rstrip(b"\n").split(b"\n") if not line.startswith(b"Files: ")]
        lines += [b"Files: " + encode(name) for name in wanted]
        return Patch(self.topic, headers + b"\n".join(lines) + b"\n" + rest)

    def with_changes(self, other: bytes) -> Patch:
        """Return the same headers and message with the changes of another patch file."""
        headers, message, _ = self._split()
        return Patch(self.topic, headers + message + _split(other)[2])

    def with_requires(self, topics: Iterable[str]) -> Patch:
        """Return the same patch with more topics in its trailers that it needs.

        Raises:
            UsageError: when the message has no trailers to put them beside.
        """
        if not self.trailers:
            raise UsageError(f"patches/{self.topic}.patch has no trailers: add at least 'Upstream-PR:' to its message.")
        wanted = ", ".join(dict.fromkeys((*self.requires, *topics)))
        headers, message, rest = self._split()
        body, _, last = message.rstrip(b"\n").rpartition(b"\n\n")
        lines = [line for line in last.split(b"\n") if not line.startswith(b"Requires: ")]
        place = 1 if lines[0].startswith(b"Upstream-PR: ") else 0
        lines.insert(place, b"Requires: " + encode(wanted))
        return Patch(self.topic, headers + body + b"\n\n" + b"\n".join(lines) + b"\n" + rest)

    def without_ours(self) -> Patch:
        """Return the same patch with a message for upstream: without the trailers that only we use."""
        headers, message, rest = self._split()
        if not self.trailers:
            return self
        body, _, last = message.rstrip(b"\n").rpartition(b"\n\n")
        kept = [line for line in last.split(b"\n") if not line.startswith(tuple(f"{key}: ".encode() for key in OURS))]
        text = body + (b"\n\n" + b"\n".join(kept) if kept else b"") + b"\n"
        return Patch(self.topic, headers + text + rest)

    def _split(self) -> tuple[bytes, bytes, bytes]:
        return _split(self.data)


def _split(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a patch file into headers, message, and what follows the message; together they are the file."""
    headers, blank, body = data.partition(b"\n\n")
    end = re.search(rb"^(---\n|diff --git )", body, re.MULTILINE)
    cut = end.start() if end else len(body)
    return headers + blank, body[:cut], body[cut:]


def requires_of(trailers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the topics that trailers name as needed."""
    values = (value for key, value in trailers if key == "Requires")
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def trailers_of(message: str) -> tuple[tuple[str, str], ...]:
    """Return keys and values of a message's last paragraph, when that consists of trailers only."""
    paragraphs = [part for part in re.split(r"\n{2,}", message.strip()) if part]
    matches = [TRAILER.match(line) for line in paragraphs[-1].splitlines()] if paragraphs else []
    found = tuple((match["key"], match["value"].strip()) for match in matches if match is not None)
    return found if len(found) == len(matches) else ()


def require_topic(name: str) -> str:
    """Check a topic's name, which is also a file's name.

    Raises:
        UsageError: when it is not made of lower-case words joined by hyphens.
    """
    if not TOPIC.match(name):
        raise UsageError(f"'{name}' cannot name a topic: use lower-case words joined by hyphens, like sql-base-json.")
    return name
