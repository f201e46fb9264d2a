"""A returner for the tests that keeps nothing: it writes a line of JSON for each call into `noted.jsonl`.

It runs in the masters of both trees, as a module of an `extension_modules` folder.
"""

from __future__ import annotations

import json
import os
from typing import Any

import salt.utils.jid

__opts__: dict[str, Any] = {}
__virtualname__ = "noted"


def __virtual__() -> str:  # noqa: N807 - Salt asks it
    return __virtualname__


def _note(*call: object) -> None:
    line = json.dumps(call) + "\n"
    with open(os.path.join(__opts__["cachedir"], "noted.jsonl"), "a", encoding="utf-8") as file:  # noqa: PTH118, PTH123
        file.write(line)


def prep_jid(nocache: bool = False, passed_jid: str | None = None) -> str:  # noqa: FBT001, FBT002 - Salt calls it so
    """Return the id of a job that begins."""
    _note("prep_jid", passed_jid, nocache)
    return passed_jid or str(salt.utils.jid.gen_jid(__opts__))


def save_load(jid: str, load: dict[str, Any], minions: list[str] | None = None) -> None:
    """Note the load of a job."""
    _note("save_load", jid, load["fun"], minions)


def save_minions(jid: str, minions: list[str], syndic_id: str | None = None) -> None:
    """Note whom a job is for."""
    _note("save_minions", jid, sorted(minions), syndic_id)


def get_load(jid: str) -> dict[str, Any]:
    """Return that nothing is kept."""
    _note("get_load", jid)
    return {}


def returner(load: dict[str, Any]) -> None:
    """Note a return."""
    _note("returner", load["jid"], load["id"], load["return"])


def update_endtime(jid: str, _time: str) -> None:
    """Note the end of a job."""
    _note("update_endtime", jid)
