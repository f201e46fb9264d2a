"""
From which folders criteria modules are loaded.

They run as the master's user. So what a site has of its own, below
:conf_master:`module_dirs` and :conf_master:`extension_modules` and in
:conf_master:`job_criteria_dirs`, is loaded only from a folder that belongs, with all that
is in it, to root or to the master's user, and that nobody else may write.
"""

import logging
import os
import stat

import salt.utils.user

log = logging.getLogger(__name__)


def _site(opts):
    """
    Return the folders in which a site may have criteria modules of its own.
    """
    ret = [*(opts.get("job_criteria_dirs") or ())]
    parents = [*(opts.get("module_dirs") or ())]
    if opts.get("extension_modules"):
        parents.append(opts["extension_modules"])
    for parent in parents:
        ret += [
            os.path.join(parent, name) for name in ("job_criteria", "_job_criteria")
        ]
    return [one for one in ret if os.path.isdir(one)]


def _unsafe(opts, folder):
    """
    Return what to correct if somebody besides root and the master's user may change what
    is loaded from a folder, as a sentence without its end, or None.
    """
    trusted_ = {0, salt.utils.user.get_uid(opts.get("user"))}
    seen = set()
    folder = os.path.abspath(folder)
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
        if found.st_uid not in trusted_:
            return (
                f"Give {path} to root or to the master's user: it has to belong to one of"
                " them"
            )
        if found.st_mode & 0o022:
            return f"Take from others the right to write {path} (chmod go-w)"
        todo += inside
    return None


def trusted(opts, folders):
    """
    Return those of the folders of criteria modules from which they are loaded.

    :param dict opts: the master's options
    :param list folders: all of them, those of Salt and of its extensions too
    """
    site = _site(opts)
    ret = []
    for folder in folders:
        unsafe = _unsafe(opts, folder) if folder in site else None
        if unsafe is None:
            ret.append(folder)
        else:
            log.error("%s; until then no module of %s is loaded.", unsafe, folder)
    return ret


def refusal(opts, name):
    """
    Return why a criteria module is in a folder from which none is loaded, as a sentence
    without its end that says what to correct, or None.

    :param dict opts: the master's options
    :param str name: the name of the module
    """
    for folder in _site(opts):
        unsafe = _unsafe(opts, folder)
        if unsafe is not None and any(
            one.partition(".")[0] == name for one in os.listdir(folder)
        ):
            return unsafe
    return None
