"""Which minions of a worker are behind which network, and the master's ports as seen from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evil_minions.network.path import NetworkPath
    from evil_minions.network.wire import Endpoint


class NetworkMap:
    """The networks of a worker's minions; those without one are beside the master."""

    def __init__(self) -> None:
        """Begin with everybody beside the master."""
        self._paths: dict[int, NetworkPath] = {}
        self._sides: dict[tuple[Endpoint, NetworkPath], Endpoint] = {}

    def place(self, index: int, path: NetworkPath | None) -> None:
        """Put a minion behind a network, or beside the master again."""
        if path is None:
            self._paths.pop(index, None)
        else:
            self._paths[index] = path

    def side(self, index: int, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint as a minion sees it."""
        path = self._paths.get(index)
        if path is None:
            return endpoint
        if (endpoint, path) not in self._sides:
            self._sides[endpoint, path] = endpoint.over(path)
        return self._sides[endpoint, path]
