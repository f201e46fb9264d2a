"""Locks: what keeps something from being done or changed, on the master and on minions.
"""

import os

from saltext.query import compare, loader
from saltext.query.errors import QueryError, of_site
from saltext.query.field import read
from saltext.query.item import Item, ItemType
from saltext.query.kinds import MISSING_PENDING


class Lock(Item):
    """
    :ivar str type: the name of the module that has found it
    :ivar dict info: what is known of it; None for a probe
    """

    __slots__ = ("info", "type")

    def __init__(self, context, type_, info):
        super().__init__(context, None)
        self.type = type_
        self.info = info
        if info is not None:
            self.name = "/".join(
                (type_, str(info.get("node") or "master"), info["object"])
            )

    def get(self, key):
        """Return what is known, or that nothing is."""
        return MISSING_PENDING if self.info is None else self.info.get(key)

    def alive(self):
        pid = self.get("pid")
        if not isinstance(pid, int):
            return pid
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):
            # it is another user's
            return True
        return True


def _items(context, names):
    """Look only where the filter may find something."""

    def may_have(type_):
        if names is not None:
            return any(name.startswith(type_ + "/") for name in names)
        return context.filter.holds(Lock(context, type_, None)) is not False

    found = []
    loaded = loader.modules(context.opts, "query_locks")
    types = loader.names(context.opts, "query_locks")
    wrong = loader.problems(context.opts, "query_locks")
    for type_, told in wrong.items():
        if may_have(type_):
            raise QueryError(f"{told}; it finds locks.")
    for type_ in filter(may_have, types):
        with of_site(f"locks {type_}"):
            for info in loaded[f"{type_}.locks"](context):
                if not isinstance(info, dict) or not isinstance(
                    info.get("object"), str
                ):
                    raise TypeError(f"a lock is {info!r:.80}, with no object")
                found.append(Lock(context, type_, info))
    found.sort(key=lambda lock: compare.text_key(lock.name))
    yield from found


_FIELDS = """
name        Name     text      - Type, minion or master, and object of the lock
type        Type     text      - Type of lock: file, hold, state or package_state
object      Object   text      - What is locked
mode        Mode     text      - How it is locked: exclusive, hold, disabled, absent, kept or version
owner       Owner    other     - Who holds the lock
node,minion Node     text      - Minion on which the lock is, if not the master
pid         PID      number    - Process on the master that holds the lock
alive       Alive    bool      - Whether this process exists
acquired_ts Acquired timestamp - Time at which it was locked
told_ts     Told     timestamp - Time at which the minion told of the lock
path        Path     text      - File that is the lock
backend     Backend  text      - Back end of the file server
remote      Remote   text      - Remote or environment of the file server
fun         Function text      - Function that is kept from running
package     Package  text      - Package that is locked
version     Version  text      - Version at which it is locked
reason      Reason   text      - Why it is locked, for people
"""
_KNOWN = read(
    _FIELDS,
    Lock,
    {
        "name": lambda lock: MISSING_PENDING if lock.info is None else lock.name,
        "type": lambda lock: lock.type,
        "-:": lambda key: lambda lock: lock.get(key),
    },
    node={"host": True},
)


def item_type():
    return ItemType(
        "lock",
        "What keeps something from being done or changed",
        _KNOWN,
        _items,
        usual=("type", "node", "object", "mode", "owner", "reason"),
    )
