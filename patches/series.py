"""The series: the topics in the order in which they apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.errors import UsageError
from patches.git import keep
from patches.layout import write_atomically
from patches.patch import Patch, require_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from patches.layout import Layout


@dataclass(frozen=True)
class Series:
    """All patches, in order."""

    patches: tuple[Patch, ...]

    def __iter__(self) -> Iterator[Patch]:
        """Go through the patches in order."""
        return iter(self.patches)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics' names in order."""
        return tuple(patch.topic for patch in self.patches)

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """Each topic with its file's hash: what the tree is made from."""
        return tuple((patch.topic, patch.sha256) for patch in self.patches)

    @property
    def files(self) -> tuple[str, ...]:
        """All new files that some topic claims, in order, repeated when two topics claim the same."""
        return tuple(name for patch in self.patches for name in patch.files)

    def get(self, topic: str) -> Patch:
        """Return a topic's patch.

        Raises:
            UsageError: when there is no such topic.
        """
        for patch in self.patches:
            if patch.topic == topic:
                return patch
        known = ", ".join(self.topics) or "there are none"
        raise UsageError(f"There is no topic '{topic}': choose one of patches/series ({known}).")

    def closure(self, topic: str) -> tuple[Patch, ...]:
        """Return a topic's patch after all that it requires, in the order of the series.

        Raises:
            UsageError: when it requires a topic that does not come before it.
        """
        wanted = {topic}
        for patch in reversed(self.patches):
            if patch.topic in wanted:
                earlier = self.topics[: self.topics.index(patch.topic)]
                for name in patch.requires:
                    if name not in earlier:
                        raise UsageError(f"{patch.topic} requires '{name}': put that before it in patches/series.")
                wanted.update(patch.requires)
        self.get(topic)
        return tuple(patch for patch in self.patches if patch.topic in wanted)

    def replaced(self, patches: Iterable[Patch]) -> Series:
        """Return the series with some patches replaced, and those that are new at its end."""
        new = {patch.topic: patch for patch in patches}
        kept = tuple(new.pop(patch.topic, patch) for patch in self.patches)
        return Series((*kept, *new.values()))


def read_series(layout: Layout) -> Series:
    """Read the series and its patches.

    Raises:
        UsageError: when a patch is missing, listed twice, or on disk without being listed.
    """
    try:
        text = layout.series.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    topics = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for topic in topics:
        require_topic(topic)
        if topics.count(topic) > 1:
            raise UsageError(f"{layout.series} lists '{topic}' twice: remove one of the lines.")
        if not layout.patch(topic).is_file():
            raise UsageError(f"{layout.patch(topic)} is missing: restore it, or take '{topic}' out of patches/series.")
    for path in sorted(layout.patches.glob("*.patch")):
        if path.stem not in topics:
            raise UsageError(f"{path} is not listed: add '{path.stem}' to patches/series, or delete the file.")
    return Series(tuple(Patch(topic, layout.patch(topic).read_bytes()) for topic in topics))


def keep_uncommitted(layout: Layout, series: Series) -> tuple[str, ...]:
    """Copy the patches on disk that a series would overwrite and that nobody committed; give the copies."""
    on_disk = {patch.topic: layout.patch(patch.topic).read_bytes() for patch in series}
    copies = (keep(layout, patch.topic, on_disk[patch.topic]) for patch in series if on_disk[patch.topic] != patch.data)
    return tuple(str(path) for path in copies if path is not None)


def write_series(layout: Layout, series: Series) -> tuple[str, ...]:
    """Write the patches that differ from the files on disk, and the series; give the topics that were written.

    Comments in the series are kept: new topics are added at its end.
    """
    written = []
    for patch in series:
        path = layout.patch(patch.topic)
        if not path.is_file() or path.read_bytes() != patch.data:
            write_atomically(path, patch.data)
            written.append(patch.topic)
    text = layout.series.read_text(encoding="utf-8") if layout.series.exists() else ""
    lines = [line.strip() for line in text.splitlines()]
    added = [topic for topic in series.topics if topic not in lines]
    if added:
        write_atomically(layout.series, "".join(f"{line}\n" for line in (*lines, *added)).encode())
    return tuple(written)
