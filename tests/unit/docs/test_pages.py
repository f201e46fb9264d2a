"""The pages of the documentation: all are in the index, none is long, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INDEX = ROOT / "docs" / "index.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
LONGEST = 350
# references that a command writes
GENERATED = {"results.md"}
LINK = re.compile(r"\]\((?P<target>[^\s)]+)\)")


def _text(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    anchors: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", _text(page), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = sum(1 for other in anchors if re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other))
        anchors.add(f"{anchor}-{again}" if again else anchor)
    return anchors


def _dangling(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    dangling = []
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", _text(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
            dangling.append(target)
    return dangling


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link names a file or a folder, and a heading that this page has."""
    assert _dangling(page) == []


def test_every_page_is_in_the_index() -> None:
    """The index links each page once, and the README links the index."""
    linked = [target for target in LINK.findall(INDEX.read_text(encoding="utf-8")) if not target.startswith("..")]
    assert sorted(linked) == [page.name for page in DOCS if page != INDEX]
    assert "(docs/index.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in DOCS if page.name not in GENERATED], ids=lambda page: page.name)
def test_no_page_is_long(page: Path) -> None:
    """A page that grows beyond the limit has a part that is a page of its own."""
    assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_a_wrong_link_is_found(tmp_path: Path) -> None:
    """A missing file and a missing heading are dangling; a fenced block, code and an address are no links."""
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`, three\n## Same\n## Same\n[a](#one-two-three) [b](#same-1) [c](#same-2)\n"
        "[d](gone.md) [e](page.md#gone)\n"
        "[f](https://example.com/gone) `[g](gone.md)`\n```text\n# Block\n[h](gone.md)\n```\n[i](#block)\n",
        encoding="utf-8",
    )
    assert _dangling(page) == ["#same-2", "gone.md", "page.md#gone", "#block"]
