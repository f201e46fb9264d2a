"""The loads (contents of messages) that a minion sends without being asked.

Source: salt/minion.py and salt/pillar/__init__.py of Salt 3008.5, and requests recorded from a minion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evil_minions.protocol.envelope import Load

_START_EVENT_KEYS = ("jid", "fun", "tgt", "tgt_type", "user")


def pillar(minion_id: str, grains: dict[str, Any], override: dict[str, Any] | None, *, clean_cache: bool) -> Load:
    """Return the load that asks for a pillar; `override` is pillar data that goes into its compilation."""
    load: Load = {
        "id": minion_id,
        "grains": grains,
        "saltenv": None,
        "pillarenv": None,
        "pillar_override": override or {},
        "extra_minion_data": {},
        "ver": "2",
        "cmd": "_pillar",
    }
    return {**load, "clean_cache": True} if clean_cache else load


def event(minion_id: str, token: bytes, tag: str, data: object) -> Load:
    """Return the load of an event for the master's bus; those of beacons come in lists, so the bus shows them bare."""
    if tag.startswith("salt/beacon/"):
        events = [{"tag": tag, "data": data, "beacon_name": tag.split("/")[3]}]
        return {"id": minion_id, "cmd": "_minion_event", "pretag": None, "tok": token, "events": events}
    return {"id": minion_id, "cmd": "_minion_event", "pretag": None, "tok": token, "data": data, "tag": tag}


def job_start(minion_id: str, load: Load) -> dict[str, Any]:
    """Return the data of the event that says that a job begins, for publications that ask for it."""
    return {"id": minion_id} | {name: load.get(name) for name in _START_EVENT_KEYS}


def registration(minion_id: str, token: bytes) -> Load:
    """Return the load that tells the master that this minion manages no resources."""
    return {
        "cmd": "_register_resources",
        "id": minion_id,
        "resources": {},
        "resource_grains": {},
        "tok": token,
    }
