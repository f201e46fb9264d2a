"""Pillars from a hot standby, which refuses every transaction that may write."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

import pytest

from harness.bed.settings import temporary_parent
from harness.database import sources
from harness.processes.ports import Ports
from harness.processes.processes import Processes
from harness.saltprocess.patched import options, patched
from tests.live.helpers.handler_cluster import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def standby(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a standby with a pillar; its primary is gone."""
    with ExitStack() as stack:
        processes = stack.enter_context(Processes(temporary_parent()))
        server = Server(processes, stack.enter_context(Ports(SystemRandom())), tmp_path_factory.mktemp("server"))
        made = sources.Database(server.postgres)
        made.run("CREATE TABLE pillars (pillar JSONB); INSERT INTO pillars VALUES ('{\"a\": 1}')")
        ((folder,),) = made.run("SHOW data_directory")
        server.stop()
        (Path(folder) / "standby.signal").touch()
        server.start()
        assert made.run("SELECT pg_is_in_recovery()") == [(True,)]
        yield made


@pytest.mark.parametrize("lifetime", [600, 0])
@pytest.mark.parametrize("writes", ["refuse", "rollback"])
def test_pillar_of_a_standby(standby: sources.Database, tmp_path: Path, writes: str, lifetime: int) -> None:
    """What only reads works with each value of `writes`, more than once, and what writes is an error."""
    with patched(tmp_path) as salt:

        def compiled(query: str) -> dict[str, object]:
            settings = options(standby.server, [{"postgres": [query]}], writes=writes, lifetime=lifetime)
            (found,) = salt.act("compile", settings, ["web1"])
            assert isinstance(found, dict)
            return found

        for _ in range(3):
            assert compiled("SELECT pillar FROM pillars") == {"a": 1}
        assert "ReadOnlySqlTransaction (25006)" in str(compiled("DELETE FROM pillars RETURNING pillar")["_errors"])
        assert compiled("SELECT pillar FROM pillars") == {"a": 1}
