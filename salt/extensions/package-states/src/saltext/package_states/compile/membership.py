"""Who joined, who left, and who has another id: what of that is written down.

A minion that was renamed has another id and the same public key, or the same system in the
database. What was its under the old id, which no minion has any more, is its under the new one.
"""

from typing import NamedTuple

import saltext.package_states.store.roster as roster
from saltext.package_states.store.tables import Save


class Movement(NamedTuple):
    """What has changed since somebody looked"""

    # the ids of minions, sorted lists
    joined: list
    gone: list
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
    return Movement(
        sorted(joined), sorted(gone), renamed, sorted(adopted), collided, vanished
    )


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
            connection, old, new, Save("package_states", f"{old} is {new} now")
        ):
            renamed[old] = new
    return renamed, collided
