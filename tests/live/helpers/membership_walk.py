"""A fleet whose minions join, leave, are renamed and deleted, while states are saved; in a process of its own.

Takes a JSON object on its standard input (`options` of the master, `minions`, `steps`, `seed`, `database`: whether
minions come from Uyuni's tables) and prints one: what was done, how long files took, and what was wrong.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg2
import salt.cache
import salt.config
from saltext.package_states.compile import files
from saltext.package_states.engines.package_states import Keeper
from saltext.package_states.master import edit
from saltext.package_states.master.service import Service
from saltext.package_states.model import item
from saltext.package_states.store import connection
from saltext.package_states.store import tables as store

ME = store.Save("walk")
GROUPS = ("a", "b", "c", "d")
PACKAGES = ("foo", "bar", "baz")
OWN_EVERY = 4


class Walk:
    """The fleet, what it should have, and the engine that keeps its files."""

    def __init__(self, options: dict[str, Any], *, database: bool, seed: int) -> None:
        """Make an empty fleet with one state for each group."""
        self.opts = {**salt.config.master_config(None), **options}
        self.rng = random.Random(seed)  # noqa: S311 - a test's
        self.database = database
        self.service = Service(self.opts)
        # with a clock that stands still, as how long the machine takes is no matter here
        self.keeper = Keeper(self.opts, self.service, window=0, look=0, sweep=10**9, clock=lambda: 0)
        self.cache = salt.cache.factory(self.opts)
        self.keys = Path(self.opts["pki_dir"]) / "minions"
        self.keys.mkdir(parents=True, exist_ok=True)
        if database:
            self.rows = psycopg2.connect(**_dsn(self.opts))
            self.rows.autocommit = True
        # id: group and identity; state: package -> wanted
        self.minions: dict[str, tuple[str, int]] = {}
        self.states: dict[str, dict[str, str]] = {}
        self.number = 0
        self.clock = 0.0
        self.slowest = 0.0
        self.done: Counter[str] = Counter()
        for number, group in enumerate(GROUPS):
            self.states[f"g-{group}"] = {}
            edit.put(self.service, f"g-{group}", None, None, None, ME)
            if database:
                self._sql("INSERT INTO rhnServerGroup VALUES (%s, %s, '', 1)", number, group)
                edit.assign(self.service, f"g-{group}", "group", group, 0, ME)
            else:
                edit.assign(self.service, f"g-{group}", "grains", f"room:{group}", 0, ME)
            self.save(f"g-{group}")

    def _sql(self, query: str, *values: object) -> None:
        with self.rows.cursor() as cursor:
            cursor.execute(query, values)

    def _event(self, tag: str, data: dict[str, Any]) -> None:
        if not self.database:
            self.keeper.event(tag, data, self.clock)

    def _there(self, name: str, group: str, identity: int) -> None:
        """Let there be a minion."""
        self.minions[name] = (group, identity)
        if self.database:
            self._sql("INSERT INTO rhnServer VALUES (%s, 1, %s)", identity, name)
            self._sql("INSERT INTO suseMinionInfo VALUES (%s, %s)", identity, name)
            self._sql("INSERT INTO rhnServerGroupMembers VALUES (%s, %s)", identity, GROUPS.index(group))
            return
        (self.keys / name).write_text(f"key {identity}")
        self._event("salt/key", {"act": "accept", "id": name})
        self.cache.store("grains", name, {"room": group, "os_family": "Debian"})
        self._event(f"minion/refresh/{name}", {})

    def _away(self, name: str) -> None:
        _, identity = self.minions.pop(name)
        if self.database:
            self._sql("DELETE FROM rhnServerGroupMembers WHERE server_id = %s", identity)
            self._sql("DELETE FROM suseMinionInfo WHERE server_id = %s", identity)
            self._sql("DELETE FROM rhnServer WHERE id = %s", identity)
            return
        (self.keys / name).unlink()
        self._event("salt/key", {"act": "delete", "id": name})

    def join(self) -> None:
        """Let a new minion come; some have a state of their own, made before or after."""
        self.number += 1
        name = f"m{self.number}"
        own = self.number % OWN_EVERY == 0
        if own and self.rng.random() < 0.5:
            self.states[name] = {}
            edit.put(self.service, name, None, None, None, ME)
        self._there(name, self.rng.choice(GROUPS), self.number + 100)
        if own:
            self.tick()
            self.save(name)

    def leave(self) -> None:
        """Let a minion go to another group."""
        name = self.rng.choice([*self.minions])
        _, identity = self.minions[name]
        group = self.rng.choice(GROUPS)
        self.minions[name] = (group, identity)
        if self.database:
            self._sql(
                "UPDATE rhnServerGroupMembers SET server_group_id = %s WHERE server_id = %s",
                GROUPS.index(group),
                identity,
            )
        else:
            self.cache.store("grains", name, {"room": group, "os_family": "Debian"})
            self._event(f"minion/refresh/{name}", {})

    def rename(self) -> None:
        """Give a minion another id; its key, or its system, is the same."""
        old = self.rng.choice([*self.minions])
        group, identity = self.minions[old]
        self.number += 1
        new = f"r{self.number}"
        order = ["away", "there"]
        if not self.database and self.rng.random() < 0.5:
            order.reverse()
        for what in order:
            if what == "away":
                self._away(old)
            else:
                self._there(new, group, identity)
            if not self.database and self.rng.random() < 0.5:
                self.tick()
        if old in self.states:
            self.states[new] = self.states.pop(old)

    def delete(self) -> None:
        """Let a minion be gone; its state is its again if it comes back."""
        name = self.rng.choice([*self.minions])
        self._away(name)

    def save(self, name: str | None = None) -> None:
        """Somebody saves a state."""
        mine = [one for one in self.states if one.startswith("g-") or one in self.minions]
        name = name or self.rng.choice(mine)
        if not name.startswith("g-"):
            # for an id of which nobody knows yet whose it was, this would make a second state
            self.service.sweep()
        wanted = {
            one: self.rng.choice(("latest", "removed", "installed")) for one in PACKAGES if self.rng.random() < 0.6
        }
        self.states[name] = wanted
        entries = [item.make(*row) for row in wanted.items()]
        self.service.save(name, lambda *_: entries, ME)

    def tick(self) -> None:
        """Let the engine do what is due."""
        self.clock += 1
        begin = time.monotonic()
        self.keeper.tick(self.clock)
        self.slowest = max(self.slowest, time.monotonic() - begin)

    def queries(self) -> int:
        """Return how many queries one look at a fleet takes in which nothing happens."""
        self.service.sweep()
        asked = 0
        ask = store.ask

        def counted(*args: Any) -> Any:
            nonlocal asked
            asked += 1
            return ask(*args)

        store.ask = counted
        try:
            self.service.sweep()
        finally:
            store.ask = ask
        return asked

    def wrong(self) -> list[str]:
        """Return what is not as it should be: against what the compiler says, and against what was done here."""
        self.tick()
        before = {
            name: files.read(self.service.compiler.root, name) for name in files.names_of(self.service.compiler.root)
        }
        found = self.service.sweep()
        problems = [f"stale: {name}" for name in found["files"]] + [f"left over: {name}" for name in found["removed"]]
        problems += [f"error: {name}: {error}" for name, error in found["errors"].items()]
        for name, (group, _) in self.minions.items():
            right = {**self.states[f"g-{group}"], **self.states.get(name, {})}
            rows = [line for line in before.get(name, "").splitlines() if line.startswith('      - ["')]
            there = {row[0]: row[1] for row in (json.loads(line.strip()[2:]) for line in rows)}
            if there != right:
                problems.append(f"{name}: {there} instead of {right}")
        known = {*self.minions, *(files.alone(one) for one in self.states if one.startswith("g-"))}
        problems += [f"nobody's: {name}" for name in before if name not in known]
        return problems

    def step(self) -> None:
        """Do one thing at random."""
        names = ["join", "leave", "rename", "delete", "save"]
        weights = [20, 50, 14, 14 if len(self.minions) > 2 else 0, 2]
        (name,) = self.rng.choices(names, weights)
        getattr(self, name)()
        self.done[name] += 1


def _dsn(opts: dict[str, Any]) -> dict[str, Any]:
    params = connection.get_params(opts)
    return {name: params[name] for name in ("host", "port", "user", "password", "dbname") if name in params}


def main() -> None:
    """Walk, and print what came out."""
    asked = json.load(sys.stdin)
    walk = Walk(asked["options"], database=asked["database"], seed=asked["seed"])
    for _ in range(asked["minions"]):
        walk.join()
    walk.tick()
    problems = walk.wrong()
    walk.slowest = 0.0
    queries = walk.queries()
    for number in range(1, asked["steps"] + 1):
        if problems:
            break
        walk.step()
        if walk.rng.random() < 0.3:
            walk.tick()
        if number % 100 == 0:
            problems = walk.wrong()
    result = {
        "done": walk.done,
        "minions": len(walk.minions),
        "queries": [queries, walk.queries()],
        "slowest": round(walk.slowest, 2),
        "wrong": problems[:20],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
