"""Runner for the package lists that the master stores

The engine :py:mod:`pkgset <saltext.package_states.engines.pkgset>` keeps them up to date by itself.
This is for a first time, and for minions that were away for long. Call it by hand or from the
schedule, and not from a reaction: a minion may fire any event.
"""

import collections
import fnmatch
import logging
import time

import saltext.package_states.model.names as plain
import saltext.package_states.store.offers as offers
from saltext.package_states.master import arguments, authors, lists, returns

import salt.client
from salt.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

# how others than salt-run may name minions: none of these looks into pillars, unless a nodegroup
# of the configuration does, or searches for a regular expression, which may have no end
TARGETS = ("glob", "list", "grain", "nodegroup")
# the seconds that minions may have
LONGEST = 3600


def __virtual__():
    if authors.is_minion(__opts__):
        return False, authors.REFUSED
    return True


def refresh(tgt, tgt_type="glob", batch=200, timeout=60):
    """Ask minions for their packages, so many at a time, and store what they answer

    Returns the minions under ``stored``, ``failed`` (with the reason) and ``silent``, and under
    ``counts`` how many these are; ``reasons`` has each reason once, with their number.

    Callers other than ``salt-run`` on the master use no target over pillars, no regular expression,
    and no compound target. ``batch`` is how many are asked at a time, and ``timeout`` the seconds
    for which they may answer.

    CLI Example: ``salt-run pkgset.refresh 'os:Debian' tgt_type=grain batch=50``
    """
    # not SaltInvocationError, which a Salt as it is prints as a success
    if not isinstance(batch, int) or batch < 1:
        raise CommandExecutionError(
            f"batch={plain.shown(batch)}: give a number of minions, such as 200."
        )
    if not isinstance(timeout, (int, float)) or not 0 < timeout <= LONGEST:
        raise CommandExecutionError(
            f"timeout={plain.shown(timeout)}: give seconds, at most {LONGEST}."
        )
    if authors.is_within() and tgt_type not in TARGETS:
        raise CommandExecutionError(
            f"tgt_type={plain.shown(tgt_type)}: use one of {', '.join(TARGETS)}, or salt-run"
            " on the master."
        )
    ret = {"stored": [], "failed": {}, "silent": []}
    lacking = offers.Lacking(timeout)
    with salt.client.LocalClient(mopts=__opts__) as client:
        minions = sorted(client.gather_minions(tgt, tgt_type))
        if not minions:
            hint = "a target such as G@os:Debian needs tgt_type=compound, a group tgt_type=nodegroup"
            raise CommandExecutionError(
                f"No minion matches {tgt} as a {tgt_type}: {hint}; salt-key --list=accepted shows all."
            )
        for begin in range(0, len(minions), batch):
            part = minions[begin : begin + batch]
            silent = set(part)
            for minion, answer in returns.ask(
                client, part, lists.function(__opts__), timeout=timeout
            ):
                silent.discard(minion)
                try:
                    lacking.add(minion, lists.take(__opts__, minion, answer))
                    ret["stored"].append(minion)
                except Exception as exc:  # pylint: disable=broad-except
                    # one minion does not end the run for the others
                    why = ret["failed"][minion] = plain.line(exc, 500)
                    lists.mark(__opts__, [minion], why)
            ret["silent"].extend(sorted(silent))
        _offers(client, lacking, timeout, ret["failed"])
    if not ret["stored"]:
        # a result without any would end with 0
        why = sorted(set(ret["failed"].values())) or [f"no answer in {timeout} s"]
        raise CommandExecutionError(
            f"None of {len(minions)} minions sent its packages: {'; '.join(why[:5])}; see"
            " salt-run manage.down."
        )
    counts = {"asked": len(minions), **{word: len(ret[word]) for word in ret}}
    reasons = dict(collections.Counter(ret["failed"].values()))
    return {"counts": counts, **({"reasons": reasons} if reasons else {}), **ret}


def _offers(client, lacking, timeout, failed):
    """Ask for what repositories have, each thing of one minion"""
    while taken := lacking.take(time.monotonic()):
        minion, digests = taken
        answers = dict(returns.ask(client, [minion], offers.FUNCTION, digests, timeout))
        answer = answers.get(minion, {}).get("return")
        try:
            lacking.answered(offers.store(__opts__, minion, answer))
        except Exception as exc:  # pylint: disable=broad-except
            failed[minion] = plain.line(exc, 500)
            lacking.answered(())


def packages(minion, names="*"):
    """Return the stored packages of a minion with their versions, without asking it

    ``names`` is a pattern, such as ``nginx*``; that there are none is an error.

    CLI Example: ``salt-run pkgset.packages web1 'nginx*'``
    """
    minion = str(minion)
    found = lists.stored(__opts__, minion)
    if not found:
        raise CommandExecutionError(
            f"No packages of {minion} are stored: run pkgset.refresh {minion}"
        )
    chosen = {name: found[name] for name in fnmatch.filter(found, str(names))}
    if not chosen:
        raise CommandExecutionError(
            f"{minion} has no package like {names}: see pkgset.packages {minion}, or run"
            f" pkgset.refresh {minion} if that is old"
        )
    return chosen


arguments.strict(globals())
