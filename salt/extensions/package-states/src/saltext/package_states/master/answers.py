"""What minions answer when they are asked."""

import saltext.package_states.master.returns as returns
import saltext.package_states.status.page as pages
import saltext.package_states.status.views as views
import saltext.package_states.store.offers as offers
import saltext.package_states.store.refresh as refreshed
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import PackageStateError

import salt.client
import salt.exceptions

# seconds that a minion has for an answer
TIMEOUT = 120
# how many jobs run at a time: minions with the same entries are asked in one
AT_ONCE = 50
PLAN = "package_state.plan"


def ask(opts, minion, function, arg=()):
    with store.reading(opts) as connection:
        Fleet(opts, connection).minion(minion)
    answers = _asked(opts, function, [([minion], arg)])
    return _answer(answers, minion, function)


def _answer(answers, minion, function, kind=object):
    data = answers.get(minion)
    if not data or data.get("retcode") or not isinstance(data["return"], kind):
        said = returns.problem(data) if data else "no answer, it is busy or down"
        raise PackageStateError(
            f"{minion} did not answer {function}: {said.rstrip('.')}; see what runs there, and that it has"
            " saltext-package-states."
        )
    return data["return"]


def _asked(opts, function, questions):
    """Return what minions answer by id; a question is the ids of minions, and the arguments"""
    found = {}
    try:
        with salt.client.get_local_client(mopts=opts) as client:
            for start in range(0, len(questions), AT_ONCE):
                some = questions[start : start + AT_ONCE]
                jobs = [
                    returns.Job(client, ids, function, arg, TIMEOUT)
                    for ids, arg in some
                ]
                found.update(returns.collect(jobs))
    except salt.exceptions.SaltException as exc:
        ids = [one for ids, _ in questions for one in ids]
        raise PackageStateError(
            f"{', '.join(ids[:10])} can't be asked: {exc}; see that the master runs and that"
            " you may use it."
        ) from exc
    return found


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
        offers.store(opts, minion, ask(opts, minion, offers.FUNCTION, lacking))
    found = views.status(service, minion, table=False)
    told = ("minion", "consistent", "managed", "drift", "errors")
    return {key: found[key] for key in told}


def plan(service, minion=None, group=None):
    """Return what minions say that would be done, or why there is no answer, by their ids, with how
    many they are; of one minion, its answer alone, or raise that there is none
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
            rows = tuple(
                (v.item.key, v.item.wanted, v.item.version, v.item.floor)
                for v in verdicts
            )
            # whose states are not known would tell that all its locks go
            if "" not in trouble:
                asked.setdefault((rows, tuple(sorted(trouble))), []).append(name)
    protected = sorted(service.compiler.protected)
    # most minions of a fleet have the same states; a minion of before takes two arguments
    questions = [
        (ids, [list(map(list, rows)), protected, *([list(left)] if left else [])])
        for (rows, left), ids in asked.items()
    ]
    answers = _asked(opts, PLAN, questions)
    errors = {}
    for name in [one for one in found if "" not in found[one]]:
        try:
            found[name].update(_answer(answers, name, PLAN, dict))
        except PackageStateError as exc:
            if minion is not None:
                raise
            errors.setdefault(str(exc).removeprefix(f"{name} "), []).append(name)
            found[name] = {}
    silent = sum(map(len, errors.values()))
    if found and silent == len(found):
        why, (first, *_) = next(iter(errors.items()))
        raise PackageStateError(f"None of {len(found)} minions answered; {first} {why}")
    if minion is not None:
        return found[minion]
    busy = {name: answer for name, answer in found.items() if answer}
    counts = {"minions": len(found), "to change": len(busy), "no answer": silent}
    said = {why: ", ".join(names) for why, names in errors.items()}
    return {"counts": counts, **({"errors": said} if said else {}), "minions": busy}
