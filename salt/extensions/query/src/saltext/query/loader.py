"""What a query is made of comes from Salt's loader: item types, sources and locks.

A site adds its own with one file. It is looked for in ``query_types``,
``query_sources`` or ``query_locks`` below each folder of :conf_master:`module_dirs`, in
those below :conf_master:`extension_modules`, and in those of every Salt extension that is
installed. One that has the name of another takes its place.

Modules run as the master's user. So those below :conf_master:`module_dirs` and
:conf_master:`extension_modules` are loaded only from a folder that belongs, with all that
is in it, to root or to the master's user, and that nobody else may write.

A module of ``query_types`` has ``item_type()``, which returns a
:class:`saltext.query.item.ItemType`; the name of the module is what a request asks for. One of
``query_sources`` has ``source(context)``, which returns what item types ask for by
:meth:`saltext.query.context.Context.source`. One of ``query_locks`` has ``locks(context)``, which
yields dictionaries whose keys are names of fields of the type ``lock``; what it reads of minions'
documents, it asks for by :meth:`saltext.query.context.Context.want`.
"""

import functools
import os

from saltext.query.errors import QueryError

import salt.loader
import salt.loader.lazy
import salt.utils.entrypoints
import salt.utils.user

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
        with salt.loader.catch_entry_points_exception(entry_point):
            # one that names a function has no folder of its own
            ret += getattr(entry_point.load(), "__path__", ())
    return ret


def _site_folders(opts, kind):
    """Return a site's folders of a kind, each with what to correct first, or None."""
    parents = [*(opts.get("module_dirs") or ()), opts.get("extension_modules")]
    folders = [os.path.join(parent, kind) for parent in parents if parent]
    return {one: _unsafe(opts, one) for one in folders if os.path.isdir(one)}


def _unsafe(opts, folder):
    """Return what to correct if others may change what is loaded here, or None."""
    trusted = {0, salt.utils.user.get_uid(opts.get("user"))}
    paths = [os.path.dirname(folder), folder]
    for parent, folders, files in os.walk(folder, followlinks=True):
        paths += [os.path.join(parent, one) for one in (*folders, *files)]
    for path in paths:
        try:
            # of what a link leads to
            found = os.stat(path)
        except OSError:
            # what can't be read can't be loaded either
            continue
        if found.st_uid not in trusted:
            return (
                f"Give {path} to root or to the master's user: it has to belong to one of"
                " them"
            )
        if found.st_mode & 0o022:
            return f"Take from others the right to write {path} (chmod go-w)"
    return None


def modules(opts, kind):
    """Return the functions of all modules of one of :data:`KINDS`."""
    site = _site_folders(opts, kind)
    folders = [folder for folder, unsafe in site.items() if unsafe is None]
    folders += [os.path.join(folder, kind) for folder in _extensions()]
    folders.append(os.path.join(os.path.dirname(__file__), KINDS[kind][0]))
    known = tuple(one for one in dict.fromkeys(folders) if os.path.isdir(one))
    if known not in _LOADERS:
        # a dictionary of options need not be whole, as in the documentation's examples
        opts = {"optimization_order": [0, 1, 2], **opts}
        _LOADERS[known] = salt.loader.lazy.LazyLoader(
            list(known), opts, tag=kind, pack={"__context__": {}}
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
    name, function = str(name), KINDS[kind][1]
    if f"{name}.{function}" in loaded:
        return loaded[f"{name}.{function}"]
    wrong = problems(opts, kind)
    if name in wrong:
        otherwise = f"{wrong[name]}."
    elif name in loaded.file_mapping:
        path = loaded.file_mapping[name][0]
        otherwise = f"Correct {path}: it has no {function}(), or refuses to be loaded."
    raise QueryError(otherwise)


def problems(opts, kind):
    """Return what to correct, without a full stop, by the names of modules that can't be
    loaded. One whose ``__virtual__`` refuses it is none of them.
    """
    ret = {}
    for folder, unsafe in _site_folders(opts, kind).items():
        if unsafe is not None:
            names_ = [one.partition(".")[0] for one in os.listdir(folder)]
            ret.update(dict.fromkeys(names_, unsafe))
    loaded = modules(opts, kind)
    for name, reason in loaded.missing_modules.items():
        if isinstance(reason, BaseException):
            ret[name] = f"Correct {loaded.file_mapping[name][0]}: {reason}"
    return ret
