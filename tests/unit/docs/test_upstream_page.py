"""The page about upstream names every topic once, and the page of texts has the first ten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
TEXTS = (ROOT / "docs" / "upstream-texts.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([\w-]+)` \| ([\w ]+?) \| (.*) ?\|$", PAGE, re.MULTILINE)
FIRST = (
    "event-publisher-restart",
    "tcp-without-master",
    "runner-errors",
    "event-bus-drained",
    "fileserver-opts-once",
    "tcp-publish-topics",
    "sql-base-json",
    "group-chgid",
    "batch-shared-returns",
    "optsdict-truth",
)
STATUSES = {"ready", "needs discussion", "security contact first", "ours alone"}


def _message(topic: str) -> str:
    """Return the message of a topic."""
    return (ROOT / "patches" / f"{topic}.patch").read_text(encoding="utf-8").partition("\n---\n")[0]


def test_each_topic_has_one_row() -> None:
    """No topic is missing, none is there that has gone, and each has a known status."""
    series = (ROOT / "patches" / "series").read_text(encoding="utf-8").split()
    assert sorted(topic for topic, _, _ in ROWS) == sorted(series)
    assert {status for _, status, _ in ROWS} <= STATUSES


def test_security_topics_are_not_explained() -> None:
    """A topic of that status has no reason here; a topic whose changelog entry is about security has the status."""
    named = {topic for topic, status, _ in ROWS if status == "security contact first"}
    entry = re.compile(r"^Files: changelog/.*\.security\.md$", re.MULTILINE)
    assert named == {topic for topic, _, _ in ROWS if entry.search(_message(topic))}
    assert {reason.strip() for topic, _, reason in ROWS if topic in named} == {""}


@pytest.mark.parametrize(("topic", "number"), list(zip(FIRST, range(1, 11), strict=True)))
def test_first_ten_have_a_text(topic: str, number: int) -> None:
    """Each is ready, stands in its place, and has the topic's subject and the parts of a pull request."""
    subject = re.findall(r"^Subject: (.*)$", _message(topic), re.MULTILINE)[0]
    text = TEXTS.partition(f"\n### {number}. `{topic}`: {subject}\n")[2].partition("\n##")[0]
    for part in ("What it does", "Previous behaviour", "New behaviour", "How to see it", "Questions"):
        assert f"**{part}.**" in text
    # `submit` reads the name of the branch
    assert re.search(r"^\*\*Branch:\*\* (master|\d{4}\.x)[,. ]", text, re.MULTILINE)
    assert (topic, "ready") in {(name, status) for name, status, _ in ROWS}


@pytest.mark.parametrize("topic", [topic for topic, _, _ in ROWS])
def test_a_topic_that_closes_an_issue_begins_with_it(topic: str) -> None:
    """The message begins with the issues that the page says it closes, and a changelog entry has their number."""
    (reason,) = [reason for name, _, reason in ROWS if name == topic]
    closed = re.findall(r"closes #(\d+)", reason)
    message = _message(topic)
    body = message.partition("\nSubject: ")[2].partition("\n\n")[2]
    for number in closed:
        assert body.startswith(f"Fixes #{number}")
        assert re.search(rf"^Files: changelog/{number}\.\w+\.md$", message, re.MULTILINE)
