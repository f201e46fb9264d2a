"""Make what upstream takes of a topic: a branch on the base with a text for the pull request, or mails."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from patches import branch, hooks
from patches.apply import ready, shown
from patches.branch import into_clone
from patches.check import incomplete
from patches.errors import ConflictError, UsageError
from patches.git import Git, read_contributor, uncommitted
from patches.hooks import entries
from patches.repository import CONFIG, reason
from patches.suite import is_test

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from patches.branch import Version
    from patches.git import Contributor
    from patches.patch import Patch
    from patches.repository import Repository
    from patches.series import Series
    from patches.state import State

MAIL = ("format-patch", "--quiet", "--no-signature", "--full-index", "--no-renames", "--zero-commit", "--always")


def write(repository: Repository, version: Version, folder: Path) -> tuple[Path, ...]:
    """Write the commits of a branch as mails, which name the base, and prove them; give the mails in order.

    :raises ConflictError: when they do not make the same tree.
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbered = (f"--reroll-count={version.number}",) if version.number > 1 else ()
    span = f"{version.base}..{version.commit}"
    repository.git.run(*MAIL, *numbered, f"--base={version.base}", f"--output-directory={folder}", span)
    mails = tuple(sorted(folder.glob("*.patch")))
    _verify(repository, version, mails)
    return mails


def _verify(repository: Repository, version: Version, mails: tuple[Path, ...]) -> None:
    """Apply the mails to a pristine clone, as a maintainer of upstream would, and compare.

    :raises ConflictError: when they do not apply, or make another tree.
    """
    with tempfile.TemporaryDirectory(dir=repository.layout.build, prefix=".scratch.") as name:
        clone = Path(name) / "clone"
        git = Git(clone / ".git", clone)
        clone.mkdir()
        git.run("init", "--quiet", "--template=")
        (clone / ".git" / "config").write_text(CONFIG, encoding="utf-8")
        # the base's objects stay where they are: to copy them takes seconds for each topic
        borrowed = clone / ".git" / "objects" / "info" / "alternates"
        borrowed.parent.mkdir(exist_ok=True)
        borrowed.write_text(f"{repository.layout.git_dir.resolve()}/objects\n", encoding="utf-8")
        git.run("read-tree", version.base)
        git.run("update-ref", "HEAD", version.base)
        result = git.attempt("am", "--quiet", *map(str, mails))
        if result.code != 0:
            raise ConflictError(f"The mails do not apply to the base: {reason(result.text, result.err)}.")
        wanted, got = repository.tree(version.commit), git.text("rev-parse", "HEAD^{tree}")
        if got != wanted:
            raise ConflictError(f"The mails make the tree {got} instead of {wanted}: run 'nox -s check'.")


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
    """Return the paragraphs of a message for upstream, each line of text or item of a list in one line.

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


COVER = "pull-request.md"


@dataclass(frozen=True)
class Request:
    """What the user asked for: topics, numbers of upstream's for their changelog entries, and the form."""

    topics: tuple[str, ...]
    numbers: Mapping[str, int]
    output: Path
    mails: bool = False
    clone: Path | None = None
    onto: str | None = None


@dataclass(frozen=True)
class Submission:
    """A topic's branch, the text of its pull request, its mails if there are any, and the tree that it makes."""

    topic: str
    author: str
    branch: str
    repository: str
    commit: str
    base_commit: str
    version: int
    cover: str
    tree: str
    mails: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def submit(repository: Repository, request: Request) -> tuple[Submission, ...]:
    """Make each topic's branch, after the commits of what it requires; the caller holds the lock.

    :raises UsageError: when upstream would refuse a topic at sight, or when nobody can sign off.
    :raises UnsavedEditsError: when the tree has edits that the branch would lack.
    :raises ConflictError: when a branch is not what the tree is, or does not go onto the user's clone.
    """
    author = read_contributor(repository.layout)
    _, series, state = ready(repository)
    chosen = {topic: series.closure(topic) for topic in request.topics}
    for topic, patches in chosen.items():
        _refuse(repository, topic, patches, request.numbers)
    sender = _Sender(repository, series, state, request, author)
    return tuple(sender.send(patches) for patches in chosen.values())


