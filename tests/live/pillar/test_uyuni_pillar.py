"""The pillar `uyuni` on unpatched releases: its rules, each with a row of the page's tables."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from harness.database import schema, sources
from tests.live.helpers import salt_release
from tests.live.helpers.salt_release import RELEASES, release, with_extensions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database.sources import Database

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
# Uyuni's own table: another name than the proposal's, and numbers out of a sequence
TABLE = """
CREATE SEQUENCE suse_salt_pillar_id_seq;
CREATE TABLE suseSaltPillar (
    id NUMERIC NOT NULL PRIMARY KEY DEFAULT nextval('suse_salt_pillar_id_seq'),
    server_id NUMERIC REFERENCES rhnServer (id) ON DELETE CASCADE,
    group_id NUMERIC REFERENCES rhnServerGroup (id) ON DELETE CASCADE,
    org_id NUMERIC REFERENCES web_customer (id) ON DELETE CASCADE,
    category VARCHAR NOT NULL,
    pillar JSONB NOT NULL
)"""
FLEET = (
    "INSERT INTO web_customer VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO rhnServerGroup VALUES (9, 'a', '', 1), (10, 'b', '', 1), (11, 'c', '', 1)",
    "INSERT INTO rhnServer VALUES (7, 1, 'web'), (8, 1, 'db')",
    "INSERT INTO suseMinionInfo VALUES (7, 'web'), (8, 'db')",
    "INSERT INTO rhnServerGroupMembers VALUES (7, 10), (7, 9), (8, 11)",
)
OWNERS = {
    "everyone": None,
    "organization": ("org_id", 1),
    "organization 2": ("org_id", 2),
    "group": ("group_id", 9),
    **{f"group {number}": ("group_id", number) for number in (9, 10, 11)},
    "minion": ("server_id", 7),
    "another minion": ("server_id", 8),
}
ASK = """
import json, sys
import salt.config, salt.loader
sys.stdout, said = sys.stderr, sys.stdout
for line in sys.stdin:
    settings, asked = json.loads(line)
    opts = {**salt.config.master_config(None), **settings}
    # as a master does: each pillar has loaders of its own
    pillars = salt.loader.pillars(opts, {})
    try:
        found = pillars["uyuni"](asked.pop("minion_id", "web"), {}, **asked)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(json.dumps(found), file=said, flush=True)
"""


@pytest.fixture(scope="module")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build the extensions."""
    return salt_release.wheels(root, tmp_path_factory.mktemp("wheels"))


