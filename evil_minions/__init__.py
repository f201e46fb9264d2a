"""Simulated Salt minions for a real master: the command `python -m evil_minions`, and what other programs may use.

The names in `__all__` are public; all else may change. They are imported at their first use: a program that only reads
samples does not wait for Salt.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from evil_minions import pipe
    from evil_minions.defaults import ID_FORMAT, TRANSPORTS, Transport
    from evil_minions.errors import ControlError, CryptoError, EvilMinionsError, SampleError
    from evil_minions.fleet.client import Control, Status, connect, socket_path
    from evil_minions.fleet.orders import ORDERS, Order, Selection
    from evil_minions.line import PRINTED_BYTES, AsyncLine, Line, decode, encode, printed
    from evil_minions.protocol import auth, envelope, zmtp
    from evil_minions.protocol.auth import Credentials
    from evil_minions.protocol.envelope import Load, decrypt
    from evil_minions.protocol.keys import MasterKey, MinionKey, load_pool
    from evil_minions.samples import DecisionRow, JobRow, ReturnRow, StartRow, TallyRow, read_samples, read_tallies
    from evil_minions.tables import Table, nearest, read_table

__all__ = [
    "ID_FORMAT",
    "ORDERS",
    "PRINTED_BYTES",
    "TRANSPORTS",
    "AsyncLine",
    "Control",
    "ControlError",
    "Credentials",
    "CryptoError",
    "DecisionRow",
    "EvilMinionsError",
    "JobRow",
    "Line",
    "Load",
    "MasterKey",
    "MinionKey",
    "Order",
    "ReturnRow",
    "SampleError",
    "Selection",
    "StartRow",
    "Status",
    "Table",
    "TallyRow",
    "Transport",
    "auth",
    "connect",
    "decode",
    "decrypt",
    "encode",
    "envelope",
    "load_pool",
    "nearest",
    "pipe",
    "printed",
    "read_samples",
    "read_table",
    "read_tallies",
    "socket_path",
    "zmtp",
]

# module: the public names that come from it; a module may be public itself
_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "defaults": ("ID_FORMAT", "TRANSPORTS", "Transport"),
    "errors": ("ControlError", "CryptoError", "EvilMinionsError", "SampleError"),
    "fleet.client": ("Control", "Status", "connect", "socket_path"),
    "fleet.orders": ("ORDERS", "Order", "Selection"),
    "line": ("PRINTED_BYTES", "AsyncLine", "Line", "decode", "encode", "printed"),
    "pipe": (),
    "protocol.auth": ("Credentials",),
    "protocol.envelope": ("Load", "decrypt"),
    "protocol.keys": ("MasterKey", "MinionKey", "load_pool"),
    "protocol.zmtp": (),
    "samples": ("DecisionRow", "JobRow", "ReturnRow", "StartRow", "TallyRow", "read_samples", "read_tallies"),
    "tables": ("Table", "nearest", "read_table"),
}


def __getattr__(name: str) -> Any:
    """Return a public name, imported now."""
    if name in __all__:
        for module, names in _MODULES.items():
            if name in names:
                return getattr(importlib.import_module(f"{__name__}.{module}"), name)
            if module.rpartition(".")[2] == name:
                return importlib.import_module(f"{__name__}.{module}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
