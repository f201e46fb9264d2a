"""
Revisions that come into a stage, and what another person decides on.
"""

import saltext.package_states.difference as difference
import saltext.package_states.final as final
import saltext.package_states.requests as requests
import saltext.package_states.resolver as resolver
import saltext.package_states.stages as stages
import saltext.package_states.store as store
from saltext.package_states.errors import InvalidInput, NotThere
from saltext.package_states.fleet import Fleet


def set_stages(service, wanted, save):
    """
    Let a site have these stages

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param wanted: see :func:`saltext.package_states.stages.checked`
    :param Save save: who does it, and why
    :raises Unapproved: if an assignment follows one that would go
    """
    wanted = stages.checked(wanted)

    def change(connection, _):
        stages.write(connection, wanted, save.author, save.comment)
        return {}, store.states(connection)

    why = f"stages {','.join(wanted)}: {save.comment}"[:1000]
    service.alter(change, save.author, why)
    return wanted


def release(service, minion, save):
    """
    Ask that a minion that is held in the last stage leaves it

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str minion: its id
    :param Save save: who asks for it, and why
    :raises NotThere: if it is not held
    """
    with store.writing(service.opts) as connection:
        fleet = Fleet(service.opts, connection)
        if not fleet.held(fleet.minion(minion)):
            raise NotThere(
                f"{minion} is not held in the last stage; what is assigned to it is taken"
                " away with package_states.unassign."
            )
        asked = requests.Request(
            None,
            None,
            "",
            requests.RELEASE,
            fleet.stages[-1],
            kind=resolver.MINION,
            target=minion,
            author=save.author,
            comment=save.comment,
        )
        number = requests.ask(connection, asked)
    return {"minion": minion, "request": number, "waits for": "approval"}


def promote(service, name, stage, revision, save):
    """
    Let a revision come into a stage; into the last one it does when another person has
    approved it

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str name: that of the state
    :param str stage: that of the stage
    :param revision: its number, None for the one in force in the stage before
    :param Save save: how it is saved
    """

    def change(connection, fleet):
        where = store.state(connection, name)
        place = _later(fleet, stage)
        before = fleet.stages[place - 1] if place > 1 else None
        if revision is None:
            found = _in_force(connection, where, before)
        else:
            found = store.revision(connection, where, revision)
        _there(connection, where, found, before, fleet.stages[place - 1])
        return _brought(connection, fleet, where, stage, found, save), [where]

    return _told(service.alter(change, save.author, _why(name, stage, save), save[3]))


def back(service, name, stage, revision, save):
    """
    Let a revision be in force in a stage again that was in force there before

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str name: that of the state
    :param str stage: that of the stage
    :param revision: its number
    :param Save save: how it is saved
    """

    def change(connection, fleet):
        where = store.state(connection, name)
        _later(fleet, stage)
        found = store.revision(connection, where, revision)
        if not stages.was_there(connection, where, stage, found.number):
            raise NotThere(
                f"Revision {found.number} of {name} never was in {stage}; see"
                f" package_states.promotion_history {name}, or promote it."
            )
        return _brought(connection, fleet, where, stage, found, save), [where]

    return _told(service.alter(change, save.author, _why(name, stage, save), save[3]))


def _why(name, stage, save):
    return f"{name} in {stage}: {save.comment}"[:1000]


def _told(found):
    """
    Return what came of a change without what is of no interest
    """
    if "waits for" in found or not found["dropped"]:
        del found["dropped"]
    return found


def _later(fleet, stage):
    """
    Return the place of a stage that is not the first one
    """
    place = stages.place(fleet.stages, stage)
    if not place:
        raise InvalidInput(
            "The first stage always has the newest revision; save one, or name another"
            " stage."
        )
    return place


def _in_force(connection, where, stage):
    """
    Return the revision of a state that is in force in a stage, None for the first one
    """
    if stage is None:
        return store.newest(connection, [where.id])[where.id]
    return stages.in_force(connection, [where.id], stage)[where.id]


