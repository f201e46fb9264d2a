"""Make what upstream takes of a topic: a branch on the base with a text for the pull request, or mails."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from patches import branch, hooks, zoo
from patches.apply import ready, shown
from patches.branch import into_clone
from patches.check import incomplete
from patches.errors import ConflictError, UsageError
from patches.git import Git, read_contributor, uncommitted
from patches.hooks import entries
from patches.kept import releases, require_kept
from patches.repository import CONFIG, reason
from patches.suite import is_test

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from patches.git import Contributor
    from patches.patch import Patch
    from patches.repository import Repository
    from patches.series import Series
    from patches.state import State

MAIL = ("format-patch", "--quiet", "--no-signature", "--full-index", "--no-renames", "--zero-commit", "--always")


def write(repository: Repository, base: str, made: str, folder: Path) -> tuple[Path, ...]:
    """Write the commits from a base on as mails, which name the base, and prove them; give the mails in order.

    Raises:
        ConflictError: when they do not apply to a pristine clone, or make another tree there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    repository.git.run(*MAIL, f"--base={base}", f"--output-directory={folder}", f"{base}..{made}")
    mails = tuple(sorted(folder.glob("*.patch")))
    # as a maintainer of upstream applies them
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
        git.run("read-tree", base)
        git.run("update-ref", "HEAD", base)
        result = git.attempt("am", "--quiet", *map(str, mails))
        if result.code != 0:
            raise ConflictError(f"The mails do not apply to the base: {reason(result.text, result.err)}.")
        wanted, got = repository.tree(made), git.text("rev-parse", "HEAD^{tree}")
        if got != wanted:
            raise ConflictError(f"The mails make the tree {got} instead of {wanted}: run 'nox -s check'.")
    return mails


# a paragraph of the message that has figures in it
MEASURED = re.compile(r"^(Measured|Figures)\b")
LINK = re.compile(r"https?://[^\s()]+")
ITEM = re.compile(r"^(- |\d+\. )")
COMMENTED = re.compile(r"<!--.*?-->\n?", re.DOTALL)
FENCE = "```"
# one between fences, or a paragraph
BLOCK = re.compile(rf"^{FENCE}[^\0]*?^{FENCE}$|(?:^(?!{FENCE}).+\n?)+", re.MULTILINE)
VERSION_ADDED = re.compile(rb"^\+\s*\.\. version(?:added|changed)::", re.MULTILINE)


