"""A server, the patched Salt, and three minions with package states of which nobody has any yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.database import scratch
from harness.saltprocess.patched import Salt, patched
from tests.live.package_states import States

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database.postgres import Postgres


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with scratch.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="session")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        for minion in ("web", "web1.example.com", "db"):
            found.act("grains", minion, {"os_family": "Debian", "osarch": "amd64", "role": "front"})
        yield found


@pytest.fixture
def states(server: Postgres, salt: Salt, tmp_path: Path, request: pytest.FixtureRequest) -> States:
    """Return an empty set of states with three minions: web is in the groups a and b, web1.example.com in b."""
    made = scratch.make(server, f"team_{abs(hash(request.node.nodeid))}")
    found = States(salt, made, tmp_path, "keys", "ann")
    keys = tmp_path / "pki" / "minions"
    keys.mkdir(parents=True)
    for minion in ("web", "web1.example.com", "db"):
        (keys / minion).write_text(f"key of {minion}")
    found.do("setup")
    return found
