"""A master's own functions that give out pillars and decide by them, without a network: targets, the mine, the ACL."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.config
import salt.master
import salt.utils.mine
import salt.utils.minions
from salt import _logging as logs

if TYPE_CHECKING:
    from collections.abc import Callable

USER, KEY = "ada", "a key"
# the minion that has the mine
OWNER = "mine"
# ways to name those whose pillar has a role
TARGETS = {
    "pillar": "role:{0}",
    "pillar_exact": "role:{0}",
    "pillar_pcre": "role:^{0}$",
    "compound": "I@role:{0}",
    "compound_pillar_exact": "G@id:* and I@role:{0}",
}
# of those, what the mine and an ACL may be given to
ALLOWED = ("pillar", "pillar_exact", "pillar_pcre", "compound")


class Publisher(salt.master.ClearFuncs):  # type: ignore[misc]  # Salt has no types
    """What publishes for users, with nobody who listens."""

    async def _send_pub(self, load: dict[str, Any]) -> None:
        """Do not send what was allowed."""


class Silent:
    """An event bus that nobody is on."""

    def fire_event(self, *args: object, **options: object) -> None:
        """Do nothing."""

    def destroy(self) -> None:
        """Do nothing."""


class Master:
    """The functions of one master; its folders lie below `folder`."""

    def __init__(self, folder: Path, changes: dict[str, Any], roles: list[str], minions: list[str]) -> None:
        """Accept the keys of minions; who has the first role may be asked by the user, and may read the mine."""
        opts: dict[str, Any] = salt.config.master_config(None)
        own = {name: str(folder / name) for name in ("cachedir", "pki_dir", "extension_modules", "sock_dir")}
        acl = {USER: [{TARGETS["compound"].format(roles[0]): ["test.ping"]}]}
        opts.update({**own, "publisher_acl": acl, "conf_file": str(folder / "master"), **changes})
        keys = folder / "pki_dir" / "minions"
        keys.mkdir(parents=True)
        (folder / "master").write_text("")
        for minion in [*minions, OWNER]:
            (keys / minion).write_text("a key")
        self._roles = roles
        self._aes = salt.master.AESFuncs(opts)
        self._clear = Publisher(opts, {"root": "another key", USER: KEY})
        for functions in (self._aes, self._aes.masterapi, self._clear):
            functions.event = Silent()
        self._checker = salt.utils.minions.CkMinions(opts)
        role = roles[0]
        entries = {
            kind: salt.utils.mine.wrap_acl_structure("secret", TARGETS[kind].format(role), kind) for kind in ALLOWED
        }
        self._minions("_mine", {"id": OWNER, "data": entries})
        for minion in minions:
            self._minions("_mine", {"id": minion, "data": {"public": "value"}})

    def _minions(self, function: str, load: dict[str, Any]) -> Any:
        """Return what a function for minions answers, as a worker calls it."""
        return self._aes.run_func(function, load)[0]

    def pillar(self, minion: str, grains: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
        """Return the pillar that a minion asks for, as when it refreshes it (`clean_cache`) or applies states."""
        load = {"id": minion, "grains": grains, "saltenv": "base", **asked}
        found: dict[str, Any] = self._minions("_pillar", load)
        return found

    def decide(self, minion: str) -> dict[str, list[str]]:
        """Return for each role the decisions by which a minion has it."""
        found: dict[str, list[str]] = {}
        for role in self._roles:
            made = found[role] = []
            for kind, target in TARGETS.items():
                if minion in self._checker.check_minions(target.format(role), kind)["minions"]:
                    made.append(f"target {kind}")
                asked = {"id": OWNER, "tgt": target.format(role), "tgt_type": kind, "fun": "public"}
                if minion in self._minions("_mine_get", asked):
                    made.append(f"mine of {kind}")
        made = found[self._roles[0]]
        for kind in ALLOWED:
            if self._minions("_mine_get", {"id": minion, "tgt": OWNER, "tgt_type": "glob", "fun": kind}):
                made.append(f"mine for {kind}")
        job = {"user": USER, "key": KEY, "fun": "test.ping", "arg": [], "tgt": minion, "tgt_type": "glob"}
        answer = asyncio.run(self._clear.publish({**job, "ret": "", "jid": "", "kwargs": {"nocache": True}}))
        if "error" not in answer:
            made.append("ACL")
        return found


def prepare(settings: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return what can be done."""
    logs.shutdown_temp_handler()
    logging.disable()
    master = Master(Path(settings["folder"]), settings["changes"], settings["roles"], settings["minions"])
    return {"pillar": master.pillar, "decide": master.decide}
