"""
What minions answer when they are asked.
"""

import saltext.package_states.names as names
import saltext.package_states.offers as offers
import saltext.package_states.refresh as refreshed
import saltext.package_states.returns as returns
import saltext.package_states.status as status
import saltext.package_states.store as store
from saltext.package_states.errors import PackageStateError
from saltext.package_states.fleet import Fleet
from saltext.package_states.lacking import FUNCTION

import salt.client
import salt.exceptions

# seconds that a minion has for an answer
TIMEOUT = 120


def ask(opts, minion, function, arg=()):
    """
    Return what a minion answers

    :param dict opts: the options of the master
    :param str minion: its id
    :param str function: one of its execution modules
    :param arg: its arguments
    :raises PackageStateError: if it does not answer
    """
    with store.reading(opts) as connection:
        Fleet(opts, connection).minion(minion)
    try:
        with salt.client.get_local_client(mopts=opts) as client:
            answers = dict(returns.ask(client, [minion], function, arg, TIMEOUT))
    except salt.exceptions.SaltException as exc:
        raise PackageStateError(
            f"{minion} can't be asked: {exc}; see that the master runs and that you may"
            " use it."
        ) from exc
    data = answers.get(minion)
    if data is None or data.get("retcode"):
        said = returns.problem(data) if data else "no answer"
        raise PackageStateError(
            f"{minion} did not answer {function}: {said}; see that it is up and has"
            " saltext-package-states."
        )
    return data["return"]


def available(opts, minions, keys):
    """
    Return which versions minions say that there are, by id; a minion that does not
    answer is left out

    :param dict opts: the options of the master
    :param minions: their ids
    :param list keys: packages, each ``name`` or ``name:architecture``
    """
    try:
        with salt.client.get_local_client(mopts=opts) as client:
            answers = dict(
                returns.ask(client, minions, "package_state.available", keys, TIMEOUT)
            )
    except salt.exceptions.SaltException:
        return {}
    return {
        one: answer["return"]
        for one, answer in answers.items()
        if _versions(answer["return"])
    }


def _versions(answer):
    """
    Return whether these are versions by package, and nothing else
    """
    return isinstance(answer, dict) and all(
        names.is_line(key, 199)
        and isinstance(there, list)
        and all(map(names.is_line, there))
        for key, there in answer.items()
    )


def refresh(opts, minion):
    """
    Ask a minion for its packages, store them, and return its status

    :param dict opts: the options of the master
    :param str minion: its id
    """
    inventory = ask(opts, minion, "package_state.inventory")
    lacking = refreshed.store(opts, minion, inventory)
    if lacking:
        offers.store(opts, minion, ask(opts, minion, FUNCTION, lacking))
    return status.summary(minion, refreshed.rows(opts, minion))


def plan(service, minion):
    """
    Ask a minion what would be done

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str minion: its id
    """
    _, verdicts = service.verdicts(minion)
    rows = [[v.item.key, v.item.wanted, v.item.version, v.item.floor] for v in verdicts]
    return ask(
        service.opts,
        minion,
        "package_state.plan",
        [rows, sorted(service.compiler.protected)],
    )