@dataclass(frozen=True)
class Cover:
    """What a pull request says: the topic, all topics of its branch, the tests, and the base.

    `number` is that of the issue for changelog entries without one; `page` is what docs/upstream-texts.md says of the
    topic; `bugs` are those of the zoo that it mends; `kept` are the other releases that it is kept for.
    """

    patch: Patch
    required: Sequence[Patch]
    changed: Sequence[str]
    base: str
    branch: str
    number: int | None = None
    page: Mapping[str, str] = field(default_factory=dict)
    bugs: Sequence[zoo.Bug] = ()
    kept: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The text in Markdown; its first line is the title."""
        said = paragraphs(self.patch.without_ours().message)
        figures = [paragraph for paragraph in said if MEASURED.match(paragraph)]
        reasons = [paragraph for paragraph in said if paragraph not in figures]
        parts = [f"# {self.patch.subject}\n", _section("What does this PR do?", reasons)]
        parts.append(_section("What issues does this PR fix or reference?", [self._issues()]))
        for ours, title in BEHAVIOUR.items():
            if ours in self.page:
                parts.append(_section(title, paragraphs(self.page[ours])))
        shown = [*paragraphs(self.page.get(SHOWN, "")), *(text for bug in self.bugs for text in bug.paragraphs())]
        if shown:
            parts.append(_section(SHOWN, shown))
        if figures:
            parts.append(_section("Measurements", figures))
        parts.append(_section("How to test", self._tests()))
        parts.append(_section("Target branch", self._target()))
        parts.append(_section("What it requires", self._requires()))
        parts.append(_section("Merge requirements satisfied?", ["\n".join(self._requirements())]))
        parts.append(_section("Commits signed with GPG?", ["No"]))
        return "\n".join(parts)

    def _issues(self) -> str:
        named = (hooks.numbered(path, self.number) for path in entries(self.patch))
        numbers = [re.sub(r"\D.*", "", path.removeprefix("changelog/")) for path in named]
        links = LINK.findall(" ".join(self.patch.values("Upstream-PR")))
        fixed = dict.fromkeys(f"{'Fixes ' * (one == str(self.number))}#{one}" for one in numbers if one)
        others = [link for link in dict.fromkeys(links) if link.rpartition("/")[2] not in numbers]
        return ", ".join([*fixed, *others]) or "None that we know of."

    def _tests(self) -> Iterable[str]:
        tests = [name for name in self.changed if is_test(name)]
        if not tests:
            return ["This brings no test."]
        command = " \\\n    ".join(["python -m pytest", *tests])
        new = [name for name in tests if name in self.patch.files]
        where = "At least one test in each new file" if new else "At least one test"
        there = " The other files were there before, and are adapted to it." if new and new != tests else ""
        excepted = "on Python before" in " ".join(self.patch.reason.split())
        unless = ", unless the description excepts a Python version" * excepted
        claim = f"{where} fails without this change{unless}.{there}"
        return [f"```bash\n{command}\n```", claim]

    @property
    def target(self) -> str:
        """The branch of upstream's that it is meant for, if it stands elsewhere."""
        wanted = self.page.get(BRANCH, DEFAULT_BRANCH).split()[0].rstrip(".,")
        return "" if wanted == _branch(re.sub(r" \(.*|.*/", "", self.base)) else wanted

    def _target(self) -> Iterable[str]:
        yield from paragraphs(self.page.get(BRANCH, DEFAULT_BRANCH))
        if self.target:
            tried = self.target in map(_branch, self.kept)
            yield f"The commits stand on {self.base}{'' if tried else f', and were not tried on {self.target}'}."
        if self.kept:
            yield f"The same change passes its tests on Salt {' and '.join(self.kept)}."

    def _requires(self) -> Iterable[str]:
        if not self.required:
            return [f"Nothing: one commit on {self.base}, in the branch `{self.branch}`."]
        listed = "\n".join(f"- {patch.topic}: {patch.subject}" for patch in self.required)
        begins = f"The branch `{self.branch}` on {self.base} begins with the commits of these"
        return [f"{begins}, each a pull request of its own; please review the last commit.", listed]

    def _requirements(self) -> Iterable[str]:
        # the reference of a module is its docstring
        in_module = VERSION_ADDED.search(self.patch.data) is not None
        has_docs = in_module or any(name.startswith("doc/") for name in self.changed)
        has_test = any(is_test(name) for name in self.changed)
        rows = ((has_docs, "Docs"), (bool(entries(self.patch)), "Changelog"), (has_test, "Tests written/updated"))
        return [f"- [{'x' if done else ' '}] {what}" for done, what in rows]


