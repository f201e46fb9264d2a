"""Make what upstream takes of a topic: a branch on the base with a text for the pull request, or mails."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patches import branch, changelog, mail
from patches.apply import shown
from patches.check import incomplete
from patches.checkout import uncommitted
from patches.clone import into_clone
from patches.contributor import read_contributor
from patches.cover import Cover
from patches.errors import UsageError
from patches.ready import ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patches.contributor import Contributor
    from patches.patch import Patch
    from patches.repository import Repository
    from patches.series import Series
    from patches.state import State

COVER = "pull-request.md"


@dataclass(frozen=True)
class Wish:
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


def submit(repository: Repository, wish: Wish) -> tuple[Submission, ...]:
    """Make each topic's branch, after the commits of what it requires; the caller holds the lock.

    :raises UsageError: when upstream would refuse a topic at sight, or when nobody can sign off.
    :raises UnsavedEditsError: when the tree has edits that the branch would lack.
    :raises ConflictError: when a branch is not what the tree is, or does not go onto the user's clone.
    """
    author = read_contributor(repository.layout)
    _, series, state = ready(repository)
    chosen = {topic: series.closure(topic) for topic in wish.topics}
    for topic, patches in chosen.items():
        _refuse(repository, topic, patches, wish.numbers)
    sender = _Sender(repository, series, state, wish, author)
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
        if patch.topic not in numbers and any(map(changelog.is_unnumbered, patch.files)):
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
    wish: Wish
    author: Contributor

    def send(self, patches: tuple[Patch, ...]) -> Submission:
        """Hand out a topic, the last one of these: its branch, its text and its mails."""
        repository, wish, patch = self.repository, self.wish, patches[-1]
        git, name, place = repository.git, f"submit/{patch.topic}", repository.layout.git_dir
        made = branch.commit(repository, patches, branch.Commits(self.state.base_commit, self.author, wish.numbers))
        version, before = branch.keep(git, patch.topic, made, self.state.base_commit)
        git.run("update-ref", f"refs/heads/{name}", made)
        base, folder = f"Salt {self.state.base.version}", wish.output / patch.topic
        changed = repository.changed(f"{made}^", made)
        with tempfile.TemporaryDirectory(dir=repository.layout.build, prefix=".scratch.") as scratch:
            new = Path(scratch) / "new"
            new.mkdir()
            if wish.mails or wish.clone:
                mails = mail.write(repository, version, (new if wish.mails else Path(scratch)) / "mails")
            if wish.clone is not None:
                base = wish.onto or f"v{self.state.base.version}"
                git, version, before = into_clone(wish.clone, base, patch.topic, mails, self.author)
                name, place = patch.topic, wish.clone
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
