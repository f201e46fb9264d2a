"""
What a query is made of comes from Salt's loader: item types, sources and locks.

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
    names of fields of the type ``lock``. If that reads minions' documents, ``needs()``
    returns what of them, as pairs of a bank and a key.
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

#: By kind: in which folder of this package its own modules are.
KINDS = {"query_types": "types", "query_sources": "sources", "query_locks": "locks"}

# the loaders of this process, by the folders that they look into
_LOADERS = {}

# what this process has logged of folders that it does not load from
_LOGGED = set()


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


def _site_folders(opts, kind):
    """
    Return the folders in which a site may have modules of a kind.
    """
    parents = [*(opts.get("module_dirs") or ())]
    if opts.get("extension_modules"):
        parents.append(opts["extension_modules"])
    folders = [os.path.join(parent, kind) for parent in parents]
    return [one for one in folders if os.path.isdir(one)]


def _unsafe(opts, folder):
    """
    Return what to correct if somebody besides root and the master's user may change what
    is loaded from a folder, as a sentence without its end, or None.
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


def unloaded(opts, kind):
    """
    Return the modules of a kind that are in folders from which nothing is loaded: by their
    names, sentences without their ends that say what to correct.

    :param dict opts: the master's options
    :param str kind: one of :data:`KINDS`
    """
    ret = {}
    for folder in _site_folders(opts, kind):
        unsafe = _unsafe(opts, folder)
        if unsafe is not None:
            names_ = {one.partition(".")[0] for one in os.listdir(folder)}
            ret.update({one: unsafe for one in names_ if not one.startswith("_")})
    return ret


def modules(opts, kind):
    """
    Return the functions of all modules of a kind.

    :param dict opts: the master's options
    :param str kind: one of :data:`KINDS`
    :rtype: salt.loader.lazy.LazyLoader
    """
    folders = []
    for folder in _site_folders(opts, kind):
        unsafe = _unsafe(opts, folder)
        if unsafe is None:
            folders.append(folder)
        elif unsafe not in _LOGGED:
            _LOGGED.add(unsafe)
            log.error("%s; until then no module of %s is loaded.", unsafe, folder)
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


def found(opts, kind, name, function, otherwise):
    """
    Return a function of a module.

    :param str otherwise: the sentence to raise if there is no module of this name
    :raises QueryError: if there is none, or it is wrong
    """
    loaded = modules(opts, kind)
    key = f"{name}.{function}"
    if isinstance(name, str) and "." not in name and key in loaded:
        return loaded[key]
    told = isinstance(name, str) and wrong(opts, kind, name, function)
    raise QueryError(f"{told}." if told else otherwise)


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
        return unloaded(opts, kind).get(name)
    if name not in loaded.missing_modules:
        reason = f"it has no {function}()"
    else:
        reason = loaded.missing_modules[name]
        if not isinstance(reason, BaseException):
            reason = f"its __virtual__() refuses it, {reason or 'for no reason'}"
    return f"Correct {loaded.file_mapping[name][0]}: {reason}"
