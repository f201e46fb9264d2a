"""Every example of the documentation is run by a test, or says in its source why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.live.helpers.docs_page import Block, blocks
from tests.live.helpers.docs_shell import by_minion, is_shown

ROOT = Path(__file__).parents[3]
TESTS = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))}
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def _problems(page: Path, tests: dict[Path, str]) -> list[str]:
    """Return what keeps the examples of a page from being run."""
    found = []
    run = False
    for block in blocks(page):
        run = run or not block.is_left_out
        if block.problem:
            found.append(f"{page.name}:{block.line}: {block.problem}, and no `<!-- not run: REASON -->` before it")
        marker = block.markers.get("tested")
        if marker and not any(f"tested: {marker}" in text for text in tests.values()):
            found.append(f"{page.name}:{block.line}: no test looks for `tested: {marker}`")
    if run and not any(re.search(rf"follow\(\s*.*\b{re.escape(page.name)}\b", text) for text in tests.values()):
        found.append(f"{page.name}: no test follows it, see tests/live/helpers/docs_walk.py")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_example_is_run_or_says_why_not(page: Path) -> None:
    """A fenced block is followed from the page, read by a test of its own, or has its reason."""
    assert _problems(page, TESTS) == []


def _page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```yaml\na: 1\n```\n", "no comment with the path"),
        ("```\nsomething\n```\n", "no comment with the path"),
        ("```console\nshown\n```\n", "output without a command"),
        ("<!-- not run: it is another block's -->\n\ntext\n\n```yaml\na: 1\n```\n", "no comment with the path"),
        ("<!-- tested: no-such-marker -->\n```yaml\na: 1\n```\n", "no test looks for"),
        ("```console\n$ true\n```\n", "no test follows it"),
    ],
)
def test_what_is_not_run_is_found(tmp_path: Path, text: str, problem: str) -> None:
    """Each way of not being run is a problem."""
    assert any(problem in found for found in _problems(_page(tmp_path, text), {}))


def test_a_reason_is_enough(tmp_path: Path) -> None:
    """A block with a reason needs no test."""
    assert (
        _problems(_page(tmp_path, "<!-- not run: needs the network -->\n```console\n$ apt-get update\n```\n"), {}) == []
    )


def test_blocks_are_read_as_the_reader_does(tmp_path: Path) -> None:
    """Commands, what they show, files and indented blocks."""
    text = """
- a list

  ```console
  $ echo a \\
      b
  a b

  $ true   # says nothing
  ```

```sql
-- rows.sql
SELECT 1;
```
"""
    typed, file = blocks(_page(tmp_path, text))
    assert [(command.text, command.shown) for command in typed.commands] == [
        ("echo a \\\n    b", "a b"),
        ("true   # says nothing", ""),
    ]
    assert file.file == "rows.sql"
    assert Block("jinja", "{# /srv/salt/a.sls #}\n", 1).file == "/srv/salt/a.sls"
    assert Block("yaml", "# a comment that names no file.\n", 1).file is None


@pytest.mark.parametrize(
    ("expected", "output", "shown"),
    [
        ("a\nb", "a  \nb\n", True),
        ("a", "a\nb\n", False),
        ("a\n...", "a\n", True),
        ("a\n...\nz", "a\nb\nc\nz\n", True),
        ("a ... z", "a b\nc z\n", False),
        ("took ... s", "took 1.5 s", True),
        ("a.c", "abc", False),
        ("a", "[WARNING ] unclosed X; call ``destroy()`` or use as a context manager\na\n", True),
    ],
)
def test_what_is_shown_is_all_that_is_printed(expected: str, output: str, shown: bool) -> None:  # noqa: FBT001 - a case of the test
    """Three dots stand for any text, on a line of their own for any lines; everything else is literal."""
    assert is_shown(expected, output) is shown


def test_minions_answer_in_any_order() -> None:
    """The blocks of the minions are compared by their names."""
    assert by_minion("web2:\n    True\nweb1:\n    ----------\n    a:\n        1\n") == (
        "web1:\n    ----------\n    a:\n        1\nweb2:\n    True\n"
    )