def _there(connection, where, found, before, label):
    """
    Check that a revision was in the stage before
    """
    known = found.number and (
        before is None or stages.was_there(connection, where, before, found.number)
    )
    if not known:
        which = f"revision {found.number} of " if found.number else ""
        raise NotThere(
            f"There is no {which}{where.name} in {label}, which comes before; promote it to"
            " that first."
        )


def _brought(connection, fleet, where, stage, found, save):
    """
    Let a revision come into a stage, or ask for it, and return plain data
    """
    current = _in_force(connection, where, stage)
    told = {
        "state": where.name,
        "stage": stage,
        "revision": found.number,
        "changes": difference.between(current.items, found.items),
    }
    if current.number == found.number:
        return told
    last = stage == fleet.stages[-1]
    if last and not stages.was_there(connection, where, stage, found.number):
        number = requests.ask(
            connection,
            requests.Request(
                None,
                where.id,
                where.name,
                requests.PROMOTE,
                stage,
                found.number,
                author=save.author,
                comment=save.comment,
            ),
        )
        if not save.dry_run:
            told["request"] = number
        return {**told, "waits for": "approval"}
    stages.promote(connection, where, stage, found.number, save.author, save.comment)
    return told


def waiting(opts):
    """
    Return the open requests, the oldest first, as plain data

    :param dict opts: the options of the master
    """
    with store.reading(opts) as connection:
        return [_shown(connection, one) for one in requests.waiting(connection)]


def _shown(connection, request):
    found = {
        "request": request.id,
        "asks": request.label,
        "author": request.author,
        "comment": request.comment,
        "created": request.created,
    }
    if request.action == requests.PROMOTE:
        where = store.State(request.state, request.name, False)
        current = _in_force(connection, where, request.stage)
        wanted = store.revision(connection, where, request.revision)
        found["changes"] = difference.between(current.items, wanted.items)
    return found


def approve(service, number, save):
    """
    Do what a request asks for, as another person

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param number: that of the request
    :param Save save: who approves it, and why
    :raises Unapproved: if they can't
    """

    def change(connection, fleet):
        asked = requests.one(connection, number)
        requests.decide(connection, asked, True, save.author, save.comment)
        where = store.State(asked.state, asked.name, False)
        done = {"request": asked.id, "approved": asked.label}
        if asked.action == requests.RELEASE:
            final.release(connection, [asked.target])
            return done, []
        if asked.action == requests.PROMOTE:
            place = _later(fleet, asked.stage)
            found = store.revision(connection, where, asked.revision)
            before = fleet.stages[place - 1] if place > 1 else None
            _there(connection, where, found, before, fleet.stages[place - 1])
            stages.promote(
                connection,
                where,
                asked.stage,
                asked.revision,
                asked.author,
                asked.comment,
            )
        else:
            if asked.action == requests.ASSIGN and asked.kind != resolver.GRAINS:
                # it may be gone meanwhile
                fleet.registry.target(asked.kind, asked.target)
            service.assigned(connection, asked)
        return done, [where]

    found = service.alter(change, save.author, f"request {number} approved", save[3])
    return _told(found)


def reject(service, number, save):
    """
    Decide that what a request asks for is not done

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param number: that of the request
    :param Save save: who rejects it, and why
    """
    with store.writing(service.opts) as connection:
        asked = requests.one(connection, number)
        requests.decide(connection, asked, False, save.author, save.comment)
    return {"request": asked.id, "rejected": asked.label}


def history(opts, name):
    """
    Return what came into the stages of a state, and what was asked for, as plain data

    :param dict opts: the options of the master
    :param str name: that of the state
    """
    with store.reading(opts) as connection:
        where = store.state(connection, name)
        came = stages.history(connection, where)
        asked = requests.history(connection, where)
    words = {None: "waits", True: "approved", False: "rejected"}
    return {
        "promotions": [
            dict(zip(("stage", "revision", "author", "comment", "created"), row))
            for row in came
        ],
        "requests": [
            {
                "request": request.id,
                "asks": request.label,
                "author": request.author,
                "comment": request.comment,
                "created": request.created,
                "decision": words[approved],
                "by": by or "",
                "reason": why or "",
                "decided": when or "",
            }
            for request, approved, by, why, when in asked
        ],
    }
