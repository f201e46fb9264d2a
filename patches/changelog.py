"""Changelog entries: upstream names each by the issue that it closes, or else by its pull request.

While a topic has neither, its entry stands in our tree under the topic's name, ``changelog/TOPIC.fixed.md``: a made-up
number is, or will be, a stranger's issue. `submit` is told the number, and the branch has the name that upstream wants.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from patches.patch import Patch

KINDS: Final = ("added", "changed", "deprecated", "fixed", "removed", "security")
ENTRY = re.compile(rf"^changelog/(?P<name>[^/.]+)\.(?P<kind>{'|'.join(KINDS)})\.md$")


def entries(patch: Patch) -> tuple[str, ...]:
    """Give a topic's changelog entries that are named as they should be: by a number, or by the topic."""
    found = ((path, ENTRY.match(path)) for path in patch.files)
    return tuple(path for path, match in found if match and (match["name"].isdigit() or match["name"] == patch.topic))


def strays(patch: Patch) -> tuple[str, ...]:
    """Give the files below ``changelog/`` that upstream would not take, whatever number they got."""
    return tuple(path for path in patch.files if path.startswith("changelog/") and path not in entries(patch))


def is_unnumbered(path: str) -> bool:
    """Tell whether a path is an entry that still bears the name of its topic."""
    match = ENTRY.match(path)
    return match is not None and not match["name"].isdigit()


def numbered(path: str, number: int | None) -> str:
    """Give the path as upstream wants it: an entry without a number gets this one, anything else stays."""
    match = ENTRY.match(path)
    return f"changelog/{number}.{match['kind']}.md" if number and match and is_unnumbered(path) else path
