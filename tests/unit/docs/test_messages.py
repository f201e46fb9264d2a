"""The messages that the pages explain stand in the code, word by word."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
SALT = ROOT / "salt" / "salt"
# the code that prints them: Salt's, as far as a page quotes it, and all of the extensions
PLACES = (
    SALT / "channel",
    SALT / "cli",
    SALT / "client",
    SALT / "crypt.py",
    SALT / "daemons",
    SALT / "interfaces",
    SALT / "job_handler",
    SALT / "loader",
    SALT / "minion.py",
    SALT / "modules" / "state.py",
    SALT / "netapi",
    SALT / "pillar",
    SALT / "returners" / "local_cache.py",
    SALT / "state.py",
    SALT / "transport",
    SALT / "utils",
    ROOT / "salt" / "extensions",
    ROOT / "sql",
    ROOT / "evil_minions",
    ROOT / "harness",
)
# code letters of the column that are no message of this code: those of other programs, and what the message is about
OTHERS = {
    "No module named evil_minions",
    "No matching sls found for 'susemanager.packages'",
    "Too many open files",
    "_errors: - **********",
    "canceling statement due to lock timeout",
    "permission denied",
    "salt -I role:web",
    "salt-query job -o +status",
    "sync_wait: extend",
    "unclosed Runner ... use as a context manager",
}
# names of the examples, in the place of any other
EXAMPLES = re.compile(
    r"web1|test\.ping|nope|suma_minion|/srv/salt-modules/(?:query_types/role\.py)?|are not there yet|has told"
    r"|InsufficientPrivilege \(42501\)"
)
# what is put into a message, and the end of one string where the next one begins
VALUE = re.compile(r"\{[^{}\n]*\}|%[rsd]|%\(\w+\)s")
JOINT = re.compile(r"[\"']\s*\n?\s*[rf]?[\"'](?=[^\"'])")
ROW = re.compile(r"^\| (.*?) \| .* \| .* \|$", re.MULTILINE)


@cache
def code() -> str:
    """Return the code of all places, strings that continue on the next line joined, values as `...`."""
    files = [path for place in PLACES for path in ([place] if place.is_file() else sorted(place.rglob("*")))]
    texts = [path.read_text(encoding="utf-8") for path in files if path.suffix in {".py", ".sql", ".js"}]
    return VALUE.sub("...", JOINT.sub("", "\n".join(texts)))


def messages(page: Path) -> list[str]:
    """Return the texts in code letters of the first column of the tables about troubles, if they have several words."""
    text = page.read_text(encoding="utf-8")
    if page.name != "troubleshooting.md":
        text = text.partition("\n## Troubleshooting\n")[2].partition("\n## ")[0]
    texts = [message for row in ROW.findall(text) for message in re.findall(r"`([^`]+)`", row)]
    return [message for message in texts if " " in message and message not in OTHERS]


def missing(message: str) -> bool:
    """Return whether a part of a message, as `...` divides it, is nowhere in the code."""
    parts = [part.strip(" '") for part in EXAMPLES.sub("...", message).split("...")]
    return not all(part in code() for part in parts)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_each_message_is_in_the_code(page: Path) -> None:
    """A message that was reworded in the code is reworded on the page."""
    assert [message for message in messages(page) if missing(message)] == []


def test_a_message_that_is_nowhere_is_found() -> None:
    """The page of all messages has many, and a made-up one is missing."""
    assert messages(DOCS / "troubleshooting.md")
    assert missing("The master of ... sings")
