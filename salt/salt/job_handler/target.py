"""
Targets for a part of a job's minions.

Salt broadcasts, and minions match for themselves. So what reaches some minions of a
job only has to say so in its target.
"""

import logging

import salt.job_handler.interval
import salt.utils.resource_registry
from salt.defaults import DEFAULT_TARGET_DELIM

log = logging.getLogger(__name__)

#: The letter of each target type in a compound target.
_LETTERS = {
    "pcre": "E",
    "grain": "G",
    "grain_pcre": "P",
    "pillar": "I",
    "pillar_pcre": "J",
    "ipcidr": "S",
    "range": "R",
}

#: A word of a compound target holds none of these.
_NO_WORD = frozenset(" \t\r\n()")

#: Words that mean something else in a compound target.
_OPERATORS = frozenset(("and", "or", "not", "(", ")"))


def narrow(load, minions, excluded, partial, stretch=None):
    """
    Return the load that reaches these minions of a job.

    :param dict load: the load for all of the job's minions
    :param list minions: whom it is to reach
    :param excluded: the minions that are left out for good
    :param bool partial: whether others of the job's minions have got it before, or wait
        for it still
    :param Stretch stretch: where between these the minions are, if they are neighbours
    :return: ``load`` itself if nobody is left out; or else a copy with a list of the
        minions, or with ``(<target>) and E@<neighbours> and not L@<excluded>``,
        whichever is shorter
    """
    if not excluded and not partial:
        return load
    if not partial:
        found = _without(load, "", excluded)
    elif stretch is not None and minions:
        found = _neighbours(load, stretch, minions)
    else:
        found = None
    listed = sum(map(len, minions)) + 3 * len(minions)
    if found is None or len(found[0]) >= listed:
        found = list(minions), "list"
    ret = dict(load)
    ret["tgt"], ret["tgt_type"] = found
    if found[1] != "list":
        ret.pop("delimiter", None)
    return ret


def is_fixed(opts, minions):
    """
    Return whether a job's target has to stay as it is: on a master of masters, which
    does not know whom it reaches, and if any of the job's minions manages resources, or
    is one, as which of them a minion runs a job on depends on how the target is written.

    :param dict opts: the master's options
    :param minions: the ids that the target matched
    """
    if opts.get("order_masters"):
        return True
    try:
        registry = salt.utils.resource_registry.get_registry(opts)
        if not registry.stats()["primary"]["occupied"]:
            return False
        return any(
            registry.get_resources_for_minion(minion)
            or registry.resolve_bare_resource_id(minion)
            for minion in minions
        )
    except Exception:  # pylint: disable=broad-except
        log.exception("It is not known whether minions have resources")
        return False


def _neighbours(load, stretch, minions):
    """
    Return the target and its type for the minions of a stretch, or None.
    """
    whole = not stretch.skipped and (load["tgt"], load["tgt_type"]) == ("*", "glob")
    pattern = salt.job_handler.interval.pattern(
        stretch.low, stretch.high, minions, group=whole
    )
    if not pattern:
        return None
    if whole:
        return pattern, "pcre"
    return _without(load, f"E@{pattern}", stretch.skipped)


def _without(load, pattern, excluded):
    """
    Return a compound target and its type for all minions, or those that fit a word of
    it, but some; None if there is none.
    """
    if any(_NO_WORD & set(minion) or "," in minion for minion in excluded):
        return None
    target = _compound(load)
    if target is None:
        return None
    parts = [f"( {target} )"]
    if pattern:
        parts.append(pattern)
    if excluded:
        parts.append("not L@{}".format(",".join(sorted(excluded))))
    return " and ".join(parts), "compound"


def _compound(load):
    """
    Return the target of a load as a compound target, or None if it can't be one.
    """
    tgt, tgt_type = load["tgt"], load.get("tgt_type", "glob")
    if load.get("delimiter", DEFAULT_TARGET_DELIM) != DEFAULT_TARGET_DELIM:
        return None
    if tgt_type == "compound":
        return " ".join(tgt) if isinstance(tgt, (list, tuple)) else tgt
    if tgt_type == "list":
        words = tgt.split(",") if isinstance(tgt, str) else list(tgt)
        word = "L@{}".format(",".join(word.strip() for word in words))
    elif not isinstance(tgt, str):
        return None
    elif tgt_type == "glob":
        word = tgt
        if tgt[1:2] == "@" or tgt in _OPERATORS:
            return None
    elif tgt_type in _LETTERS:
        word = f"{_LETTERS[tgt_type]}@{tgt}"
    else:
        # pillar_exact has no letter
        return None
    return None if _NO_WORD & set(word) else word
