"""
The configuration of the job handler: the section :conf_master:`rate_limiting`.
"""

import salt.job_criteria
import salt.job_handler.folders
import salt.loader

DEFAULTS = {
    "max_queue_size": 10000,
    "max_queue_bytes": 1073741824,
    "max_queue_age": 86400,
    "sync_wait": "timeout",
    "fail_mode": "open",
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
    "reconcile_rate": 100,
}

_CHOICES = {"sync_wait": ("timeout", "extend"), "fail_mode": ("open", "closed")}


def settings(opts):
    """
    Return the section ``rate_limiting`` with its defaults.

    :param dict opts: the master's options
    """
    return {**DEFAULTS, **(opts.get("rate_limiting") or {})}


def criteria_name(section):
    """
    Return the name of the criteria module. It may be written with ``.py``.
    """
    name = section["criteria"]
    return name[:-3] if name.endswith(".py") else name


def load_criteria(opts):
    """
    Return an instance of the criteria module that is configured.

    :raises KeyError: if there is no such module, or it has no function ``criteria``
    """
    section = settings(opts)
    return salt.loader.job_criteria(opts)[f"{criteria_name(section)}.criteria"](section)


def errors(opts):
    """
    Return a list of sentences, one for each thing that is wrong with the section.
    """
    section = opts.get("rate_limiting")
    if not section:
        return []
    if not isinstance(section, dict):
        return ["rate_limiting: write a mapping with at least the key criteria."]
    return [f"rate_limiting: {error}" for error in _errors(opts, section)]


def _errors(opts, section):
    ret = []
    for name in ("max_queue_size", "max_queue_bytes", "reconcile_rate"):
        if name in section and not salt.job_criteria.is_count(section[name]):
            ret.append(f"{name} is {section[name]!r}: {salt.job_criteria.COUNT}")
    for name in ("max_queue_age", "long_running", "reconcile_interval"):
        if name in section and not salt.job_criteria.is_number(section[name]):
            ret.append(f"{name} is {section[name]!r}: {salt.job_criteria.SECONDS}")
    for name, choices in _CHOICES.items():
        if name in section and section[name] not in choices:
            ret.append(
                "{} is {!r}: write one of {}.".format(
                    name, section[name], ", ".join(choices)
                )
            )
    exempt = section.get("exempt", [])
    if not isinstance(exempt, list) or not all(isinstance(fun, str) for fun in exempt):
        ret.append(f"exempt is {exempt!r}: write a list of functions.")
    name = section.get("criteria")
    if not isinstance(name, str) or not name:
        ret.append("criteria is missing: write the name of a criteria module.")
        return ret
    return ret + _criteria_errors(opts, section)


def _criteria_errors(opts, section):
    """
    Return what is wrong with the criteria module or with its own settings.
    """
    name = criteria_name(section)
    loader = salt.loader.job_criteria(opts)
    function = f"{name}.criteria"
    if function not in loader:
        path = (loader.file_mapping.get(name) or [""])[0]
        if name in loader.missing_modules:
            told = loader.missing_modules[name]
            if not isinstance(told, BaseException):
                told = loader.missing_fun_string(function)
            told = str(told).rstrip(".")
            return [f"the criteria module {name} can't be loaded: {told}; see {path}."]
        if path:
            return [
                f"the criteria module {name} has no function criteria: add it to {path}."
            ]
        unsafe = salt.job_handler.folders.refusal(opts, name)
        if unsafe is not None:
            return [f"{unsafe}; until then the criteria module {name} is not loaded."]
        known = sorted(key.split(".")[0] for key in loader if key.endswith(".criteria"))
        return [
            "criteria is {!r}: there is no such module with a function criteria; there"
            " are {}.".format(section["criteria"], ", ".join(known))
        ]
    section = {**DEFAULTS, **section}
    try:
        cls = type(loader[f"{name}.criteria"](section))
        ret = list(cls.validate(section))
        options = cls.options
    except Exception as exc:  # pylint: disable=broad-except
        return [f"the criteria module {name} does not take its settings: {exc}."]
    for key in sorted(set(section) - set(DEFAULTS) - set(options) - {"criteria"}):
        ret.append(
            "{} is not an option of the job handler or of {}; there are {}.".format(
                key, name, ", ".join(sorted({*DEFAULTS, *options}))
            )
        )
    return ret