class Asker:
    """A process with a release of Salt that compiles pillars."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, server: dict[str, Any]) -> None:
        """Use a process that reads questions and writes answers, a line each."""
        self._process = process
        self._folder = folder
        self._server = server

    def __call__(self, asked: dict[str, Any] | None = None, **server: object) -> Any:
        """Return what the pillar says, with a master's configuration."""
        settings: dict[str, Any] = {"postgres": {**self._server, **server}}
        settings |= {name: str(self._folder / name) for name in ("root_dir", "cachedir", "extension_modules")}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([settings, asked or {}]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process ended"
        return json.loads(answer)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Yield a database with Uyuni's tables and a few minions."""
    with sources.served(tmp_path_factory.mktemp("server")) as server:
        made = sources.make(server, "susemanager")
        for statement in (schema.read("uyuni.sql"), *FLEET):
            made.run(statement)
        yield made


@pytest.fixture(scope="module", params=RELEASES)
def ask(
    request: pytest.FixtureRequest,
    root: Path,
    wheels: list[Path],
    database: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Asker]:
    """Yield a release with the extensions that answers for the database."""
    folder = tmp_path_factory.mktemp(request.param)
    made = with_extensions(release(root, request.param), folder / "salt", wheels)
    command = [str(made / "bin" / "python"), "-W", "ignore", "-c", ASK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Asker(process, folder, {**database.server.salt_options(), "db": "susemanager"})
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(autouse=True)
def table(database: Database) -> None:
    """Begin each test with an empty table."""
    database.run(
        "DROP TABLE IF EXISTS suseSaltPillar, suseSaltPillars; DROP SEQUENCE IF EXISTS suse_salt_pillar_id_seq"
    )
    database.run(TABLE)


def put(database: Database, owner: str, category: str, pillar: dict[str, Any]) -> None:
    """Write a row of the table."""
    column, number = OWNERS[owner] or ("server_id", None)
    text = f"INSERT INTO suseSaltPillar ({column}, category, pillar) VALUES (%s, %s, %s)"  # noqa: S608 - of OWNERS
    database.run(text, number, category, json.dumps(pillar))


def rows_of(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of the page."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def mapping(text: str) -> dict[str, Any]:
    """Return what a cell of the page means: `a: 1, b: 2`."""
    found = yaml.safe_load("{" + text + "}")
    assert isinstance(found, dict)
    return found


def test_which_rows(ask: Asker, database: Database, root: Path) -> None:
    """Each row of the page's first table gives the pillar that stands beside it."""
    rules = rows_of((root / "docs" / "uyuni.md").read_text(), "Which rows")
    assert len(rules) == 7
    for name, rows, expected in rules:
        database.run("DELETE FROM suseSaltPillar")
        for owner, category, text in re.findall(r"([a-z 0-9]+?)(?:, category (\w))? `([^`]+)`", rows):
            put(database, owner.strip(), category or "general", mapping(text))
        minion = "nobody" if "unknown" in name else "web"
        found = ask({"minion_id": minion})
        assert found.pop("formulas") == []
        assert found == (mapping(expected.strip("`")) if "`" in expected else {}), name


def test_which_formulas(ask: Asker, database: Database, tmp_path: Path) -> None:
    """Forms are filled in with the values of groups and minions, and listed in order, over all other rows."""
    folder = tmp_path / "formulas"
    forms = {
        "ntp": {"ntp": {"$type": "namespace", "server": {"$default": "pool"}, "port": {"$scope": "group"}}},
        "users": {"users": {"$type": "edit-group", "$prototype": {"name": {}, "uid": {"$optional": True}}}},
        "only": {"only": {"$default": "d"}},
    }
    for name, form in forms.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "form.yml").write_text(yaml.safe_dump(form))
    (folder / "only" / "metadata.yml").write_text("pillar_only: true\n")
    put(database, "everyone", "general", {"ntp": {"server": "below", "other": 1}, "formula_order": ["users", "ntp"]})
    put(database, "group 9", "formula-ntp", {"ntp": {"server": "nine", "port": 9}})
    put(database, "group 10", "formula-ntp", {"ntp": {"port": 10}})
    put(database, "group 11", "formula-only", {"only": "another's"})
    put(database, "minion", "formula-ntp", {"ntp": {"port": 7}})
    put(database, "minion", "formula-users", {"users": [{"name": "ada"}, {"uid": 5}]})
    put(database, "minion", "formula-only", {})
    options = {"formulas": [str(tmp_path / "none"), str(folder)]}
    found = ask(options)
    assert found == {
        "ntp": {"server": "pool", "port": 10, "other": 1},
        "users": [{"name": "ada"}, {"name": "", "uid": 5}],
        "only": "d",
        "formulas": ["users", "ntp"],
    }
    put(database, "minion", "formula-gone", {})
    assert "The formula gone has no form.yml in" in ask(options)
    assert ask({**options, "lenient": True}) == found


def test_what_is_wrong_is_an_error(ask: Asker, database: Database) -> None:
    """No table, a name that is none, and a server that is gone are sentences, never a short pillar."""
    put(database, "everyone", "general", {"a": 1})
    whole = {"a": 1, "formulas": []}
    assert ask() == whole
    database.run("ALTER TABLE suseSaltPillar RENAME COLUMN category TO kind")
    assert "cannot be read: the database reports 42703, see the log of the master" in ask()
    database.run("ALTER TABLE suseSaltPillar RENAME COLUMN kind TO category")
    # where the database is and who asks it is nothing for a minion
    away = ask(host="127.0.0.1", port=9)
    assert ("cannot be read: it does not answer" in away, "127.0.0.1" in away) == (True, False)
    database.run("ALTER TABLE suseSaltPillar RENAME TO suseSaltPillars")
    assert ask() == whole
    database.run("DROP TABLE suseSaltPillars")
    assert "has neither suseSaltPillar nor suseSaltPillars" in ask()