def _refuse(repository: Repository, topic: str, patches: Iterable[Patch], numbers: Mapping[str, int]) -> None:
    """Refuse what upstream would send back unread.

    :raises UsageError: with what to do about it.
    """
    lacking = []
    for patch in patches:
        if patch.is_empty:
            raise UsageError(
                f"The topic '{patch.topic}' changes nothing, so there is nothing to send: save an edit to it with "
                f"'nox -s save -- --topic {patch.topic} FILE', or drop it."
            )
        if patch.is_template or not patch.reason:
            raise UsageError(
                f"The topic '{patch.topic}' gives no reason: write into the message of patches/{patch.topic}.patch "
                "what it changes and why, as a pull request does."
            )
        if patch.topic not in numbers and any(map(hooks.is_unnumbered, patch.files)):
            lacking.append(patch.topic)
    own = [name for patch in patches for name in (f"patches/{patch.topic}.patch", *(f"salt/{n}" for n in patch.files))]
    loose = uncommitted(repository.layout, own)
    if loose:
        raise UsageError(f"Not committed in this checkout: {shown(loose)}: commit what you send, with git, first.")
    if lacking:
        options = " ".join(f"--number {name}=NUMBER" for name in lacking)
        raise UsageError(
            f"The changelog entry of {', '.join(lacking)} has no number yet: open an issue or a pull request for it at "
            f"https://github.com/saltstack/salt, then say 'submit {topic} {options}'."
        )


@dataclass(frozen=True)
class _Sender:
    """What is sent, by whom, and of which tree."""

    repository: Repository
    series: Series
    state: State
    request: Request
    author: Contributor

    def send(self, patches: tuple[Patch, ...]) -> Submission:
        """Hand out a topic, the last one of these: its branch, its text and its mails."""
        repository, request, patch = self.repository, self.request, patches[-1]
        git, name, place = repository.git, f"submit/{patch.topic}", repository.layout.git_dir
        made = branch.commit(repository, patches, branch.Commits(self.state.base_commit, self.author, request.numbers))
        version, before = branch.keep(git, patch.topic, made, self.state.base_commit)
        git.run("update-ref", f"refs/heads/{name}", made)
        base, folder = f"Salt {self.state.base.version}", request.output / patch.topic
        changed = repository.changed(f"{made}^", made)
        with tempfile.TemporaryDirectory(dir=repository.layout.build, prefix=".scratch.") as scratch:
            new = Path(scratch) / "new"
            new.mkdir()
            if request.mails or request.clone:
                mails = write(repository, version, (new if request.mails else Path(scratch)) / "mails")
            if request.clone is not None:
                base = request.onto or f"v{self.state.base.version}"
                git, version, before = into_clone(request.clone, base, patch.topic, mails, self.author)
                name, place = patch.topic, request.clone
            differences = branch.range_diff(git, before, version) if before is not None else ""
            cover = Cover(patch, patches[:-1], changed, f"{base} ({version.base})", name, version.number, differences)
            (new / COVER).write_text(cover.text, encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(new, folder)
        return Submission(
            topic=patch.topic,
            author=str(self.author),
            branch=name,
            repository=str(place),
            commit=version.commit,
            base_commit=version.base,
            version=version.number,
            cover=str(folder / COVER),
            tree=repository.tree(made),
            mails=tuple(str(path) for path in sorted(folder.glob("mails/*.patch"))),
            warnings=self._lacking(patches),
        )

    def _lacking(self, patches: Iterable[Patch]) -> tuple[str, ...]:
        """Say what upstream will miss in topics, without refusing them."""
        found = incomplete(self.repository, self.series, self.state, (patch.topic for patch in patches))
        return tuple(f"{one.rule}: {one.subject} {one.message}" for one in found)
