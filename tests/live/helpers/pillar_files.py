"""The files of sql/ as an administrator runs them: by psql, on a database of the tests."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.database.schema import SQL

if TYPE_CHECKING:
    from harness.database import Postgres, sources

# The table as Uyuni has it: the name in the singular, a numeric id, and a sequence of its own
UYUNI = """
CREATE TABLE suseSaltPillar (
    id NUMERIC NOT NULL PRIMARY KEY, server_id NUMERIC REFERENCES rhnServer (id) ON DELETE CASCADE,
    group_id NUMERIC REFERENCES rhnServerGroup (id) ON DELETE CASCADE,
    org_id NUMERIC REFERENCES web_customer (id) ON DELETE CASCADE, category VARCHAR NOT NULL, pillar JSONB NOT NULL,
    UNIQUE (server_id, category), UNIQUE (group_id, category), UNIQUE (org_id, category),
    CHECK (num_nonnulls(server_id, group_id, org_id) <= 1));
CREATE SEQUENCE suse_salt_pillar_id_seq;
CREATE INDEX suse_salt_pillar_server_id_idx ON suseSaltPillar (server_id);
CREATE INDEX suse_salt_pillar_group_id_idx ON suseSaltPillar (group_id);
CREATE INDEX suse_salt_pillar_org_id_idx ON suseSaltPillar (org_id);
"""
# What docs/pillar-table.md puts into the tables of Uyuni
OWNERS = """
INSERT INTO web_customer (id, name) VALUES (1, 'one'), (2, 'two');
INSERT INTO rhnServerGroup (id, name, description, org_id) VALUES (1, 'web', '', 1), (2, 'db', '', 1);
INSERT INTO rhnServer (id, org_id, name) VALUES (1, 1, 'web1'), (2, 1, 'web2'), (3, 2, 'other');
INSERT INTO suseMinionInfo (server_id, minion_id) VALUES (1, 'web1'), (2, 'web2'), (3, 'other');
INSERT INTO rhnServerGroupMembers (server_id, server_group_id) VALUES (1, 1), (1, 2), (2, 1);
"""


def psql(database: sources.Database, *names: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run files of sql/, with variables of psql."""
    files = [f"--file={SQL / name}" for name in names]
    given = [f"--set={name}={value}" for name, value in variables.items()]
    argv = ["psql", "--no-psqlrc", "--quiet", f"--dbname={database.server.address}", *given, *files]
    environment = {**os.environ, "PGPASSWORD": database.server.password}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)


def install(database: sources.Database, *names: str, **variables: str) -> None:
    """Run files of sql/; none of them may complain."""
    done = psql(database, *names, **variables)
    assert (done.returncode, done.stderr.count("ERROR")) == (0, 0), done.stderr


def as_role(database: sources.Database, role: str, password: str) -> Postgres:
    """Return the database as another role sees it."""
    return replace(database.server, user=role, password=password)
