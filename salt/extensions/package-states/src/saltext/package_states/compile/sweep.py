"""All files, brought up to date with who there is: who joined, who left, and who has another id.

A minion that was renamed has another id and the same public key, or the same system in the
database. What was its under the old id, which no minion has any more, is its under the new one.
"""

from typing import NamedTuple

import saltext.package_states.store.refresh as refresh
import saltext.package_states.store.roster as roster
import saltext.package_states.store.tables as store
from saltext.package_states.compile import files
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import PackageStateError


def sweep(opts, compiler, ids=None):
    """Bring all files up to date with who there is: who joined has one, who is gone has none

    :param ids: the ids of minions that may have changed, None for all
    :return: ``compiled``, a number, the ``files`` that changed, those ``removed``, the minions that
        are ``gone`` or were ``renamed``, and the ``errors`` by minion
    """
    texts, away, result = {}, [], {"files": [], "removed": []}

    def write():
        # one that can't be written keeps none that is gone, and the other way round
        failed = []
        for name in away:
            try:
                if files.remove(compiler.root, name):
                    result["removed"].append(files.shown(name))
            except PackageStateError as exc:
                failed.append(exc)
        result["files"] = compiler.write(texts, failed)

    # a state must not be saved meanwhile
    with store.writing(opts, after=write) as connection:
        fleet = Fleet(opts, connection)
        moved = notice(connection, fleet.registry, ids)
        if moved.renamed or moved.adopted or moved.collided:
            fleet = Fleet(opts, connection)
        some = None if ids is None else {*ids, *moved.renamed.values(), *moved.adopted}
        minions = fleet.minions(some)
        found, problems = compiler.texts(fleet, minions, fleet.sources(minions))
        texts.update(
            (name, text)
            for name, text in found.items()
            if not compiler.idle(name, text)
        )
        changed = [
            name for name in texts if files.read(compiler.root, name) != texts[name]
        ]
        refresh.drop(connection, changed)
        states = {
            files.alone(where.name): where
            for where in store.states(connection)
            if not where.own
        }
        if ids is None:
            for name, where in states.items():
                texts[name] = compiler.alone(fleet, where)
        away.extend(map(files.alone, moved.adopted))
        strays, vanished = {*(ids or ()), *moved.renamed} - {*minions}, moved.vanished
        if ids is None:
            strays = compiler.strays({*minions, *states})
        if strays and not vanished and not fleet.registry.minions():
            # of a fleet that nobody has looked at yet, the files tell
            lost = [one for one in compiler.strays(()) if not files.is_alone(one)]
            vanished = len(lost) if lost[1:] else 0
        if vanished:
            problems["*"] = {"": _vanished(vanished)}
        else:
            away.extend(strays)
    return {
        "compiled": len(texts),
        **result,
        "gone": sorted({*moved.gone, *(ids or ())} - {*minions}),
        "renamed": moved.renamed,
        "errors": {
            name: " ".join(map(str, problems[name].values()))
            for name in sorted(problems)
        },
    }


def _vanished(count):
    return PackageStateError(
        f"There is no minion at all, and there were {count}, so no file is removed until there"
        " is one again; see that the keys of the master are there, or the rows of the view"
        " package_states.minion."
    )


class Movement(NamedTuple):
    gone: list  # the ids of minions, sorted
    renamed: dict  # the new ids of minions by the old ones
    adopted: list  # the names of states that are the own ones of minions now
    # the old ids of minions by the new ones where both have a state of their own:
    # nothing is moved then
    collided: dict
    # how many minions there were, if now there is none at all: then that is out of
    # order from which they are known, and nobody is gone
    vanished: int = 0


def notice(connection, registry, ids=None):
    """Write down what has changed with some ids, or all, and return it, a :class:`Movement`"""
    known = roster.known_minions(connection)
    there = set(registry.minions(ids))
    asked = known.keys() if ids is None else known.keys() & set(ids)
    joined = {one for one in there if one not in known or known[one][1]}
    gone = {one for one in asked if one not in there and not known[one][1]}
    vanished = 0
    before = sum(not away for _, away in known.values())
    if gone and before > 1 and not registry.minions():
        # rather a registry that is out of order than a fleet that has vanished
        gone, vanished = set(), before
    # the key may be another one now, of which there is not always an event
    identities = {
        one: identity
        for one, identity in registry.identities(sorted(there)).items()
        if one in joined or identity not in ("", known[one][0])
    }
    roster.know(connection, identities, sorted(gone))
    lost = {one for one, (_, away) in known.items() if away and one not in there} | gone
    renamed, collided = _renamed(connection, registry, known, identities, lost)
    strangers = roster.strangers(connection)
    adopted = roster.adopt(connection, registry.minions(strangers)) if strangers else []
    return Movement(sorted(gone), renamed, sorted(adopted), collided, vanished)


def _renamed(connection, registry, known, identities, lost):
    """Give to those that are there what was theirs under ids that are gone"""
    now = {one: identity for one, (identity, away) in known.items() if not away}
    now.update(identities)
    by_identity = {}
    for one, identity in now.items():
        if identity and one not in lost:
            by_identity.setdefault(identity, []).append(one)
    heirs = {}
    for old in sorted(lost):
        found = by_identity.get(known[old][0], []) if old in known else []
        if found:
            heirs[old] = found
    there = set(
        registry.minions(sorted({one for each in heirs.values() for one in each}))
    )
    for old, found in heirs.items():
        heirs[old] = [one for one in found if one in there]
    # more than one is a copied key, and nobody knows whose it is
    heirs = {old: found[0] for old, found in heirs.items() if len(found) == 1}
    renamed, collided = {}, {}
    for old in sorted(roster.unsettled(connection, heirs)) if heirs else []:
        new, there = heirs[old], roster.collided(connection)
        if new in there:
            collided[new] = there[new]
        elif roster.rename(
            connection, old, new, store.Save("package_states", f"{old} is {new} now")
        ):
            renamed[old] = new
    return renamed, collided
