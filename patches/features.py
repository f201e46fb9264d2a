"""Which feature one gets on which release of Salt, how, and the test that shows it.

An extension is a wheel for a Salt as it is. Topics are patches: on the base they are all there, on another release git
takes them over or not, see `fits`. The table of the README is made of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.base import read_base
from patches.errors import UsageError
from patches.fits import fits
from patches.wheels import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from patches.repository import Repository

#: The newest release of each line that fleets run; one of them is the base of the patches.
RELEASES = ("3006.30", "3007.17", "3008.5")
EXTENSION, PATCH, NO = "extension", "patch", "no"
_BASE_TEST = "python -m patches check --tests --topic {topic}"
_FITS_TEST = "python -m patches check --base {release} --topic {topic}"


@dataclass(frozen=True)
class Feature:
    """A feature: what people call it, its page, the extension or the topics that it is, and its test on a release."""

    title: str
    page: str
    extension: str = ""
    topics: tuple[str, ...] = ()
    test: str = ""


@dataclass(frozen=True)
class Cell:
    """How one gets a feature on a release, and the test or command that shows it."""

    feature: str
    release: str
    how: str
    test: str


FEATURES = (
    Feature(
        "Queries",
        "docs/query.md",
        extension="query",
        test="tests/live/test_extensions.py::test_query_runner[{release}]",
    ),
    Feature(
        "Package states, packages changed behind Salt's back",
        "docs/package-states.md",
        extension="package-states",
        test="tests/live/test_package_states_end.py::test_from_a_saved_state_to_a_repaired_minion[{release}]",
    ),
    Feature(
        "Uyuni's pillar files into PostgreSQL and back",
        "docs/pillar-storage.md",
        extension="uyuni-pillar",
        test="tests/live/test_extensions.py::test_pillar_runner[{release}]",
    ),
    Feature(
        "Pillars out of PostgreSQL: JSON, parameters, kept connections",
        "docs/pillar-storage.md",
        topics=(
            "sql-base-json",
            "sql-base-params",
            "sql-pillar-failures",
            "sql-pillar-tls",
            "sql-pillar-connections",
        ),
        test="tests/live/test_pillar_releases.py::test_pillar_on_a_patched_release[{release}]",
    ),
    Feature("The job handler", "docs/job-handler.md", topics=("job-handler", "job-criteria")),
    Feature("The module interface", "docs/module-interface.md", topics=("module-interface-report",)),
)


def cells(repository: Repository, output: Path) -> tuple[Cell, ...]:
    """Try all features on all releases; the caller holds the lock.

    :param output: the folder for the patches that apply, see `fits`.
    :raises UsageError: when an extension is not there, when no release is the base, or when the tree is not made.
    :raises FetchError: when a release can't be downloaded.
    """
    base = read_base(repository.layout).version
    if base not in RELEASES:
        raise UsageError(f"{base}, the base of the patches, is none of {', '.join(RELEASES)}: change RELEASES.")
    missing = {feature.extension for feature in FEATURES if feature.extension} - set(names(repository.layout))
    if missing:
        raise UsageError(f"There is no extension {', '.join(sorted(missing))}: change FEATURES.")
    others = [release for release in RELEASES if release != base]
    topics = [topic for feature in FEATURES for topic in feature.topics]
    applies = {(fit.topic, fit.release): bool(fit.written) for fit in fits(repository, others, topics, output)}
    return tuple(_cell(feature, release, base, applies) for feature in FEATURES for release in RELEASES)


def _cell(feature: Feature, release: str, base: str, applies: dict[tuple[str, str], bool]) -> Cell:
    test = feature.test.format(release=release)
    if feature.extension:
        return Cell(feature.title, release, EXTENSION, test)
    first = feature.topics[0]
    if release == base:
        return Cell(feature.title, release, PATCH, _BASE_TEST.format(topic=first))
    if all(applies[topic, release] for topic in feature.topics) and test:
        return Cell(feature.title, release, PATCH, test)
    return Cell(feature.title, release, NO, _FITS_TEST.format(release=release, topic=first))


def table(found: Iterable[Cell]) -> list[str]:
    """Return the cells as lines of a table in Markdown: a row for each feature, a column for each release."""
    by_place = {(cell.feature, cell.release): cell.how for cell in found}
    lines = [f"| feature | {' | '.join(RELEASES)} | install it with |", f"|---|{'---|' * len(RELEASES)}---|"]
    for feature in FEATURES:
        hows = [by_place[feature.title, release] for release in RELEASES]
        lines.append(f"| [{feature.title}]({feature.page}) | {' | '.join(hows)} | {_install(feature, hows)} |")
    return lines


def _install(feature: Feature, hows: Sequence[str]) -> str:
    if feature.extension:
        return f"`salt-pip install build/wheels/saltext_{feature.extension.replace('-', '_')}-*.whl`"
    patched = "[the patched Salt](#install-the-patched-salt)"
    if hows.count(PATCH) > 1:
        return f"{patched}, or [a patch](docs/contributing.md#on-other-releases)"
    return patched
