"""All files, brought up to date with who there is."""

import saltext.package_states.store.standing as standing
import saltext.package_states.store.tables as store
from saltext.package_states.compile import files, membership
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import NotThere, PackageStateError


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
        moved = membership.notice(connection, fleet.registry, ids)
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
            name for name in texts if files.found(compiler.root, name) != texts[name]
        ]
        standing.drop(connection, changed)
        states = {
            files.alone(where.name): where
            for where in store.states(connection)
            if not where.own
        }
        if ids is None:
            for name, where in states.items():
                texts[name] = compiler.alone(fleet, where)
        away.extend(map(files.alone, moved.adopted))
        if ids is None:
            strays, vanished = compiler.strays({*minions, *states}), moved.vanished
            if not minions:
                # of a fleet that nobody has looked at yet, the files tell
                lost = [name for name in strays if not files.is_alone(name)]
                vanished = vanished or (len(lost) if lost[1:] else 0)
        else:
            strays, vanished = {*ids, *moved.renamed} - {*minions}, moved.vanished
            if strays and not vanished and not fleet.registry.minions():
                lost = {
                    name for name in compiler.strays(()) if not files.is_alone(name)
                }
                vanished = len(lost) if lost - strays else 0
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
    return NotThere(
        f"There is no minion at all, and there were {count}, so no file is removed until there"
        " is one again; see that the keys of the master are there, or the rows of the view"
        " package_states.minion."
    )
