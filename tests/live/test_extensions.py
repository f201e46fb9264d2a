"""The extensions on the Salt that people have: unpatched releases, wheels, real and simulated minions."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.bed import Bed, BedSettings
from harness.database import schema, sources
from tests.live.helpers import real_minion, salt_release
from tests.live.helpers.query_rows import grains_are_cached, query
from tests.live.helpers.salt_release import RELEASES, release, with_extensions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

COUNT = 5
REAL = "real"
ROLE = """
from saltext.query.field import Field
from saltext.query.item import Item, ItemType, named


def _items(context, names):
    for name in named({"db": 1, "web": 2}, names):
        yield Item(context, name)


def item_type():
    field = Field("name", "Role", "text", "Name of the role", lambda role: role.name)
    return ItemType("role", "Roles of machines", [field], _items)
"""


NEXT_STEP = "CREATE TABLE package_states.later (id INTEGER);"


@pytest.fixture(scope="session")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build the extensions."""
    return salt_release.wheels(root, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module", params=RELEASES)
def environment(
    request: pytest.FixtureRequest, root: Path, wheels: Sequence[Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a release with the extensions, which nobody may write to any more."""
    made = with_extensions(release(root, request.param), tmp_path_factory.mktemp(request.param) / "salt", wheels)
    for path in (*made.rglob("*"), made):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return made


@pytest.fixture(scope="module")
def bed(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield an unpatched master with the extensions, simulated minions and a real one."""
    folder = tmp_path_factory.mktemp("extensions")
    modules = folder / "modules"
    (modules / "query_types").mkdir(parents=True)
    (modules / "query_types" / "role.py").write_text(ROLE)
    settings = BedSettings(
        tree=environment,
        folder=folder / "bed",
        minions=COUNT,
        pillar="none",
        postgres="none",
        api=None,
        master_options={"module_dirs": [str(modules)]},
    )
    with Bed(settings) as found:
        found.start_fleet().wait_ready(120)
        real_minion.start(found, REAL)
        found.salt(["*", "saltutil.refresh_pillar"])
        grains_are_cached(found, COUNT + 1)
        yield found


def test_query_runner(bed: Bed) -> None:
    """Every function of the runner answers, and what is wrong has an exit code."""
    rows = query(bed, "node", "name,key_state,nope")
    names = [REAL, *(f"minion-{number:05d}" for number in range(COUNT))]
    assert sorted(rows) == sorted([[0, name], [0, "accepted"], [1, None]] for name in names)
    (row,) = query(bed, "node", "os_family,alive", f"name == {REAL}")
    assert row[0][0] == 0
    assert row[1] == [0, True]
    found = json.loads(bed.salt_run(["query.fields", "lock", "name", "--out=json"]).stdout)
    assert [one["name"] for one in found["fields"]] == ["name"]
    for what in ("os", "job", "lock", "instance"):
        query(bed, what, "name" if what != "job" else "id")
    assert query(bed, "role", "name") == [[[0, "db"]], [[0, "web"]]]
    assert "accepted" in bed.salt_run(["query.items", "node", "name,key_state", "--out=query"]).stdout
    wrong = bed.salt_run(["query.items", "nodes", "name"])
    assert wrong.returncode == 1
    # the site's own type as well
    assert "Ask for one of instance, job, lock, node, os, package, role, not for" in wrong.stdout


def test_query_command(bed: Bed) -> None:
    """The command prints the same bytes on every release."""
    shown = bed.run("salt-query", ["node", "-F", 'name =* "minion-*"', "-o", "name,key_state,nope"])
    assert shown.returncode == 1
    lines = ["Node         KeyState", *(f"minion-{number:05d} accepted" for number in range(COUNT))]
    assert shown.stdout == "\n".join(lines) + "\n"
    assert shown.stderr == "salt-query: no such field: nope; --list-fields shows those that there are\n"
    assert bed.run("salt-query", ["role"]).stdout == "Role\ndb\nweb\n"


@pytest.fixture(scope="module")
def pillar_bed(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield an unpatched master with the extensions, and pillars of minions in PostgreSQL."""
    folders = {name: str(tmp_path_factory.mktemp(name)) for name in ("pillar_data", "formula_data")}
    settings = BedSettings(
        tree=environment,
        folder=tmp_path_factory.mktemp("pillar"),
        minions=COUNT,
        api=None,
        master_options={"pillar_sql": folders},
    )
    with Bed(settings) as found:
        schema.install_form(found.postgres.dsn, schema.FORMS["improved"])
        yield found


def test_pillar_runner(pillar_bed: Bed) -> None:
    """Pillars go from files to the database."""
    bed = pillar_bed
    database = sources.Database(bed.postgres)
    folder = Path(bed.settings.master_options["pillar_sql"]["pillar_data"])
    (folder / "pillar_minion-00000_custom_info.yml").write_text("{custom_info: {a: 1}}")
    (folder / "pillar_nobody.yml").write_text("{org_id: 1}")
    done = bed.salt_run(["pillar_sql.import_files", "dry_run=True", "--out=json"])
    assert done.returncode == 0, done.stdout + done.stderr
    row = "SELECT pillar FROM suseSaltPillars WHERE category = 'custom_info'"
    assert database.run(row) == []
    done = bed.salt_run(["pillar_sql.import_files", "--out=json"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ignored"] == [str(folder / "pillar_nobody.yml")]
    assert database.run(row) == [({"custom_info": {"a": 1}},)]
    (folder / "pillar_minion-00000.yml").write_text("a: [")
    assert bed.salt_run(["pillar_sql.import_files"]).returncode == 1


def test_own_tests(environment: Path, root: Path, tmp_path: Path) -> None:
    """The extensions' own tests pass on each release, from the wheels."""
    for folder in sorted((root / "salt" / "extensions").iterdir()):
        command = [str(environment / "bin" / "python"), "-m", "pytest", "-q", "-c", str(folder / "pyproject.toml")]
        where = ["--rootdir", str(folder), "--basetemp", str(tmp_path / folder.name), str(folder / "tests")]
        done = subprocess.run(
            [*command, *where],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]


def test_pip_leaves_salt_alone(wheels: Sequence[Path]) -> None:
    """No wheel requires anything: pip would put another Salt in place of one whose own requirements are not met."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
            lines = opened.read(name).decode().splitlines()
        assert [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line] == []


def test_same_version_built_anew(root: Path, wheels: Sequence[Path], tmp_path: Path) -> None:
    """The page's way to upgrade takes a wheel of the same version that was built of newer sources."""
    made = with_extensions(release(root, RELEASES[-1]), tmp_path / "salt", wheels)
    newer = salt_release.newer_wheel(root, "package-states", tmp_path / "newer", NEXT_STEP, version=None)
    command = [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index", "--force-reinstall"]
    subprocess.run([*command, str(newer)], check=True)
    assert list(made.rglob("099_next.sql"))


def test_versions_report(bed: Bed) -> None:
    """Salt names the extensions that it has."""
    found = bed.run("salt", ["--versions-report"]).stdout
    assert "saltext-query: 1.0.0" in found
    assert "saltext-package-states: 1.1.0" in found
    assert "saltext-uyuni-pillar: 1.0.0" in found


def test_uninstalled(root: Path, wheels: Sequence[Path], tmp_path: Path) -> None:
    """Taking the extensions away after one was used leaves no file of them."""
    made = with_extensions(release(root, RELEASES[-1]), tmp_path / "salt", wheels)
    site = next((made / "lib").glob("python3*")) / "site-packages"
    used = "import saltext.query as q; print(q.fields({}, 'node', ['name'])['fields'][0]['name'])"
    done = subprocess.run([made / "bin" / "python", "-c", used], capture_output=True, text=True, check=True)
    assert done.stdout == "name\n"
    assert (site / "saltext" / "query" / "types" / "__pycache__").is_dir()
    names = ["-".join(path.name.split("-")[0].split("_")) for path in wheels]
    subprocess.run([made / "bin" / "python", "-m", "pip", "uninstall", "--quiet", "--yes", *names], check=True)
    # pip may leave the folder that extensions share
    assert not [path for top in site.glob("saltext*") for path in (top, *top.rglob("*")) if path.is_file()]
    assert not (made / "bin" / "salt-query").exists()


def test_wheels_are_the_same_bytes(root: Path, wheels: Sequence[Path]) -> None:
    """Whoever builds them later, elsewhere and with another umask gets the same files."""
    found = subprocess.run(
        ["sh", "-c", 'umask 077; exec "$0" -m patches wheels --json', sys.executable],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    again = {Path(one["path"]).name: Path(one["path"]).read_bytes() for one in json.loads(found.stdout)["wheels"]}
    assert again == {path.name: path.read_bytes() for path in wheels}


def test_upgraded_and_gone(root: Path, wheels: Sequence[Path], tmp_path: Path) -> None:
    """A newer version takes the place of the older one, and its new tables come to those that are filled."""
    made = with_extensions(release(root, RELEASES[0]), tmp_path / "salt", wheels)
    site = next((made / "lib").glob("python3*")) / "site-packages"
    with sources.served(tmp_path) as server:
        database = sources.make(server, "upgraded")
        options = {**server.salt_options(), "db": "upgraded"}

        def run(function: str, *arguments: str, code: int = 0) -> str:
            config = tmp_path / "etc"
            config.mkdir(exist_ok=True)
            settings = {
                "root_dir": str(tmp_path / "root"),
                "postgres": options,
                "package_states": {"sls_root": str(tmp_path)},
            }
            (config / "master").write_text(json.dumps(settings))
            command = [
                str(made / "bin" / "salt-run"),
                f"--config-dir={config}",
                f"package_states.{function}",
                *arguments,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == code, done.stdout + done.stderr
            return done.stdout

        run("setup")
        run("set", "web")
        run("set", "web", "vim", "latest")
        before = database.run("SELECT * FROM package_states.revision")
        newer = salt_release.newer_wheel(root, "package-states", tmp_path / "newer", NEXT_STEP)
        pip = [str(made / "bin" / "python"), "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(newer)], check=True)
        assert [path.name for path in site.glob("saltext_package_states-*")] == [
            "saltext_package_states-99.0.dist-info"
        ]
        assert "run package_states.setup" in run("show", code=1)
        assert "099_next" in run("setup")
        assert database.run("SELECT * FROM package_states.revision") == before
        assert database.run("SELECT count(*) FROM package_states.later") == [(0,)]
        run("set", "web", "nano", "latest")
        assert "vim" in run("show", "web")
        # and back: the older one says that it is too old
        older = next(path for path in wheels if path.name.startswith("saltext_package_states"))
        subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(older)], check=True)
        assert "install the newer version" in run("show", code=1)
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", "saltext-package-states"], check=True)
        assert not [path for path in (site / "saltext" / "package_states").rglob("*") if path.is_file()]
        assert database.run("SELECT count(*) FROM package_states.revision") == [(2,)]
