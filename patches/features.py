"""Which feature one gets on which release of Salt, how, and the test that shows it.

An extension is a wheel for a Salt as it is. Topics are patches: on the base they are all there, on another release
those of the series that is kept for it. The table of the README is made of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.base import read_base
from patches.errors import UsageError
from patches.kept import read_kept
from patches.wheels import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from patches.repository import Repository

#: The newest release of each line that fleets run; one of them is the base of the patches.
RELEASES = ("3006.30", "3007.17", "3008.5")
EXTENSION, PATCH, NO, MENDED = "extension", "patch", "no", "in Salt"
_BASE_TEST = "python -m patches check --tests --topic {topic}"
_FITS_TEST = "python -m patches check --base {release} --topic {topic}"


@dataclass(frozen=True)
class Feature:
    """A feature: what people call it, its page, the extension or the topics that it is, and its test on a release.

    `mended` are releases that have it without us; `needs` names packages that its extension needs beside Salt.
    """

    title: str
    page: str
    extension: str = ""
    topics: tuple[str, ...] = ()
    test: str = ""
    mended: tuple[str, ...] = ()
    needs: str = ""


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
        needs="psycopg2-binary ",
        test="tests/live/test_package_states_end.py::test_from_a_saved_state_to_a_repaired_minion[{release}]",
    ),
    Feature(
        "The console, a page in the browser",
        "docs/console.md",
        extension="console",
        test="tests/live/test_console_releases.py::test_release[{release}]",
    ),
    Feature(
        "Uyuni's pillar files into PostgreSQL",
        "docs/uyuni.md",
        extension="uyuni-pillar",
        needs="psycopg2-binary ",
        test="tests/live/test_extensions.py::test_pillar_runner[{release}]",
    ),
    Feature(
        "Pillars of Uyuni, formulas included",
        "docs/uyuni.md",
        extension="uyuni-pillar",
        needs="psycopg2-binary ",
        test="tests/live/test_uyuni_pillar.py::test_which_rows[{release}]",
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
    Feature(
        "Returns cost the job cache less, and none is lost there",
        "docs/topics.md",
        topics=("job-cache-return",),
        test="tests/live/test_pillar_releases.py::test_quick_on_a_patched_release[{release}]",
    ),
    Feature(
        "All modules are loaded, also those named as one that failed",
        "docs/module-interface.md",
        topics=("load-all",),
        test="tests/live/test_pillar_releases.py::test_all_modules_are_loaded[{release}]",
        mended=("3006.30", "3007.17"),
    ),
    Feature("The job handler", "docs/job-handler.md", topics=("job-handler",)),
    Feature("The module interface", "docs/module-interface.md", topics=("module-interfaces", "module-interface-check")),
)


def cells(repository: Repository) -> tuple[Cell, ...]:
    """Return each feature on each release; what is kept for a release is tried by `check --base`.

    :raises UsageError: when an extension is not there, or when no release is the base.
    """
    base = read_base(repository.layout).version
    if base not in RELEASES:
        raise UsageError(f"{base}, the base of the patches, is none of {', '.join(RELEASES)}: change RELEASES.")
    missing = {feature.extension for feature in FEATURES if feature.extension} - set(names(repository.layout))
    if missing:
        raise UsageError(f"There is no extension {', '.join(sorted(missing))}: change FEATURES.")
    series = {release: read_kept(repository.layout, release) for release in RELEASES if release != base}
    kept = {release: found.series.topics if found else () for release, found in series.items()}
    return tuple(_cell(feature, release, base, kept) for feature in FEATURES for release in RELEASES)


def _cell(feature: Feature, release: str, base: str, kept: Mapping[str, Sequence[str]]) -> Cell:
    test = feature.test.format(release=release)
    if feature.extension:
        return Cell(feature.title, release, EXTENSION, test)
    first = feature.topics[0]
    if release == base:
        return Cell(feature.title, release, PATCH, _BASE_TEST.format(topic=first))
    if release in feature.mended:
        return Cell(feature.title, release, MENDED, test)
    if set(feature.topics) <= set(kept[release]) and test:
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
        return f"`salt-pip install {feature.needs}build/wheels/saltext_{feature.extension.replace('-', '_')}-*.whl`"
    patched = "[the patched Salt](docs/install.md)"
    if hows.count(PATCH) > 1:
        return f"{patched}; on 3006 and 3007 [its patches](docs/topics.md#on-other-releases)"
    return patched
