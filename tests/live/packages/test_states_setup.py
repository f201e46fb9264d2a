"""The tables of package states in a real PostgreSQL: made, upgraded, refused."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from harness.database import schema, sources
from harness.saltprocess.patched import Salt, patched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database import Postgres

pytestmark = pytest.mark.live
STEPS = ["001_tables", "003_membership", "004_status", "006_available", "007_behind", "008_no_team"]
# what step 5 made, in parts, and what a site had saved with it
TEAM = """
CREATE TABLE package_states.stage (number INTEGER PRIMARY KEY, name VARCHAR(64) NOT NULL);
CREATE TABLE package_states.request (id INTEGER PRIMARY KEY);
CREATE TABLE package_states.decision (request_id INTEGER REFERENCES package_states.request (id));
CREATE TABLE package_states.generation_contents (digest VARCHAR(64) PRIMARY KEY);
CREATE TABLE package_states.generation (digest VARCHAR(64) REFERENCES package_states.generation_contents (digest));
ALTER TABLE package_states.assignment ADD COLUMN stage VARCHAR(64);
ALTER TABLE package_states.assignment_change ADD COLUMN stage VARCHAR(64);
CREATE FUNCTION package_states.check_state() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER state_check BEFORE UPDATE ON package_states.state
  FOR EACH ROW EXECUTE FUNCTION package_states.check_state();
INSERT INTO package_states.stage VALUES (1, 'dev'), (1000, 'prod');
INSERT INTO package_states.state (name) VALUES ('front');
INSERT INTO package_states.revision (state_id, number, contents, author, comment, items) VALUES
  (1, 1, 1, 'ann', 'why', '[{"package": "vim", "wanted": "latest"}]');
INSERT INTO package_states.assignment (state_id, kind, target, priority, author)
  VALUES (1, 'organization', 'all', 7, 'ann');
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with sources.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        yield found


def answer(
    salt: Salt,
    root: Path,
    postgres: dict[str, Any],
    function: str,
    minions: str = "database",
    **arguments: Any,
) -> dict[str, Any]:
    """Return what the runner answers."""
    changes = {
        # what is under package_states wins
        "postgres": {**postgres, "db": "nowhere"},
        "package_states": {"sls_root": str(root), "minions": minions, "postgres": {"db": postgres["db"]}},
    }
    found: dict[str, Any] = salt.act("run", changes, f"package_states.{function}", arguments)
    return found


def begin(script: str, steps: int) -> str:
    """Return the first steps of a script."""
    after = [found.end() for found in re.finditer(r"INTO package_states\.migration .*;", script)]
    return script[: after[steps - 1]] + "COMMIT;"


def test_two_at_the_same_time(server: Postgres, tmp_path: Path) -> None:
    """One of them makes the tables, the other one finds them."""
    made = sources.make(server, "together")
    options = made.server.salt_options()

    def setup(number: int) -> list[str]:
        with patched(tmp_path / f"salt{number}") as salt:
            return list(answer(salt, tmp_path, options, "setup")["result"]["applied"])

    with ThreadPoolExecutor(3) as pool:
        found = sorted(pool.map(setup, range(3)))
    assert found == [[], [], STEPS]


def test_what_is_refused(server: Postgres, salt: Salt, tmp_path: Path) -> None:
    """No tables, no right to make them, and tables of a newer version are one sentence each, and change nothing."""
    made = sources.make(server, "refused")
    options = made.server.salt_options()

    def refused(function: str, **arguments: Any) -> str:
        error = str(answer(salt, tmp_path, options, function, **arguments)["error"])
        assert "\n" not in error
        return error

    assert "run package_states.setup" in refused("show")
    made.run("CREATE ROLE nobody LOGIN PASSWORD 'x'")
    weak = {**options, "user": "nobody", "pass": "x"}
    error = str(answer(salt, tmp_path, weak, "setup")["error"])
    assert "permission denied" in error
    assert "may create a schema" in error
    assert made.run("SELECT count(*) FROM pg_namespace WHERE nspname = 'package_states'") == [(0,)]
    # Uyuni's tables are not there: nothing of the views stays, the tables do
    assert "has the tables of Uyuni" in refused("setup", uyuni=True)
    assert "make the views with package_states.setup uyuni=True" in refused("set", name="x")
    assert answer(salt, tmp_path, options, "setup")["result"]["applied"] == []
    made.run("INSERT INTO package_states.migration (number, name) VALUES (99, '099_later')")
    for function in ("show", "setup"):
        assert "install the newer version" in refused(function)


