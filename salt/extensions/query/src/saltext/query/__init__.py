"""
One typed question to a master: items of one type, with the fields that are asked for.

The item types are nodes, instances, jobs, locks and operating systems. Each answer
describes itself: with the rows come the definitions of their columns, and each cell is a
tuple of a status and a value, so that "offline", "no data" and "not applicable" can't be
taken for values.

.. code-block:: python

    import salt.config
    import saltext.query

    opts = salt.config.master_config("/etc/salt/master")
    saltext.query.items(opts, "node", ["name", "os"], ["<", "mtotal", 4096])

Reading the cache takes the rights of the master's user. What minions have sent is data
here and never code.
"""

import importlib

_API = ("count", "fields", "item_type", "item_types", "items", "old_format", "prepare")
_ERRORS = ("QueryError", "QueryRightsError", "QueryStoreError")
_STATUSES = ("NODATA", "NORMAL", "OFFLINE", "UNAVAIL", "UNKNOWN")

__all__ = [name for names in (_API, _ERRORS, _STATUSES) for name in names]


def __getattr__(name):
    # The loader imports this package in each process of Salt, most of which ask nothing:
    # what takes time is imported when it is used.
    places = (("api", _API), ("errors", _ERRORS), ("kinds", _STATUSES))
    for place, names in places:
        if name in names:
            return getattr(importlib.import_module(f"saltext.query.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
