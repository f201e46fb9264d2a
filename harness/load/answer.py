"""What a client got for a request: `Answer`."""

from __future__ import annotations

from dataclasses import dataclass

# characters of an error that are kept
LONGEST = 200


@dataclass(frozen=True)
class Answer:
    """What came back: how many minions answered, the jobs' ids, the size in bytes, and what went wrong, if anything."""

    answered: int = 0
    jids: tuple[str, ...] = ()
    length: int = 0
    error: str = ""

    def gap(self, expected: int) -> str:
        """Return what the answer lacks of `expected` minions, "" if nothing: a fleet that grew answers with more."""
        if self.answered >= expected:
            return ""
        return f"{self.answered} of {expected} minions answered"