@pytest.mark.parametrize("steps", range(1, len(STEPS)))
def test_older_tables_are_upgraded(server: Postgres, salt: Salt, tmp_path: Path, steps: int) -> None:
    """Of each earlier version, with what people had saved: it is told, upgraded, and nothing of it is lost."""
    made = sources.make(server, f"older_{steps}")
    options = made.server.salt_options()
    text = answer(salt, tmp_path, options, "setup", dry_run=True)["result"]
    made.alone(begin(text, steps))
    made.run(
        "INSERT INTO package_states.state (name) VALUES ('front');"
        "INSERT INTO package_states.revision (state_id, number, contents, author, comment, items) VALUES"
        """ (1, 1, 1, 'ann for bob', 'why', '[{"package": "vim", "wanted": "latest"}]');"""
        "INSERT INTO package_states.assignment (state_id, kind, target, priority, author)"
        " VALUES (1, 'organization', 'all', 7, 'ann')"
    )
    assert "of an older version" in str(answer(salt, tmp_path, options, "set", "keys", name="x")["error"])
    assert answer(salt, tmp_path, options, "setup")["result"]["applied"] == STEPS[steps:]

    def do(function: str, **arguments: Any) -> Any:
        return answer(salt, tmp_path, options, function, "keys", **arguments)["result"]

    found = do("show", name="front")
    assert (found["packages"], found["author"], found["comment"]) == ({"vim": "latest"}, "ann for bob", "why")
    assert found["assigned"] == ["organization all (priority 7)"]
    assert do("set", name="front", package="nano", wanted="latest")["revision"] == 2


def test_the_tables_of_a_team_go(server: Postgres, salt: Salt, tmp_path: Path) -> None:
    """With stages that are in use nothing changes; without, states, revisions and assignments stay as they are."""
    made = sources.make(server, "team")
    options = made.server.salt_options()
    text = answer(salt, tmp_path, options, "setup", dry_run=True)["result"]
    made.alone(begin(text, 5))
    made.run(TEAM)
    before = made.run("SELECT * FROM package_states.revision"), made.run("SELECT * FROM package_states.state")
    error = str(answer(salt, tmp_path, options, "setup")["error"])
    assert error.startswith("this version has no stages, so the newest revisions would be in force everywhere;")
    assert made.run("SELECT max(number) FROM package_states.migration") == [(7,)]
    made.run("DELETE FROM package_states.stage")
    assert answer(salt, tmp_path, options, "setup")["result"]["applied"] == STEPS[-1:]
    assert before == (made.run("SELECT * FROM package_states.revision"), made.run("SELECT * FROM package_states.state"))
    shown = answer(salt, tmp_path, options, "show", "keys", name="front")["result"]
    assert shown["assigned"] == ["organization all (priority 7)"]
    left = "SELECT relname FROM pg_class WHERE relnamespace = 'package_states'::regnamespace AND relkind = 'r'"
    tables = {name for (name,) in made.run(left)}
    assert not tables & {"stage", "request", "decision", "promotion", "final_minion", "generation"}
    assert "state" in tables


def test_an_administrator_applies_the_script(server: Postgres, salt: Salt, tmp_path: Path) -> None:
    """What `dry_run` prints makes the same tables, which somebody else may use after a grant."""
    made = sources.make(server, "script")
    options = made.server.salt_options()
    text = answer(salt, tmp_path, options, "setup", dry_run=True)["result"]
    assert made.run("SELECT to_regclass('package_states.state')") == [(None,)]
    made.alone(text)
    assert answer(salt, tmp_path, options, "setup")["result"]["applied"] == []
    made.run("CREATE ROLE worker LOGIN PASSWORD 'x'")
    made.run("GRANT USAGE ON SCHEMA package_states TO worker")
    made.run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA package_states TO worker")
    weak = {**options, "user": "worker", "pass": "x"}
    assert "error" not in answer(salt, tmp_path, weak, "set", minions="keys", name="web")


@pytest.fixture
def planter(server: Postgres, request: pytest.FixtureRequest) -> tuple[sources.Database, str]:
    """Return a database in which another role may create in `public`, and that role."""
    name = f"planted_{abs(hash(request.node.nodeid))}"
    made = sources.make(server, name)
    made.run(f"CREATE ROLE {name} LOGIN PASSWORD 'x'; GRANT CREATE ON SCHEMA public TO {name}")
    made.run(f"GRANT CREATE ON DATABASE {name} TO {name}")
    return made, name


