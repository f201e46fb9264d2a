"""
The configuration of the job handler: the section :conf_master:`rate_limiting`, and from
which folders criteria modules are loaded. They run as the master's user, so those of a site
are loaded only from folders that nobody but root and this user may write.
"""

import logging
import os
import stat

import salt.job_criteria
import salt.job_handler.leases
import salt.job_handler.policy
import salt.job_handler.postgres
import salt.loader
import salt.utils.user
from salt.job_criteria import is_count, is_number

log = logging.getLogger(__name__)

DEFAULTS = {
    "max_queue_size": 10000,
    "max_queue_bytes": 1073741824,
    "max_queue_age": 86400,
    "sync_wait": "timeout",
    "fail_mode": "open",
    "store": "sqlite",
    "postgresql": None,
    "exempt": [
        "test.ping",
        "saltutil.find_job",
        "saltutil.running",
        "saltutil.is_running",
        "saltutil.kill_job",
        "saltutil.term_job",
        "saltutil.signal_job",
    ],
    "long_running": 60,
    "reconcile_interval": 15,
    "rules": [],
    "operators": [],
}


def _is_list(value):
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _one_of(*choices):
    return choices.__contains__, f"write one of {', '.join(choices)}."


_COUNT = (is_count, "write a whole number above 0.")
_SECONDS = (is_number, "write seconds above 0.")

#: What each setting accepts, and what to write instead of something else.
_KINDS = {
    "max_queue_size": _COUNT,
    "max_queue_bytes": _COUNT,
    "max_queue_age": _SECONDS,
    "long_running": _SECONDS,
    "reconcile_interval": _SECONDS,
    "sync_wait": _one_of("timeout", "extend"),
    "fail_mode": _one_of("open", "closed"),
    "store": _one_of("sqlite", "postgresql"),
    "exempt": (_is_list, "write a list of functions."),
    "operators": (_is_list, "write a list of users."),
}


def settings(opts):
    """Return the section ``rate_limiting`` with its defaults."""
    return {**DEFAULTS, **salt.job_criteria.given(opts.get("rate_limiting") or {})}


def criteria_name(section):
    """Return the name of the criteria module. It may be written with ``.py``."""
    name = section["criteria"]
    return name[:-3] if name.endswith(".py") else name


def load_criteria(opts, section, leases):
    """Return an instance of the criteria module.

    :raises KeyError: if there is none, or it has no function ``criteria``
    """
    function = f"{criteria_name(section)}.criteria"
    return salt.loader.job_criteria(opts)[function](section, leases)


def errors(opts):
    """Return a list of sentences, one for each thing that is wrong with the section."""
    section = opts.get("rate_limiting")
    if not section:
        return []
    if not isinstance(section, dict):
        return ["rate_limiting: write a mapping with at least the key criteria."]
    return [f"rate_limiting: {error}" for error in _errors(opts, section)]


def _errors(opts, section):
    ret = list(salt.job_criteria.errors(section, _KINDS))
    if section.get("store") == "postgresql":
        ret += salt.job_handler.postgres.errors(section)
        if not opts.get("cluster_id"):
            ret.append(
                "store is 'postgresql': this is for clusters, so set cluster_id."
            )
    ret += salt.job_handler.policy.errors(settings(opts)["rules"])
    name = section.get("criteria")
    if not isinstance(name, str) or not name:
        ret.append("criteria is missing: write the name of a criteria module.")
        return ret
    return ret + _criteria_errors(opts, section)


def _criteria_errors(opts, section):
    name = criteria_name(section)
    loader = salt.loader.job_criteria(opts)
    function = f"{name}.criteria"
    if function not in loader:
        known = sorted(key.split(".")[0] for key in loader if key.endswith(".criteria"))
        return [
            "criteria is {!r}: {}; there are {}.".format(
                section["criteria"],
                loader.missing_fun_string(function).rstrip("."),
                ", ".join(known),
            )
        ]
    section = settings(opts)
    try:
        leases = salt.job_handler.leases.Leases()
        cls = type(loader[f"{name}.criteria"](section, leases))
        ret = list(cls.validate(section))
        options = cls.options
    except Exception as exc:  # pylint: disable=broad-except
        return [f"the criteria module {name} does not take its settings: {exc}."]
    names = {*DEFAULTS, *options, "criteria"}
    return ret + list(salt.job_criteria.unknown(section, names))


def _site(opts):
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
    """Return what to correct if others may change what is loaded from a folder."""
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
    """Return those of all folders of criteria modules from which they are loaded."""
    site = _site(opts)
    ret = []
    for folder in folders:
        unsafe = _unsafe(opts, folder) if folder in site else None
        if unsafe is None:
            ret.append(folder)
        else:
            log.error("%s; until then no module of %s is loaded.", unsafe, folder)
    return ret
