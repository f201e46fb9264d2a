"""Which topics a new one requires: those whose lines it changes, without which git can't apply it to the base."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from patches.errors import ConflictError
from patches.git import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patches.repository import Repository
    from patches.series import Series

HUNK = re.compile(r"^@@ -(?P<start>\d+)(?:,(?P<count>\d+))? ")


def propose(
    repository: Repository, base_commit: str, series: Series, topic: str, commits: Mapping[str, str]
) -> tuple[Series, tuple[str, ...]]:
    """Add to a topic's trailers what it needs and does not name; give the series with it, and what was added.

    :param commits: each topic's commit.
    """
    if _applies(repository, base_commit, series, topic, ()):
        return series, ()
    names = {commit: name for name, commit in commits.items()}
    near = {names[commit] for commit in _blamed(repository, commits[topic]) if commit in names}
    wanted = [name for name in series.topics if name in near and name not in series.get(topic).requires]
    if not wanted or not _applies(repository, base_commit, series, topic, wanted):
        # lines further off, such as those that move a hunk's place: all that change the same files
        touched = set(repository.changed(f"{commits[topic]}^", commits[topic]))
        wanted = [
            name
            for name, commit in commits.items()
            if name != topic and touched & set(repository.changed(f"{commit}^", commit))
        ]
    for name in list(wanted):
        fewer = [other for other in wanted if other != name]
        if _applies(repository, base_commit, series, topic, fewer):
            wanted = fewer
    if not wanted or not _applies(repository, base_commit, series, topic, wanted):
        return series, ()
    return series.replaced([series.get(topic).with_requires(wanted)]), tuple(wanted)


def _applies(repository: Repository, base_commit: str, series: Series, topic: str, more: Iterable[str]) -> bool:
    """Tell whether a topic applies to the base after what it requires, and some more."""
    needed = {patch.topic for name in (topic, *more) for patch in series.closure(name)}
    patches = [patch for patch in series if patch.topic in needed]
    try:
        with repository.scratch(base_commit, checkout=False) as git:
            repository.apply(git, patches)
    except ConflictError:
        return False
    return True


def _blamed(repository: Repository, commit: str) -> set[str]:
    """Give the commits that wrote the lines in and around a commit's changes."""
    found: set[str] = set()
    for name in repository.changed(f"{commit}^", commit):
        if name not in repository.files(f"{commit}^"):
            continue
        diff = repository.git.run("diff", "--no-color", "--unified=3", f"{commit}^", commit, "--", f":(literal){name}")
        for line in decode(diff.out).splitlines():
            match = HUNK.match(line)
            if match is None or match["count"] == "0":
                continue
            lines = f"{match['start']},+{match['count'] or 1}"
            blamed = repository.git.attempt("blame", "-l", "-s", "-L", lines, f"{commit}^", "--", name)
            found |= {text.partition(" ")[0] for text in blamed.text.splitlines()}
    return found
