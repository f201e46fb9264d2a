"""What minions answer when they are asked."""

import saltext.package_states.master.returns as returns
import saltext.package_states.status.page as pages
import saltext.package_states.status.views as views
import saltext.package_states.store.offers as offers
import saltext.package_states.store.refresh as refreshed
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import PackageStateError
from saltext.package_states.master.lacking import FUNCTION

import salt.client
import salt.exceptions

# seconds that a minion has for an answer
TIMEOUT = 120
PLAN = "package_state.plan"


def ask(opts, minion, function, arg=()):
    """Return what a minion answers"""
    with store.reading(opts) as connection:
        Fleet(opts, connection).minion(minion)
    return _answer(_asked(opts, [minion], function, arg), minion, function)


def _answer(answers, minion, function, kind=object):
    """Return what one of those that were asked has answered"""
    data = answers.get(minion)
    if not data or data.get("retcode") or not isinstance(data["return"], kind):
        said = returns.problem(data) if data else "no answer, it is busy or down"
        raise PackageStateError(
            f"{minion} did not answer {function}: {said.rstrip('.')}; see what runs there, and that it has"
            " saltext-package-states."
        )
    return data["return"]


def _asked(opts, ids, function, arg):
    try:
        with salt.client.get_local_client(mopts=opts) as client:
            return dict(returns.ask(client, ids, function, arg, TIMEOUT))
    except salt.exceptions.SaltException as exc:
        raise PackageStateError(
            f"{', '.join(ids[:10])} can't be asked: {exc}; see that the master runs and that"
            " you may use it."
        ) from exc


def refresh(service, minion):
    """Ask a minion for its packages, store them, and return its status"""
    opts = service.opts
    try:
        inventory = ask(opts, minion, "package_state.inventory")
    except PackageStateError as exc:
        # nothing that is stored is true of it any more
        refreshed.mark(opts, [minion], str(exc))
        raise
    lacking = refreshed.store(opts, minion, inventory)
    if lacking:
        offers.store(opts, minion, ask(opts, minion, FUNCTION, lacking))
    found = views.status(service, minion, table=False)
    told = ("minion", "consistent", "managed", "drift", "errors")
    return {key: found[key] for key in told}


def plan(service, minion=None, group=None):
    """Return what minions say that would be done, or why there is no answer, by their ids; of one
    minion, its answer alone, or raise that there is none
    """
    opts, asked, found = service.opts, {}, {}
    with store.reading(opts) as connection:
        fleet = Fleet(opts, connection)
        if minion is not None:
            minions = {minion: fleet.minion(minion)}
        else:
            minions = fleet.minions(pages.members(fleet, group))
        for name, sources in fleet.sources(minions).items():
            verdicts, trouble = fleet.possible(minions[name], sources)
            found[name] = {
                key: {"action": "refused", "reason": str(exc)}
                for key, exc in trouble.items()
            }
            rows = [
                (v.item.key, v.item.wanted, v.item.version, v.item.floor)
                for v in verdicts
            ]
            asked.setdefault(tuple(rows), []).append(name)
    protected = sorted(service.compiler.protected)
    # most minions of a fleet have the same states
    for rows, ids in asked.items():
        answers = _asked(opts, ids, PLAN, [list(map(list, rows)), protected])
        for name in ids:
            try:
                found[name].update(_answer(answers, name, PLAN, dict))
            except PackageStateError as exc:
                if minion is not None:
                    raise
                found[name]["error"] = str(exc)
    if found and all("error" in answer for answer in found.values()):
        raise PackageStateError(
            f"None of {len(found)} minions answered; {next(iter(found.values()))['error']}"
        )
    return found if minion is None else found[minion]
