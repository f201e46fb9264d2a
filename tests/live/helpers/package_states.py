"""A database, three minions, and the runner of a Salt that keeps package states of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.database import schema, sources

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saltprocess.patched import Salt

#: the lock of whoever saves, and how many wait for a lock
LOCK = "LOCK TABLE package_states.migration IN EXCLUSIVE MODE"
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"
MINIONS = ("web", "web1.example.com", "db")
ORGANIZATIONS = {"database": "one", "keys": "all"}
NODEGROUPS = {"a": "L@web", "b": "L@web,web1.example.com", "empty": "L@nobody"}


@dataclass(frozen=True)
class States:
    """A database, three minions, and the runner of a Salt whose files are below `root`."""

    salt: Salt
    database: sources.Database
    root: Path
    registry: str
    user: str | None = None

    def by(self, user: str) -> States:
        """Return the same for another user, as Salt has authenticated them."""
        return replace(self, user=user)

    def target(self, level: str) -> str:
        """Return what a state is assigned to so that it applies to the minion web on this level."""
        targets = {"group": "a", "grains": "role:front", "minion": "web"}
        return targets.get(level, ORGANIZATIONS[self.registry])

    def answer(self, function: str, **arguments: object) -> dict[str, Any]:
        """Return what the runner answers: `result` or `error`, and `retcode`."""
        changes = {
            "postgres": self.database.server.salt_options(),
            "package_states": {"sls_root": str(self.root), "minions": self.registry},
            "nodegroups": NODEGROUPS,
            "pki_dir": str(self.root / "pki"),
        }
        found: dict[str, Any] = self.salt.act("run", changes, f"package_states.{function}", arguments, self.user)
        return found

    def do(self, function: str, **arguments: object) -> Any:
        """Return the result of a function that works."""
        found = self.answer(function, **arguments)
        assert "error" not in found, found
        return found["result"]

    def refused(self, function: str, **arguments: object) -> str:
        """Return the error of a function that does not."""
        return str(self.answer(function, **arguments)["error"])

    def set(self, name: str, package: str, wanted: str, version: str | None = None) -> Any:
        """Set an entry."""
        return self.do("set", name=name, package=package, wanted=wanted, version=version)

    def wanted(self, minion: str) -> dict[str, dict[str, Any]]:
        """Return what is wanted of the packages of a minion, and by which state."""
        rows = self.do("status", minion=minion, table=False)["rows"]
        return {row["package"]: row for row in rows}

    def files(self) -> dict[str, bytes]:
        """Return the generated files."""
        folder = self.root / "susemanager"
        return {path.name: path.read_bytes() for path in sorted(folder.glob("packages-*.sls"))}

    def send(self, minion: str, packages: dict[str, dict[str, Any]], platform: str = "apt") -> None:
        """Store packages as if the minion had sent them."""
        self.database.run(
            "INSERT INTO package_states.package_list VALUES (%s, %s, 'x', %s::jsonb)"
            " ON CONFLICT (minion_id) DO UPDATE SET platform = EXCLUDED.platform, packages = EXCLUDED.packages",
            minion,
            platform,
            json.dumps(packages),
        )


def uyuni(made: sources.Database) -> None:
    """Fill a database with tables of Uyuni."""
    made.alone(schema.read("uyuni.sql"))
    made.run("INSERT INTO web_customer VALUES (1, 'one'), (2, 'two')")
    made.run("INSERT INTO rhnServerGroup VALUES (3, 'a', '', 1), (12, 'b', '', 1), (13, 'empty', '', 1)")
    for number, minion in enumerate(MINIONS, 1):
        made.run("INSERT INTO rhnServer VALUES (%s, %s, %s)", number, 2 if minion == "db" else 1, minion)
        made.run("INSERT INTO suseMinionInfo VALUES (%s, %s)", number, minion)
    made.run("INSERT INTO rhnServerGroupMembers VALUES (1, 3), (1, 12), (2, 12)")
