"""The real patches on their way to upstream and between releases, and which of upstream's tests are run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patches import hooks, suite
from patches.base import read_base
from patches.layout import Layout
from patches.patch import Patch
from patches.repository import Repository
from patches.series import Series, read_series

if TYPE_CHECKING:
    from tests.unit.patches.conftest import Project

pytestmark = pytest.mark.slow


def test_closure_is_in_the_order_of_the_series() -> None:
    """A topic comes after all that it requires, directly or not, whatever order its trailer has."""

    def patch(topic: str, requires: str) -> Patch:
        trailer = f"Requires: {requires}\n" if requires else ""
        return Patch(topic, f"From x\nSubject: s\n\nWhy.\n\nUpstream-PR: none\n{trailer}".encode())

    series = Series((patch("a", ""), patch("b", ""), patch("c", "a"), patch("d", "c, a")))
    assert [one.topic for one in series.closure("d")] == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("salt/pillar/sql_base.py", "tests/pytests/unit/pillar/test_sql_base.py"),
        ("salt/pillar/sql_base.py", "tests/pytests/functional/pillar/sql_base"),
        ("salt/master.py", "tests/pytests/unit/test_master.py"),
    ],
)
def test_tests_of_a_module_are_where_upstream_has_them(name: str, expected: str) -> None:
    """A changed module's tests are found by upstream's naming."""
    assert expected in suite.tests_of(name)


def test_tests_below_a_listed_folder_run_once() -> None:
    """A file below a listed folder is not listed again."""
    listed = ("tests/a/test_one.py", "tests/a", "tests/b/test_two.py")
    assert suite.covering(listed) == ("tests/a", "tests/b/test_two.py")


# What the made-up release cannot show, on the real one
REAL = Layout(Path(__file__).resolve().parents[3])


@pytest.fixture
def real(tmp_path: Path, project: Project) -> Project:
    """Give a copy of this project's patches and new files, with its downloads at hand."""
    if not REAL.state.exists():
        pytest.skip("the tree was not made yet: run 'nox -s apply'")
    project = type(project)(tmp_path / "real")
    project.layout.build.mkdir(parents=True)
    project.layout.sdists.symlink_to(REAL.sdists)
    (project.layout.build / "venv").symlink_to(REAL.build / "venv")
    series = read_series(REAL)
    for path in (REAL.pin, REAL.series, *(REAL.patch(topic) for topic in series.topics)):
        project.layout.patches.mkdir(exist_ok=True)
        (project.layout.patches / path.name).write_bytes(path.read_bytes())
    for name in series.files:
        project.write(name, (REAL.salt / name).read_text())
    # the releases that were imported before need not be imported again
    project.repository.prepare()
    (project.layout.git_dir / "objects/info/alternates").write_text(f"{REAL.git_dir}/objects\n")
    for line in (
        Repository(REAL).git.text("for-each-ref", "--format=%(objectname) %(refname)", "refs/bases").splitlines()
    ):
        commit, ref = line.split()
        project.repository.git.run("update-ref", ref, commit)
    return project


def test_this_project_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """No drift, nothing of upstream tracked, each patch alone and complete: on this very checkout."""
    from patches.__main__ import main  # noqa: PLC0415 - beside its only use

    if not REAL.state.exists():
        pytest.skip("the tree was not made yet: run 'nox -s apply'")
    assert main(["check"]) == 0, capsys.readouterr().out


@pytest.mark.early
def test_real_patches_move_between_releases(real: Project) -> None:
    """From the pinned release to 3008.3 and back: clean, the same patches and the same tree."""
    base = read_base(real.layout)
    before = real.ids()
    patches = {path.name: path.read_bytes() for path in real.layout.patches.iterdir()}
    there = real.run("bump", "3008.3")
    assert there.code == 0, there.err
    assert real.run("check").code == 0
    back = real.run("bump", base.version)
    assert back.code == 0, back.err
    assert {path.name: path.read_bytes() for path in real.layout.patches.iterdir()} == patches
    assert real.ids() == before


@pytest.mark.early
@pytest.mark.parametrize("release", sorted(path.name for path in REAL.releases.iterdir()))
def test_series_of_a_release_is_written_whole(real: Project, release: str) -> None:
    """The topics that are kept for a release apply to it one after the other, in a git that knows nothing else."""
    real.ids()
    shutil.copytree(REAL.releases / release, real.layout.releases / release)
    topics = (REAL.releases / release / "series").read_text().split()
    ended = real.run("export", "--base", release, "--json")
    assert ended.code == 0, ended.err
    written = [path.stem for path in (real.layout.build / "export").glob("*.patch")]
    assert sorted(written) == sorted(topics)


@pytest.mark.early
def test_real_topics_are_sent_whole(real: Project) -> None:
    """Each topic is a branch with a whole text, and its mails make, of the pristine release, the same tree."""
    real.ids()
    series = read_series(real.layout)
    topics = series.topics
    unnumbered = [topic for topic in topics if any(map(hooks.is_unnumbered, series.get(topic).files))]
    assert unnumbered
    numbers = [f"--number={topic}={number}" for number, topic in enumerate(unnumbered, 1)]
    ended = real.run("submit", *topics, *numbers, "--mails", "--json")
    assert ended.code == 0, ended.out
    assert [one["topic"] for one in ended.data["submissions"]] == list(topics)
    for one in ended.data["submissions"]:
        text = Path(one["cover"]).read_text()
        assert text.startswith(f"# {series.get(one['topic']).subject}\n\n### What does this PR do?\n")
        assert "- [x] Changelog\n- [x] Tests written/updated" in text
        assert one["mails"]
        assert not one["warnings"]
