"""The text of a pull request, with the headings of upstream's template, out of what a patch's message says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patches.changelog import entries
from patches.suite import is_test

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patches.patch import Patch

# a paragraph of the message that has figures in it
MEASURED = re.compile(r"^(Measured|Figures)\b")
LINK = re.compile(r"https?://[^\s()]+")
ITEM = re.compile(r"^(- |\d+\. )")


@dataclass(frozen=True)
class Cover:
    """What a pull request says: the topic, all topics of its branch, the tests, the base, and the changes since."""

    patch: Patch
    required: Sequence[Patch]
    changed: Sequence[str]
    base: str
    branch: str
    version: int = 1
    differences: str = field(default="", repr=False)

    @property
    def text(self) -> str:
        """The text in Markdown; its first line is the title."""
        said = paragraphs(self.patch)
        figures = [paragraph for paragraph in said if MEASURED.match(paragraph)]
        reasons = [paragraph for paragraph in said if paragraph not in figures]
        parts = [f"# {self.patch.subject}\n", _section("What does this PR do?", reasons)]
        parts.append(_section("What issues does this PR fix or reference?", [self._issues()]))
        if figures:
            parts.append(_section("Measurements", figures))
        parts.append(_section("How to test", self._tests()))
        parts.append(_section("What it requires", self._requires()))
        parts.append(_section("Merge requirements satisfied?", ["\n".join(self._requirements())]))
        if self.differences:
            title = f"Changes since version {self.version - 1}"
            parts.append(_section(title, [f"```text\n{self.differences}\n```"]))
        return "\n".join(parts)

    def _issues(self) -> str:
        numbers = [re.sub(r"\D.*", "", path.removeprefix("changelog/")) for path in entries(self.patch)]
        links = LINK.findall(" ".join(self.patch.values("Upstream-PR")))
        named = dict.fromkeys(f"#{number}" for number in numbers if number)
        others = [link for link in dict.fromkeys(links) if link.rpartition("/")[2] not in numbers]
        return ", ".join([*named, *others]) or "None that we know of."

    def _tests(self) -> Iterable[str]:
        tests = [name for name in self.changed if is_test(name)]
        if not tests:
            return ["This brings no test."]
        command = " \\\n    ".join(["python -m pytest", *tests])
        return [f"```bash\n{command}\n```", "At least one test in each of these files fails without this change."]

    def _requires(self) -> Iterable[str]:
        if not self.required:
            return [f"Nothing: one commit on {self.base}, in the branch `{self.branch}`."]
        listed = "\n".join(f"- {patch.topic}: {patch.subject}" for patch in self.required)
        begins = f"The branch `{self.branch}` on {self.base} begins with the commits of these"
        return [f"{begins}, each a pull request of its own; please review the last commit.", listed]

    def _requirements(self) -> Iterable[str]:
        has_docs = any(name.startswith("doc/") for name in self.changed)
        has_test = any(is_test(name) for name in self.changed)
        rows = ((has_docs, "Docs"), (bool(entries(self.patch)), "Changelog"), (has_test, "Tests written/updated"))
        return [f"- [{'x' if done else ' '}] {what}" for done, what in rows]


def paragraphs(patch: Patch) -> list[str]:
    """Give the paragraphs of a message for upstream, each line of text or item of a list in one line.

    What is indented stays as it is.
    """
    found = []
    for block in re.split(r"\n{2,}", patch.without_ours().message.strip("\n")):
        lines: list[str] = []
        for line in block.splitlines():
            if lines and not ITEM.match(line) and not line.startswith("    "):
                lines[-1] = f"{lines[-1]} {line.strip()}"
            else:
                lines.append(line)
        found.append("\n".join(lines))
    return [paragraph for paragraph in found if paragraph.strip()]


def _section(title: str, texts: Iterable[str]) -> str:
    return "\n\n".join([f"### {title}", *texts]) + "\n"
