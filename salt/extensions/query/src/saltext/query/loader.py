"""What a query is made of comes from Salt's loader: item types, sources and locks.

A site adds its own with one file. It is looked for in ``query_types``,
``query_sources`` or ``query_locks`` below each folder of :conf_master:`module_dirs`, in
those below :conf_master:`extension_modules`, and in those of every Salt extension that is
installed. One that has the name of another takes its place.

Modules run as the master's user. So those below :conf_master:`module_dirs` and
:conf_master:`extension_modules` are loaded only from a folder that belongs, with all that
is in it, to root or to the master's user, and that nobody else may write.

query_types
    A module with ``item_type()``, which returns a :class:`saltext.query.item.ItemType`.
    The name of the module is what a request asks for.

query_sources
    A module with ``source(context)``, which returns whatever its item types ask for by
    :meth:`saltext.query.context.Context.source`. It is made once for each query.

query_locks
    A module with ``locks(context)``, which yields locks as dictionaries whose keys are
    names of fields of the type ``lock``. What it reads of minions' documents, it asks for by
    :meth:`saltext.query.context.Context.want`.
"""

import functools
import logging
import os
import stat

from saltext.query.errors import QueryError

import salt.loader.lazy
import salt.utils.entrypoints
import salt.utils.user

log = logging.getLogger(__name__)

#: By kind: in which folder of this package its own modules are, and the function of each.
KINDS = {
    "query_types": ("types", "item_type"),
    "query_sources": ("sources", "source"),
    "query_locks": ("locks", "locks"),
}

# the loaders of this process, by the folders that they look into or leave out
_LOADERS = {}


@functools.lru_cache(maxsize=1)
def _extensions():
    """Return the folders of the Salt extensions that are installed."""
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


def _site_folders(opts, kind):
    """Return the folders in which a site has modules of a kind, each with what to
    correct before anything is loaded from it, or None.
    """
    parents = [*(opts.get("module_dirs") or ()), opts.get("extension_modules")]
    folders = [os.path.join(parent, kind) for parent in parents if parent]
    return {one: _unsafe(opts, one) for one in folders if os.path.isdir(one)}


def _unsafe(opts, folder):
    """Return what to correct if somebody besides root and the master's user may change
    what is loaded from a folder, as a sentence without its end, or None.
    """
    trusted = {0, salt.utils.user.get_uid(opts.get("user"))}
    seen = set()
    parent = os.path.dirname(folder)
    todo = [parent, folder]
    while todo:
        path = todo.pop()
        try:
            # of what a link leads to
            found = os.stat(path)
            inside = []
            if stat.S_ISDIR(found.st_mode) and path != parent:
                inside = [entry.path for entry in os.scandir(path)]
        except OSError:
            # what can't be read can't be loaded either
            continue
        if (found.st_dev, found.st_ino) in seen:
            continue
        seen.add((found.st_dev, found.st_ino))
        if found.st_uid not in trusted:
            return (
                f"Give {path} to root or to the master's user: it has to belong to one of"
                " them"
            )
        if found.st_mode & 0o022:
            return f"Take from others the right to write {path} (chmod go-w)"
        todo += inside
    return None


def modules(opts, kind):
    """Return the functions of all modules of one of :data:`KINDS`."""
    site = _site_folders(opts, kind)
    folders = [folder for folder, unsafe in site.items() if unsafe is None]
    folders += [os.path.join(folder, kind) for folder in _extensions()]
    folders.append(os.path.join(os.path.dirname(__file__), KINDS[kind][0]))
    folders = tuple(one for one in dict.fromkeys(folders) if os.path.isdir(one))
    known = folders, *site.items()
    if known not in _LOADERS:
        for folder, unsafe in site.items():
            if unsafe is not None:
                log.error("%s; until then no module of %s is loaded.", unsafe, folder)
        # a dictionary of options need not be whole, as in the documentation's examples
        opts = {"optimization_order": [0, 1, 2], **opts}
        _LOADERS[known] = salt.loader.lazy.LazyLoader(
            list(folders), opts, tag=kind, pack={"__context__": {}}
        )
    return _LOADERS[known]


def names(opts, kind):
    """Return the names of the modules of a kind."""
    end = f".{KINDS[kind][1]}"
    return sorted(
        name[: -len(end)] for name in modules(opts, kind) if name.endswith(end)
    )


def found(opts, kind, name, otherwise):
    """Return the function of a module.

    :param str otherwise: the sentence to raise if there is no module of this name
    :raises QueryError: if there is none, or it is wrong
    """
    loaded = modules(opts, kind)
    function = KINDS[kind][1]
    if isinstance(name, str) and "." not in name:
        if f"{name}.{function}" in loaded:
            return loaded[f"{name}.{function}"]
        reason = f"it has no {function}()"
        if name in loaded.missing_modules:
            refusal = loaded.missing_modules[name] or "for no reason"
            reason = f"its __virtual__() refuses it, {refusal}"
        if name in loaded.file_mapping:
            otherwise = f"Correct {loaded.file_mapping[name][0]}: {reason}."
        wrong = problems(opts, kind)
        if name in wrong:
            otherwise = f"{wrong[name]}."
    raise QueryError(otherwise)


def problems(opts, kind):
    """Return what to correct of modules that can't be loaded, by their names, as
    sentences without their ends. One whose ``__virtual__`` refuses it is none of them.
    """
    ret = {}
    for folder, unsafe in _site_folders(opts, kind).items():
        if unsafe is not None:
            inside = [one for one in os.listdir(folder) if not one.startswith("_")]
            ret.update(dict.fromkeys([one.partition(".")[0] for one in inside], unsafe))
    loaded = modules(opts, kind)
    for name, reason in loaded.missing_modules.items():
        if isinstance(reason, BaseException):
            ret[name] = f"Correct {loaded.file_mapping[name][0]}: {reason}"
    return ret
