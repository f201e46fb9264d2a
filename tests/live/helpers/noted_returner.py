"""A returner for the tests that keeps nothing: it writes a line of JSON for each call into `noted.jsonl`.

It runs in the masters of both trees, as a module of one of `returner_dirs`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import salt.utils.jid

__virtualname__ = "noted"


def __virtual__() -> str:  # noqa: N807 - Salt asks it
    return __virtualname__


def _options() -> dict[str, Any]:
    """Return the master's options, which the loader puts here."""
    found: dict[str, Any] = globals()["__opts__"]
    return found


def _note(*call: object) -> None:
    with (Path(_options()["cachedir"]) / "noted.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(call) + "\n")


def prep_jid(nocache: bool = False, passed_jid: str | None = None) -> str:  # noqa: FBT001, FBT002 - Salt calls it so
    """Return the id of a job that begins."""
    _note("prep_jid", passed_jid, nocache)
    return passed_jid or str(salt.utils.jid.gen_jid(_options()))


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