@pytest.mark.parametrize("planted", ["the schema", "package_states.state", "package_states.append_only"])
def test_a_schema_that_another_role_made(
    planter: tuple[sources.Database, str], salt: Salt, tmp_path: Path, planted: str
) -> None:
    """Another role's schema, table or function is refused, by the set-up, the script and every command."""
    made, role = planter
    options = made.server.salt_options()
    if planted == "the schema":
        made.run(f"CREATE SCHEMA package_states AUTHORIZATION {role}")
    else:
        made.run(f"CREATE SCHEMA package_states; GRANT ALL ON SCHEMA package_states TO {role}")
    text = answer(salt, tmp_path, options, "setup", dry_run=True)["result"]
    if planted.endswith("append_only"):
        made.run(
            f"SET ROLE {role}; CREATE FUNCTION package_states.append_only() RETURNS INTEGER LANGUAGE sql AS 'SELECT 1'"
        )
    else:
        made.run(f"SET ROLE {role}; CREATE TABLE package_states.state (name TEXT)")
    error = str(answer(salt, tmp_path, options, "setup")["error"])
    assert f"belongs to the role {role}" in error
    with pytest.raises(psycopg2.Error, match=f"belongs to the role {role}"):
        made.alone(text)
    # tables that look like those of this version
    made.run(
        "CREATE TABLE package_states.migration (number INTEGER, name TEXT, applied TIMESTAMPTZ DEFAULT now());"
        "INSERT INTO package_states.migration VALUES (8, '008_no_team')"
    )
    for function in ("show", "status", "setup"):
        assert f"belongs to the role {role}" in str(answer(salt, tmp_path, options, function)["error"])


def test_planted_tables_of_uyuni(planter: tuple[sources.Database, str], salt: Salt, tmp_path: Path) -> None:
    """The views read no tables that another role made."""
    made, role = planter
    made.alone(schema.read("uyuni.sql"))
    made.run(f"ALTER TABLE suseMinionInfo OWNER TO {role}")
    options = made.server.salt_options()
    assert f"belongs to the role {role}" in str(answer(salt, tmp_path, options, "setup", uyuni=True)["error"])
    made.run("ALTER TABLE suseMinionInfo OWNER TO CURRENT_USER")
    assert "error" not in answer(salt, tmp_path, options, "setup", uyuni=True)


def test_planted_operators(planter: tuple[sources.Database, str], salt: Salt, tmp_path: Path) -> None:
    """An operator of another role in `public` fits the columns better than PostgreSQL's own, and is not called."""
    made, role = planter
    made.run(
        f"SET ROLE {role};"
        "CREATE FUNCTION public.trap(VARCHAR, VARCHAR) RETURNS BOOLEAN LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'the trap of %', current_user; END $$;"
        "CREATE OPERATOR public.= (FUNCTION = public.trap, LEFTARG = VARCHAR, RIGHTARG = VARCHAR);"
    )
    options = made.server.salt_options()
    answer(salt, tmp_path, options, "setup")
    assert answer(salt, tmp_path, options, "set", "keys", name="front").get("error") is None


def test_advisory_locks_of_another_role(planter: tuple[sources.Database, str], salt: Salt, tmp_path: Path) -> None:
    """Any role that may connect can take these, and holds nobody up."""
    made, role = planter
    options = made.server.salt_options()
    with closing(psycopg2.connect(made.server.dsn)) as connection:
        # as versions before 1.2 did
        connection.cursor().execute(f"SET ROLE {role}; SELECT pg_advisory_lock({0x706B677374})")
        made.run(f"ALTER DATABASE {role} SET lock_timeout = '2s'")
        assert answer(salt, tmp_path, options, "setup")["result"]["applied"] == STEPS
        assert answer(salt, tmp_path, options, "set", "keys", name="front")["result"]["revision"] == 0


def test_a_role_that_may_only_read(planter: tuple[sources.Database, str], salt: Salt, tmp_path: Path) -> None:
    """It locks nobody out, and sees the status."""
    made, role = planter
    options = made.server.salt_options()
    answer(salt, tmp_path, options, "setup")
    made.run(f"GRANT USAGE ON SCHEMA package_states TO {role}")
    made.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA package_states TO {role}")
    with closing(psycopg2.connect(made.server.dsn)) as connection:
        connection.cursor().execute(f"SET ROLE {role}; LOCK TABLE package_states.migration IN ACCESS SHARE MODE")
        assert answer(salt, tmp_path, options, "set", "keys", name="front")["result"]["revision"] == 0
    weak = {**options, "user": role, "pass": "x"}
    assert "error" not in answer(salt, tmp_path, weak, "status", "keys", table=False)