def _branch(release: str) -> str:
    """Return the branch of upstream's that a release such as 3008.5 is on; any other name stays."""
    return re.sub(r"^(?:Salt |v)?(\d+)\.\d+$", r"\1.x", release)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text for upstream, each one or item of a list in one line.

    What is indented or between fences stays as it is; comments are ours.
    """
    found = []
    for block in BLOCK.findall(COMMENTED.sub("", text).strip("\n")):
        lines: list[str] = []
        if block.startswith(FENCE):
            found.append(block)
            continue
        for line in block.splitlines():
            if lines and not ITEM.match(line) and not line.startswith("    "):
                lines[-1] = f"{lines[-1]} {line.strip()}"
            else:
                lines.append(line)
        found.append("\n".join(lines))
    return [paragraph for paragraph in found if paragraph.strip()]


def _section(title: str, texts: Iterable[str]) -> str:
    return "\n\n".join([f"### {title}", *texts]) + "\n"


COVER, COMMENT = "pull-request.md", "first-comment.md"
# what docs/upstream-texts.md calls what Salt's template for pull requests asks for
BEHAVIOUR = {"Previous behaviour": "Previous Behavior", "New behaviour": "New Behavior"}
SHOWN, BRANCH, QUESTIONS = "How to see it", "Branch", "Questions"
# of a topic that docs/upstream-texts.md does not have
DEFAULT_BRANCH = "master."


def said_of(page: str, topic: str) -> dict[str, str]:
    """Return what docs/upstream-texts.md says of a topic beside its message, by the bold words that begin each part."""
    found = re.search(rf"^### \d+\. `{re.escape(topic)}`: .*\n+((?:(?!##).*\n?)+)", page, re.MULTILINE)
    parts = re.split(r"^\*\*([A-Z][^*]*)[.:]\*\* ", found[1], flags=re.MULTILINE) if found else []
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


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
    """A topic's branch, the text of its pull request, its mails if there are any, and the tree that it makes.

    `target` is the branch of upstream's that it is meant for, if it stands elsewhere.
    """

    topic: str
    author: str
    branch: str
    repository: str
    commit: str
    base_commit: str
    target: str
    cover: str
    tree: str
    mails: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def submit(repository: Repository, request: Request) -> tuple[Submission, ...]:
    """Make each topic's branch, after the commits of what it requires; the caller holds the lock.

    Raises:
        UsageError: when upstream would refuse a topic at sight, or when nobody can sign off.
        UnsavedEditsError: when the tree has edits that the branch would lack.
        ConflictError: when a branch is not what the tree is, or does not go onto the user's clone.
    """
    author = read_contributor(repository.layout)
    _, series, state = ready(repository)
    chosen = {topic: series.closure(topic) for topic in request.topics}
    for topic, patches in chosen.items():
        _refuse(repository, topic, patches, request.numbers)
    sender = _Sender(repository, series, state, request, author)
    return tuple(sender.send(patches) for patches in chosen.values())


def _refuse(repository: Repository, topic: str, patches: Iterable[Patch], numbers: Mapping[str, int]) -> None:
    """Raise UsageError for what upstream would send back unread."""
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
        unnumbered = any(map(hooks.is_unnumbered, patch.files))
        if patch.topic not in numbers and unnumbered:
            lacking.append(patch.topic)
        if patch.topic in numbers and not unnumbered:
            raise UsageError(
                f"The changelog entries of {patch.topic} have their numbers: leave out --number for this topic."
            )
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


def _keeps(repository: Repository, release: str, topic: str) -> bool:
    return topic in require_kept(repository.layout, release).series.topics


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
        name, place = f"submit/{patch.topic}", repository.layout.git_dir
        wanted = branch.Commits(self.state.base_commit, self.author, request.numbers)
        made = branch.commit(repository, patches, wanted)[-1]
        repository.git.run("update-ref", f"refs/heads/{name}", made)
        commit, onto = made, self.state.base_commit
        base, folder = f"Salt {self.state.base.version}", request.output / patch.topic
        changed = repository.changed(f"{made}^", made)
        with tempfile.TemporaryDirectory(dir=repository.layout.build, prefix=".scratch.") as scratch:
            new = Path(scratch) / "new"
            new.mkdir()
            if request.mails or request.clone:
                mails = write(repository, onto, made, (new if request.mails else Path(scratch)) / "mails")
            if request.clone is not None:
                base = request.onto or f"v{self.state.base.version}"
                commit, onto = into_clone(request.clone, base, patch.topic, mails, self.author)
                name, place = patch.topic, request.clone
                base = f"{base} ({onto})"
            page = repository.layout.root / "docs" / "upstream-texts.md"
            said = said_of(page.read_text(encoding="utf-8"), patch.topic) if page.is_file() else {}
            number = request.numbers.get(patch.topic)
            bugs = zoo.bugs_of(repository.layout.root, patch.topic)
            kept = tuple(one for one in releases(repository.layout) if _keeps(repository, one, patch.topic))
            cover = Cover(patch, patches[:-1], changed, base, name, number, said, bugs, kept)
            (new / COVER).write_text(cover.text, encoding="utf-8")
            if QUESTIONS in said:
                (new / COMMENT).write_text("\n\n".join(paragraphs(said[QUESTIONS])) + "\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(new, folder)
        # what upstream will miss, without a refusal
        lacking = incomplete(repository, self.series, self.state, (one.topic for one in patches))
        return Submission(
            topic=patch.topic,
            author=str(self.author),
            branch=name,
            repository=str(place),
            commit=commit,
            base_commit=onto,
            target=cover.target,
            cover=str(folder / COVER),
            tree=repository.tree(made),
            mails=tuple(str(path) for path in sorted(folder.glob("mails/*.patch"))),
            warnings=tuple(f"{one.rule}: {one.subject} {one.message}" for one in lacking),
        )
