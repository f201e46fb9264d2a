"""The inventory of a worker: ids, grains and pillars of its minions, and who is meant by a target.

A thousand pillars are mostly the same text: hash-consing keeps one copy of each subtree, and what holds nothing but
scalars is kept as the bytes it came in, a fifth of what the same costs as objects. So a real pillar costs a minion
little more than what is its own. It is put together again when a target or a person asks for it.

A worker decides for all its minions at once, the first time it sees a target. Globs, lists and regular expressions on
ids take short cuts; everything else goes through salt.matchers with the minion's own grains and pillar. No loader is
built: the matchers are plain functions once they get their options as arguments.
Source: salt/minion.py (Minion._target_load) and salt/matchers/ of Salt 3008.5.
"""

from __future__ import annotations

import fnmatch
import importlib
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import salt.matchers.compound_match
import salt.payload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evil_minions.inventory import GrainsFactory

_CACHED_TARGETS: Final = 64
_DELIMITED: Final = frozenset({"grain", "grain_pcre", "pillar"})
_DELIMITER: Final = ":"

KINDS: Final = (
    *("compound", "glob", "grain", "grain_pcre", "ipcidr", "list", "managing_minion", "pcre", "pillar", "pillar_exact"),
    *("pillar_pcre", "range", "resource"),
)
_MATCHERS: Final[dict[str, Callable[..., Any]]] = {
    kind: importlib.import_module(f"salt.matchers.{kind}_match").match for kind in KINDS
}
# what salt.loader.matchers would put there
salt.matchers.compound_match.__context__ = {"matchers": {f"{kind}_match.match": fun for kind, fun in _MATCHERS.items()}}


class Target(NamedTuple):
    """A target as a publication holds it: expression (text, or words of a compound), type, delimiter."""

    expression: Any
    kind: str = "glob"
    delimiter: str = _DELIMITER


def target_of(load: dict[str, Any]) -> Target:
    """Return the target of a publication's load."""
    return Target(load["tgt"], load.get("tgt_type", "glob"), load.get("delimiter", _DELIMITER))


def needs_pillar(target: Target) -> bool:
    """Return whether a target looks at pillars, by its type or in a word of a compound."""
    if target.kind == "compound":
        words = target.expression if isinstance(target.expression, list) else str(target.expression).split()
        return any(re.match(r"\(*[IJ](?:!.)?@", str(word)) for word in words)
    return target.kind in {"pillar", "pillar_exact", "pillar_pcre"}


class Targets:
    """The minions of a worker, as targets see them.

    `ids` are in the order of the minions' indexes, `first` is the number of the first one in the fleet.
    """

    def __init__(self, ids: Sequence[str], first: int, grains: GrainsFactory, pillars: PillarStore) -> None:
        """Remember where ids, grains and pillars come from."""
        self._ids = ids
        self._first = first
        self._index = {minion_id: index for index, minion_id in enumerate(ids)}
        self._grains = grains
        self._pillars = pillars
        self._cache: OrderedDict[str, tuple[tuple[int, int], bytes]] = OrderedDict()

    def grow(self, ids: Sequence[str]) -> None:
        """Take more minions into account, which are in the sequence of ids already."""
        for minion_id in ids:
            self._index[minion_id] = len(self._index)

    def select(self, target: Target) -> bytes:
        """Return one byte for each minion: 1 where the target matches it.

        Results are cached until a pillar or somebody's grains change.
        """
        key = repr(target)
        version = self._pillars.version, self._grains.version
        cached = self._cache.get(key)
        if cached is not None and cached[0] == version:
            self._cache.move_to_end(key)
            return cached[1]
        chosen = self._choose(target)
        self._cache[key] = (version, chosen)
        if len(self._cache) > _CACHED_TARGETS:
            self._cache.popitem(last=False)
        return chosen

    def _choose(self, target: Target) -> bytes:
        expression, kind, _ = target
        if kind == "glob":
            return self._glob(expression)
        if kind == "list" and isinstance(expression, list | tuple):
            return self._listed(expression)
        if kind == "list" and isinstance(expression, str):
            return self._listed(expression.split(","))
        if kind == "pcre":
            return self._pcre(expression)
        if kind in ("grain", "grain_pcre") and self._is_shared(target):
            return self._by_family(target)
        unpacked: Unpacked = {}
        return bytes(self._matches(index, target, unpacked) for index in range(len(self._ids)))

    def _glob(self, expression: object) -> bytes:
        if not isinstance(expression, str):
            return bytes(len(self._ids))
        if expression == "*":
            return b"\x01" * len(self._ids)
        pattern = re.compile(fnmatch.translate(expression))
        return bytes(pattern.match(minion_id) is not None for minion_id in self._ids)

    def _listed(self, names: Sequence[object]) -> bytes:
        """Match a list of ids, at the cost of the list rather than of the fleet."""
        chosen = bytearray(len(self._ids))
        for name in names:
            index = self._index.get(name) if isinstance(name, str) else None
            if index is not None:
                chosen[index] = 1
        return bytes(chosen)

    def _pcre(self, expression: str) -> bytes:
        """Match a regular expression on ids; one that doesn't compile matches nobody, as it fails on a real minion."""
        try:
            pattern = re.compile(expression)
        except (re.error, TypeError):
            return bytes(len(self._ids))
        return bytes(pattern.match(minion_id) is not None for minion_id in self._ids)

    def _is_shared(self, target: Target) -> bool:
        """Return whether the grain of a target is one that all minions of a family share."""
        if not isinstance(target.expression, str) or target.delimiter not in target.expression:
            return False
        name = target.expression.split(target.delimiter, 1)[0]
        return name != "*" and name not in self._grains.own

    def _by_family(self, target: Target) -> bytes:
        known: dict[int, bool] = {}
        chosen = bytearray(len(self._ids))
        for index, minion_id in enumerate(self._ids):
            family = self._grains.family(minion_id)
            if family not in known:
                known[family] = self._matches(index, target, {})
            chosen[index] = known[family]
        return bytes(chosen)

    def _matches(self, index: int, target: Target, unpacked: Unpacked) -> bool:
        """Ask Salt's matcher about one minion; `unpacked` is that of `PillarStore.get`.

        An expression that makes the matcher fail matches nobody, as on a real minion.
        """
        match = _MATCHERS.get(target.kind)
        if match is None:
            return False
        minion_id = self._ids[index]
        opts = {
            "id": minion_id,
            "grains": self._grains.build(minion_id, self._first + index),
            "pillar": self._pillars.get(index, unpacked),
            "nodegroups": {},
            "resources": {},
        }
        keywords = {"delimiter": target.delimiter} if target.kind in _DELIMITED else {}
        try:
            return bool(match(target.expression, opts=opts, **keywords))
        except Exception:  # noqa: BLE001 - the matchers evaluate what users wrote, and fail in every way
            return False


