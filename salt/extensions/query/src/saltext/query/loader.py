"""
What a query is made of comes from Salt's loader: item types, sources and locks.

A site adds its own with one file. It is looked for in ``query_types``,
``query_sources`` or ``query_locks`` below each folder of :conf_master:`module_dirs`, in
those below :conf_master:`extension_modules`, and in those of every Salt extension that is
installed. One that has the name of another takes its place.

query_types
    A module with ``item_type()``, which returns a :class:`saltext.query.item.ItemType`.
    The name of the module is what a request asks for.

query_sources
    A module with ``source(context)``, which returns whatever its item types ask for by
    :meth:`saltext.query.context.Context.source`. It is made once for each query.

query_locks
    A module with ``locks(context)``, which yields locks as dictionaries whose keys are
    names of fields of the type ``lock``, and with ``needs()``, which returns what of each
    minion's documents that reads, as pairs of a bank and a key.
"""

import functools
import logging
import os

import salt.loader.lazy
import salt.utils.entrypoints

log = logging.getLogger(__name__)

#: By kind: in which folder of this package its own modules are.
KINDS = {"query_types": "types", "query_sources": "sources", "query_locks": "locks"}

# the loaders of this process, by the folders that they look into
_LOADERS = {}


@functools.lru_cache(maxsize=1)
def _extensions():
    """
    Return the folders of the Salt extensions that are installed.
    """
    ret = []
    for entry_point in salt.utils.entrypoints.iter_entry_points("salt.loader"):
        try:
            package = entry_point.load()
        except Exception as exc:  # pylint: disable=broad-except
            log.error("Could not load the extension %s: %s", entry_point.name, exc)
            continue
        # one that names a function has no folder of its own
        ret.extend(getattr(package, "__path__", ()))
    return ret


def modules(opts, kind):
    """
    Return the functions of all modules of a kind.

    :param dict opts: the master's options
    :param str kind: one of :data:`KINDS`
    :rtype: salt.loader.lazy.LazyLoader
    """
    folders = [os.path.join(folder, kind) for folder in opts.get("module_dirs") or ()]
    if opts.get("extension_modules"):
        folders.append(os.path.join(opts["extension_modules"], kind))
    folders += [os.path.join(folder, kind) for folder in _extensions()]
    folders.append(os.path.join(os.path.dirname(__file__), KINDS[kind]))
    folders = tuple(one for one in dict.fromkeys(folders) if os.path.isdir(one))
    if folders not in _LOADERS:
        # a dictionary of options need not be whole, as in the documentation's examples
        opts = {"optimization_order": [0, 1, 2], **opts}
        _LOADERS[folders] = salt.loader.lazy.LazyLoader(
            list(folders), opts, tag=kind, pack={"__context__": {}}
        )
    return _LOADERS[folders]


def names(opts, kind, function):
    """
    Return the names of the modules of a kind that have a function.
    """
    end = f".{function}"
    return sorted(
        name[: -len(end)] for name in modules(opts, kind) if name.endswith(end)
    )


def wrong(opts, kind, name, function):
    """
    Return what is wrong with a module that does not have its function, or None if there is
    no module of this name.

    :param dict opts: the master's options
    :param str kind: one of :data:`KINDS`
    :param str name: the name of the module
    :param str function: the function that it has to have
    :return: a sentence without its end, which says what to correct
    """
    loaded = modules(opts, kind)
    if name not in loaded.file_mapping:
        return None
    if name not in loaded.missing_modules:
        reason = f"it has no {function}()"
    else:
        reason = loaded.missing_modules[name]
        if not isinstance(reason, BaseException):
            reason = f"its __virtual__() refuses it, {reason or 'for no reason'}"
    return f"Correct {loaded.file_mapping[name][0]}: {reason}"
