"""Files of the master, asked for as a minion's file client does: what it has is not fetched again.

Source: RemoteClient in salt/fileclient.py and salt/utils/extmods.py of Salt 3008.5.

A thousand minions that ran the same states have the same: each such set is held once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import salt.utils.stringutils

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from evil_minions.states.run import Held

    Ask = Callable[[Mapping[str, Any]], Awaitable[Any]]

NOTHING: Final[frozenset[Held]] = frozenset()


class Caches:
    """What each minion has, by its index."""

    def __init__(self, *, keep: bool = True) -> None:
        """Begin with nothing; with `keep` false it stays so, and every run is a first one."""
        self._keep = keep
        self._sets: dict[frozenset[Held], frozenset[Held]] = {}
        self._of: dict[int, frozenset[Held]] = {}

    def of(self, index: int) -> frozenset[Held]:
        """Return what a minion has."""
        return self._of.get(index, NOTHING)

    def add(self, index: int, keys: Iterable[Held]) -> None:
        """Give a minion more; a newer version of a file or a state takes the place of the older one."""
        if not self._keep:
            return
        new = {key[:-1]: key for key in keys}
        if not new:
            return
        found = frozenset({**{key[:-1]: key for key in self.of(index)}, **new}.values())
        self._of[index] = self._sets.setdefault(found, found)
        if len(self._sets) > 2 * len(self._of) + 16:
            self._sets = {each: each for each in self._of.values()}

    def forget(self, index: int) -> None:
        """Take everything from a minion, as when its machine is reinstalled."""
        self._of.pop(index, None)


_TOP: Final = "top.sls"
_MODULES: Final = (".py", ".pyx", ".so", ".zip")


class Files:
    """One minion's file client: `held` is what it had before, `got` what it has fetched since."""

    def __init__(
        self, minion_id: str, grains: Callable[[], Mapping[str, Any]], ask: Ask, held: frozenset[Held]
    ) -> None:
        """Begin with nothing fetched."""
        self._id = minion_id
        self._grains = grains
        self._ask = ask
        self._held = held
        self.got: set[Held] = set()

    def has(self, key: Held) -> bool:
        """Return whether the minion has a file in this version."""
        return key in self.got or key in self._held

    async def fetch(self, load: Mapping[str, Any], key: Held) -> bytes:
        """Fetch a file part by part, up to an empty one."""
        content = b""
        while True:
            part = await self._ask({**load, "cmd": "_serve_file", "loc": len(content)})
            data = salt.utils.stringutils.to_bytes(part["data"]) if isinstance(part, dict) and "data" in part else b""
            if not data:
                self.got.add(key)
                return content
            content += data

    async def cache(self, path: str, saltenv: str) -> bool | None:
        """Have a file: return whether it had to be fetched, None if the master has none."""
        found = await self._ask({"path": path, "saltenv": saltenv, "cmd": "_file_hash"})
        if not found:
            return None
        key = ("cache", saltenv, path, str(found["hsum"]))
        if self.has(key):
            return False
        await self.fetch({"path": path, "saltenv": saltenv}, key)
        return True

    async def top(self) -> None:
        """Ask for the top file of every environment, and for what the master's tops say."""
        saltenvs = await self._ask({"cmd": "_file_envs"})
        for saltenv in dict.fromkeys(["base", *(saltenvs if isinstance(saltenvs, list) else [])]):
            await self.cache(_TOP, saltenv)
        opts = {"id": self._id, "grains": self._grains()}
        await self._ask({"cmd": "_master_tops", "id": self._id, "opts": opts})

    async def modules(self, kind: str, saltenvs: Sequence[str]) -> list[str]:
        """Have the master's own modules of one kind; return the names of those that are new."""
        new: list[str] = []
        prefix = f"_{kind}/"
        for saltenv in saltenvs:
            paths = await self._ask({"saltenv": saltenv, "prefix": "", "cmd": "_file_list"})
            wanted = [each for each in paths if each.startswith(prefix) and each.endswith(_MODULES)]
            new += [each.removeprefix(prefix) for each in wanted if await self.cache(each, saltenv)]
        return [f"{kind}.{name.rpartition('.')[0].replace('/', '.')}" for name in new]