_SWEEP_AT_LEAST: Final = 4096
_UNPACKED_AT_MOST: Final = 50_000

# what a series of reads has unpacked so far, by the identity of its part
Unpacked = dict[int, Any]

# a packed value, or the parts of a container: the packed names of a dictionary or None for a list, then the children
Part = bytes | tuple[Any, ...]


class PillarStore:
    """Holds one pillar for each minion index of a worker.

    `version` grows with every change, so that match results can be cached.
    """

    def __init__(self, size: int) -> None:
        """Start with empty pillars for `size` minions."""
        self._parts: dict[Part, Part] = {}
        self._pillars: list[Part] = [self._only(_pack({}))] * size
        self._sweep_at = _SWEEP_AT_LEAST
        self.version = 0

    def get(self, index: int, unpacked: Unpacked | None = None) -> dict[str, Any]:
        """Return the pillar of a minion; parts of it are shared, so don't change it.

        A series of reads without a change in between hands the same dictionary in as `unpacked`, empty at first: a
        part that many have is unpacked once then.
        """
        pillar: dict[str, Any] = _build(self._pillars[index], {} if unpacked is None else unpacked)
        return pillar

    def item(self, index: int, name: str) -> Any:
        """Return one value of the top level of a minion's pillar, or None: nothing else is unpacked for it."""
        part = self._pillars[index]
        if isinstance(part, bytes):
            return _loads(part).get(name)
        names, *values = part
        for known, value in zip(_loads(names), values, strict=True):
            if known == name:
                return _build(value, {})
        return None

    def put(self, index: int, pillar: dict[str, Any]) -> None:
        """Keep a minion's new pillar."""
        part = self._intern(pillar)
        if part != self._pillars[index]:
            self._pillars[index] = part
            self.version += 1
        if len(self._parts) > self._sweep_at:
            self._sweep()

    def grow(self, count: int) -> None:
        """Make room for more minions."""
        self._pillars += [self._only(_pack({}))] * count
        self.version += 1

    def parts(self) -> int:
        """Return how many distinct parts are held."""
        return len(self._parts)

    def _sweep(self) -> None:
        """Drop parts that no pillar has any longer, by collecting the living ones."""
        self._parts = {}
        for part in self._pillars:
            self._keep(part)
        self._sweep_at = max(_SWEEP_AT_LEAST, 2 * len(self._parts))

    def _keep(self, part: Part) -> None:
        """Take a part and all that it holds into the table again."""
        if part in self._parts:
            return
        self._parts[part] = part
        if isinstance(part, tuple):
            for child in part:
                if child is not None:
                    self._keep(child)

    def _intern(self, value: Any) -> Part:
        """Return the one copy of `value`; equal parts of different types (1, True, 1.0) differ as bytes."""
        if isinstance(value, dict) and any(isinstance(child, dict | list) for child in value.values()):
            names = self._only(_pack(list(value)))
            return self._only((names, *map(self._intern, value.values())))
        if isinstance(value, list) and any(isinstance(child, dict | list) for child in value):
            return self._only((None, *map(self._intern, value)))
        return self._only(_pack(value))

    def _only(self, part: Part) -> Part:
        return self._parts.setdefault(part, part)


def _build(part: Part, unpacked: Unpacked) -> Any:
    if isinstance(part, tuple):
        names, *children = part
        values = [_build(child, unpacked) for child in children]
        return values if names is None else dict(zip(_build(names, unpacked), values, strict=True))
    known = unpacked.get(id(part), unpacked)
    if known is not unpacked:
        return known
    if len(unpacked) > _UNPACKED_AT_MOST:
        unpacked.clear()
    value = unpacked[id(part)] = _loads(part)
    return value


def _loads(part: bytes) -> Any:
    return salt.payload.loads(part, encoding="utf-8")


def _pack(value: Any) -> bytes:
    """Return a value as bytes, text and bytes told apart."""
    return bytes(salt.payload.dumps(value, use_bin_type=True))


class Inventory:
    """What is known of each minion; `first` is the number in the fleet of the worker's first one."""

    def __init__(self, ids: Sequence[str], first: int, factory: GrainsFactory) -> None:
        """Take the ids, and what puts grains together."""
        self.ids = list(ids)
        self.first = first
        self.factory = factory
        self.pillars = PillarStore(len(self.ids))
        self.targets = Targets(self.ids, first, factory, self.pillars)

    def grow(self, ids: Sequence[str]) -> None:
        """Take more minions, whose numbers follow."""
        self.ids += ids
        self.targets.grow(list(ids))
        self.pillars.grow(len(ids))
