"""
Say what should be installed, and see what is

:depends: psycopg2

A package state is a named, versioned list of packages, each with what is wanted
of it: ``installed`` (in any version, or one that meets a condition), ``latest``,
``removed``, ``purged``, ``kept`` (for orphans) or ``unmanaged``. States are
assigned to organizations, groups, grain matches and minions; the state with the
name of a minion is that minion's own. What is saved is compiled to one SLS file
for each minion. See :ref:`package-states`.

.. code-block:: bash

    salt-run package_states.create web
    salt-run package_states.set web nginx installed '>=1.22,<2.0'
    salt-run package_states.assign web group Webservers
    salt web1 state.apply susemanager.packages test=True
    salt-run package_states.status web1

The states are in PostgreSQL, in the schema ``package_states`` of the database of the
option ``postgres``, see :mod:`saltext.package_states.connection`; :func:`setup` makes and
upgrades the tables. Options of the master, with their defaults:

.. code-block:: yaml

    package_states:
      minions: keys                     # or database, see below
      sls_root: /srv/salt               # by default the first one of file_roots for base
      protected: []                     # more packages that must not be removed
      silent_after: 604800              # seconds after which a minion is silent
      postgres: {}                      # what is other than in the option postgres

With ``minions: keys``, groups are :conf_master:`nodegroups`, and the one organization is
``all``. With ``minions: database``, minions, groups and organizations come from the views
``package_states.minion`` and ``package_states.target``, which ``setup uyuni=True`` makes of
Uyuni's tables.
"""

import contextlib
import fnmatch

import saltext.package_states.condition as conditions
import saltext.package_states.difference as difference
import saltext.package_states.item as items
import saltext.package_states.names as names
import saltext.package_states.owners
import saltext.package_states.page
import saltext.package_states.refresh
import saltext.package_states.schema as schema
import saltext.package_states.status
import saltext.package_states.store as store
import saltext.package_states.transfer as transfer
import saltext.package_states.version as versions
from saltext.package_states.connection import HAS_PSYCOPG2
from saltext.package_states.errors import InvalidInput, NotThere, PackageStateError
from saltext.package_states.fleet import Fleet
from saltext.package_states.service import Service

import salt.client
import salt.exceptions
import salt.utils.files
import salt.utils.user

__func_alias__ = {"set_": "set", "list_": "list", "compile_": "compile"}

# seconds that a minion has for an answer
TIMEOUT = 60


def __virtual__():
    if not HAS_PSYCOPG2:
        return False, "The package_states runner needs psycopg2"
    return True


def _author(other=None):
    """
    Return who calls: the user that Salt has authenticated, and whom they name besides
    """
    user = globals().get("__user__")
    if not user or user == "UNKNOWN":
        user = salt.utils.user.get_specific_user()
    return f"{user} for {other}" if other and other != user else user


def _service():
    return Service(__opts__)


def setup(uyuni=False, dry_run=False):
    """
    Make the tables in the database, or bring them up to this version of the extension

    What is there stays. To be called once, and again after each upgrade of the
    extension. The role of the option ``postgres`` must be allowed to create a schema.
    Returns the names of the steps that were ``applied``.

    uyuni
        Make the views of Uyuni's tables too, for ``minions: database``.

    dry_run
        Do nothing, and return the SQL, for an administrator who applies it.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.setup
        salt-run package_states.setup dry_run=True
    """
    if dry_run:
        return schema.script(bool(uyuni))
    return {"applied": schema.setup(__opts__, bool(uyuni))}


def create(name):
    """
    Make an empty package state

    name
        Its name. One that is the id of a minion makes that minion's own state.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.create web
    """
    return _service().create(name)


def list_():
    """
    Return all package states, with their newest revision and their assignments

    CLI Example:

    .. code-block:: bash

        salt-run package_states.list
    """
    with store.reading(__opts__) as connection:
        states = store.states(connection)
        newest = store.newest(connection, [state.id for state in states])
        assigned = Fleet(__opts__, connection).assignments
    return {
        state.name: {
            "own": state.own,
            "revision": newest[state.id].number,
            "packages": len(newest[state.id].items),
            "assigned": _assigned(assigned, state),
        }
        for state in states
    }


def _assigned(assignments, state):
    return [
        f"{entry.level} {entry.target} (priority {entry.priority})"
        for entry in assignments
        if entry.state == state.id
    ]


def set_(
    name,
    package,
    wanted,
    version=None,
    author=None,
    comment="",
    revision=None,
    dry_run=False,
):
    """
    Say what is wanted of a package, and save the state

    name
        The state. The state of a minion is made if there is none.

    package
        ``name`` or ``name:architecture``.

    wanted
        ``installed``, ``latest``, ``removed``, ``purged``, ``kept`` or ``unmanaged``.
        ``present`` is ``installed``, and ``absent`` is ``removed``.

    version
        What the version must fulfil, such as ``1.10``, ``>=1.0,<2.0``, ``!=1.5`` or
        ``1.*``; with ``removed`` and ``purged``, which versions must not be there.

    author
        For whom the user of this command saves it, who is written down in any case.

    comment
        Why.

    revision
        The revision that you saw: an error if somebody saved another one since.

    dry_run
        Save nothing, and return what would change.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.set web nginx installed '>=1.22,<2.0' comment='as tested'
    """
    return set_many(
        name,
        [{"package": package, "wanted": wanted, "version": version}],
        author,
        comment,
        revision,
        dry_run,
    )


def set_many(name, packages, author=None, comment="", revision=None, dry_run=False):
    """
    As :func:`set`, for several packages in one revision

    packages
        A list of ``{"package": ..., "wanted": ..., "version": ...}``.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.set_many web '[{"package": "vim", "wanted": "latest"}]'
    """
    if not isinstance(packages, list):
        raise InvalidInput("Give a list of entries, each with package and wanted.")
    entries = []
    for entry in packages:
        if isinstance(entry, dict):
            entry = {
                key: value for key, value in entry.items() if value not in (None, "")
            }
        entries.append(items.from_dict(entry))
    items.ordered(entries)

    def change(_, current, __):
        return [*{**_keyed(current.items), **_keyed(entries)}.values()]

    return _service().change(
        name, change, _author(author), comment, revision, dry_run, _is_minion(name)
    )


def _keyed(entries):
    return {entry.key: entry for entry in entries}


def _is_minion(name):
    names.state(name)
    with store.reading(__opts__) as connection:
        return name in Fleet(__opts__, connection).minions([name])


def unset(name, package, author=None, comment="", revision=None, dry_run=False):
    """
    Take a package out of a state: it is not managed by it any more

    To release what a lower state says, set the package to ``unmanaged`` instead.

    name
        The state.

    package
        ``name`` or ``name:architecture``.

    author, comment, revision, dry_run
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.unset web nginx
    """

    names.split(package)

    def change(where, current, _):
        left = _keyed(current.items)
        if left.pop(package, None) is None:
            raise NotThere(
                f"{where.name} has no entry {package}; see package_states.show."
            )
        return [*left.values()]

    return _service().change(name, change, _author(author), comment, revision, dry_run)


def assign(name, kind, target, priority=None, author=None, comment=""):
    """
    Let a state apply to an organization, a group, a grain match or a minion

    name
        The state.

    kind
        ``organization``, ``group``, ``grains`` or ``minion``, from low to high: the
        higher one wins.

    target
        The name of a nodegroup, ``all`` for the organization, the id of a minion, or a
        grain match such as ``os:Debian``; with ``minions: database``, the name or id of
        a group or organization. Minions choose their grains themselves.

    priority
        Among assignments of one kind, the higher one wins. By default it is 0, or stays
        what it was.

    author
        For whom the user of this command does it, who is written down in any case.

    comment
        Why.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.assign web group Webservers priority=10
    """
    if priority is not None and (
        isinstance(priority, bool)
        or not isinstance(priority, int)
        or abs(priority) > 2**31 - 1
    ):
        raise InvalidInput("The priority must be a whole number; the higher one wins.")
    return _service().assign(
        name, kind, str(target), priority, _author(author), comment=comment
    )


def unassign(name, kind, target, author=None, comment=""):
    """
    Undo :func:`assign`

    CLI Example:

    .. code-block:: bash

        salt-run package_states.unassign web group Webservers
    """
    return _service().assign(
        name, kind, str(target), 0, _author(author), away=True, comment=comment
    )


def assignment_history(name):
    """
    Return what became of the assignments of a state, by whom and why, the oldest first

    CLI Example:

    .. code-block:: bash

        salt-run package_states.assignment_history web
    """
    with store.reading(__opts__) as connection:
        found = store.assignment_history(connection, store.state(connection, name))
    return [
        {
            "kind": kind,
            "target": target,
            "priority": priority,
            "change": "unassigned" if priority is None else "assigned",
            "author": author,
            "comment": comment,
            "created": created,
        }
        for kind, target, priority, author, comment, created in found
    ]


def show(name, revision=None):
    """
    Return the entries of a state, and to whom it is assigned

    name
        The state.

    revision
        One of its revisions, the newest by default.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.show web
    """
    with store.reading(__opts__) as connection:
        where = store.state(connection, name)
        found = _found(connection, where, revision)
        assigned = _assigned(Fleet(__opts__, connection).assignments, where)
    return {
        "state": name,
        "own": where.own,
        "revision": found.number,
        "author": found.author,
        "comment": found.comment,
        "created": found.created,
        "assigned": assigned,
        "packages": {entry.key: difference.show(entry) for entry in found.items},
    }


def _found(connection, where, revision):
    if revision is None:
        return store.newest(connection, [where.id])[where.id]
    return store.revision(connection, where, revision)


def diff(name, old, new=None):
    """
    Return what two revisions of a state differ in

    name
        The state.

    old, new
        The revisions; ``new`` is the newest by default, 0 is the empty state.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.diff web 3 5
    """
    with store.reading(__opts__) as connection:
        where = store.state(connection, name)
        one, two = store.revision(connection, where, old), _found(
            connection, where, new
        )
    return difference.between(one.items, two.items)


def history(name):
    """
    Return the revisions of a state, the oldest first

    CLI Example:

    .. code-block:: bash

        salt-run package_states.history web
    """
    with store.reading(__opts__) as connection:
        found = store.history(connection, store.state(connection, name))
    return [
        {
            "revision": entry.number,
            "contents": entry.contents,
            "parent": entry.parent,
            "author": entry.author,
            "comment": entry.comment,
            "created": entry.created,
            "packages": len(entry.items),
        }
        for entry in found
    ]


def rollback(name, revision, author=None, comment="", dry_run=False):
    """
    Save the entries of an old revision as a new one

    The files are the same as they were then, byte for byte, if nothing else changed.

    name
        The state.

    revision
        The one to bring back, 0 for the empty state.

    author, comment, dry_run
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.rollback web 3
    """

    def change(where, _, connection):
        return store.revision(connection, where, revision).items

    return _service().change(
        name,
        change,
        _author(author),
        comment or f"rollback to revision {revision}",
        None,
        dry_run,
        parent=int(revision) if str(revision).isdigit() else 0,
    )


def import_installed(
    minion, name=None, packages="*", author=None, comment="", dry_run=False
):
    """
    Take what is installed on a minion into a state, as it sent it last

    What a repository has becomes ``installed`` in its version, an orphan ``kept`` in
    its version. Other entries of the state stay.

    minion
        The id of the minion, see :func:`refresh`.

    name
        The state, by default the minion's own one. It is made if there is none.

    packages
        A pattern of their names, such as ``nginx*``.

    author, comment, dry_run
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.import_installed web1
    """
    with store.reading(__opts__) as connection:
        fleet = Fleet(__opts__, connection)
        found = fleet.minion(minion)
        there = saltext.package_states.refresh.packages(connection, found)
    entries = []
    for key, package in sorted(there.items()):
        if package.get("versions") and fnmatch.fnmatchcase(key, str(packages)):
            wanted = items.KEPT if package.get("orphan") else items.INSTALLED
            newest = versions.newest(found.platform, package["versions"])
            entries.append(items.make(key, wanted, f"={newest}"))
    if not entries:
        raise NotThere(
            f"{minion} has no packages like {packages}; run package_states.refresh {minion}."
        )

    def change(_, current, __):
        return [*{**_keyed(current.items), **_keyed(entries)}.values()]

    return _service().change(
        name or minion,
        change,
        _author(author),
        comment or f"what is installed on {minion}",
        None,
        dry_run,
        True,
    )


@contextlib.contextmanager
def _file(path, mode="r"):
    """
    Open a file that somebody named
    """
    if not isinstance(path, str):
        raise InvalidInput(f"{path!r} is no path; give that of a file of the master.")
    try:
        with salt.utils.files.fopen(path, mode) as handle:
            yield handle
    except (OSError, ValueError) as exc:
        can = "read" if mode == "r" else "written"
        raise InvalidInput(
            f"{path!r} can't be {can}: {exc}; give the path of a file of the master."
        ) from exc


def export_file(name, path, revision=None):
    """
    Write a state to a file

    name
        The state.

    path
        The file, on the master.

    revision
        One of its revisions, the newest by default.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.export_file web /root/web.json
    """
    with store.reading(__opts__) as connection:
        found = _found(connection, store.state(connection, name), revision)
    with _file(path, "w") as handle:
        handle.write(transfer.dump(found.items))
    return {
        "state": name,
        "revision": found.number,
        "path": path,
        "packages": len(found.items),
    }


def import_file(name, path, author=None, comment="", revision=None, dry_run=False):
    """
    Save what a file holds as a state, instead of what the state had

    name
        The state. It is made if there is none.

    path
        The file, on the master, see :func:`export_file`.

    author, comment, revision, dry_run
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.import_file web /root/web.json
    """
    with _file(path) as handle:
        text = handle.read()
    entries = transfer.load(text)
    return _service().change(
        name,
        lambda *_: entries,
        _author(author),
        comment or "from a file",
        revision,
        dry_run,
        True,
    )


def upgrade(
    name,
    package=None,
    version=None,
    author=None,
    comment="",
    revision=None,
    dry_run=False,
):
    """
    Ask for the newest versions that the policy of an entry permits

    ``installed`` in an exact version gets another one. All others keep their
    condition, and get the newest version that meets it as their floor. Entries that
    are not ``installed`` stay as they are.

    name
        The state.

    package
        One of its entries, all of them by default.

    version
        The version to ask for, by default the newest one that every minion of the
        state can get. Minions are asked for what they have not installed; those that do
        not answer are returned as ``silent``, and do not count.

    author, comment, revision, dry_run
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.upgrade web nginx
    """
    if package:
        names.split(package)
    if version:
        names.version(version)
        if not package:
            raise InvalidInput(
                "A version is one of a package; name the package as well."
            )
    told, silent = ([], []) if version else _told(name, package)

    def change(_, current, __):
        entries = _keyed(current.items)
        if package and package not in entries:
            raise NotThere(
                f"{name} has no entry {package}; see package_states.show {name}."
            )
        for key in [package] if package else entries:
            if entries[key].wanted == items.INSTALLED:
                entries[key] = _upgraded(entries[key], told, version)
        return [*entries.values()]

    found = _service().change(
        name,
        change,
        _author(author),
        comment or f"upgrade of {package or 'all'}",
        revision,
        dry_run,
    )
    return {**found, "silent": silent}


def _told(name, package):
    """
    Return what the minions of a state say of the versions that there are, pairs of
    platform and packages, and the ids of those that can't be asked

    What a minion has sent has the packages that are there; it is asked for others.
    """
    with store.reading(__opts__) as connection:
        where = store.state(connection, name)
        newest = store.newest(connection, [where.id])[where.id]
        keys = [
            entry.key
            for entry in newest.items
            if entry.wanted == items.INSTALLED and package in (None, entry.key)
        ]
        fleet = Fleet(__opts__, connection)
        minions = fleet.affected(where)
        sent = {one: store.kept(connection, one) or {} for one in minions}
    missing = {
        one: [key for key in keys if key not in there]
        for one, there in sent.items()
        if not set(keys) <= there.keys()
    }
    answers = _available(missing, keys) if keys and missing else {}
    for one, there in answers.items():
        sent[one] = {
            **{key: {"available": versions_} for key, versions_ in there.items()},
            **sent[one],
        }
    silent = sorted(missing.keys() - answers.keys())
    found = [(minions[one].platform, there) for one, there in sent.items() if there]
    if not found:
        raise NotThere(
            "No minion of the state has told which versions there are; run package_states.refresh"
            " for them, or give a version."
        )
    return found, silent


def _available(minions, keys):
    """
    Return what minions answer when they are asked for versions, by id; a minion that
    does not is left out
    """
    try:
        with salt.client.get_local_client(mopts=__opts__) as client:
            answers = client.cmd(
                sorted(minions),
                "package_state.available",
                keys,
                tgt_type="list",
                timeout=TIMEOUT,
            )
    except salt.exceptions.SaltException:
        return {}
    return {one: answer for one, answer in answers.items() if isinstance(answer, dict)}


def _upgraded(entry, told, version):
    """
    Return an entry that asks for the newest version, with the same policy
    """
    exact = len(entry.condition) == 1 and entry.condition[0][0] == "="
    exact = exact and not conditions.is_glob(entry.condition[0][1])
    bounds = () if exact else entry.condition
    platform = told[0][0] if told else None
    if version:
        newest = version if conditions.meets(platform, version, bounds) else ""
    else:
        offers = [
            set(there[entry.key]["available"])
            for _, there in told
            if entry.key in there
        ]
        common = set.intersection(*offers) if offers else set()
        newest = versions.newest(
            platform, (one for one in common if conditions.meets(platform, one, bounds))
        )
    current = entry.condition[0][1] if exact else entry.floor
    if version and not newest:
        raise InvalidInput(
            f"{entry.key} {version} is not {entry.version}; change the entry."
        )
    if not newest or (current and versions.compare(platform, newest, current) <= 0):
        return entry
    if exact:
        return items.make(entry.key, entry.wanted, f"={newest}")
    return items.make(entry.key, entry.wanted, entry.version, newest)


def compile_(minion=None):
    """
    Write the files again: of one minion, or of all minions and states

    Saving does this for what depends on the state, and the engine ``package_states`` for
    who joins, leaves and goes. Returns how many were compiled, which ``files`` changed,
    which were ``removed`` as their minions are gone, who was ``renamed``, and the
    ``errors`` by minion.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.compile
    """
    return _service().compile(minion)


def verdicts(minion):
    """
    Return what is wanted of each package of a minion, and why, without asking it

    ``current`` says whether its file says the same.

    minion
        The id of the minion.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.verdicts web1
    """
    service = _service()
    text, there = service.current(minion)
    with store.reading(__opts__) as connection:
        fleet = Fleet(__opts__, connection)
        found = fleet.minion(minion)
        rows, trouble = fleet.possible(found, fleet.sources({minion: found})[minion])
    return {
        "minion": minion,
        "platform": found.platform,
        "current": text == there,
        "packages": {
            row.item.key: {
                "wanted": difference.show(row.item),
                "source": row.source.label,
                "overruled": list(row.overruled),
            }
            for row in rows
        },
        "errors": {key: str(exc) for key, exc in trouble.items()},
    }


def status(minion=None, table=True, group=None, only=None, page=1, size=100):
    """
    Return what is wanted on a minion, why, and what is there; or how a fleet is

    Of a fleet, the counts come first: how many minions are ``consistent`` or
    ``drifting``, how many are ``pending`` (what is wanted has changed, and is not compared
    yet), ``silent`` (not heard for a week, or for ``silent_after`` seconds under
    ``package_states``) or were ``never heard``. Then comes a page of them.

    minion
        The id of the minion, all of them by default.

    table
        False for data instead of a table for people.

    group
        The minions of this group only.

    only
        The minions of this verdict only, such as ``drifting``.

    page, size
        Which page, and how many minions it has, at most 10,000.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.status web1
        salt-run package_states.status group=Webservers only=drifting
    """
    if minion is None:
        fleet = saltext.package_states.page.page(__opts__, group, only, page, size)
        return saltext.package_states.page.table(fleet) if table else fleet
    found = saltext.package_states.refresh.rows(__opts__, minion)
    summary = saltext.package_states.status.summary(minion, found)
    if not table:
        return {**summary, "rows": [row._asdict() for row in found]}
    drift = len(summary["drift"])
    end = (
        "consistent"
        if summary["consistent"]
        else f"inconsistent: {drift} of {len(found)} drifted"
    )
    return f"{saltext.package_states.status.table(found)}\n\n{minion} is {end}."


def who(package, page=1, size=100):
    """
    Return which minions have a package, and of which it is wanted

    What is installed is what they sent last.

    package
        ``name`` or ``name:architecture``.

    page, size
        Which page, and how many minions it has, at most 10,000.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.who nginx
    """
    names.split(package)
    return saltext.package_states.owners.page(__opts__, package, page, size)


def refresh(minion):
    """
    Ask a minion for its packages, store them, and return its status

    minion
        The id of the minion.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.refresh web1
    """
    inventory = _ask(minion, "package_state.inventory")
    saltext.package_states.refresh.store(__opts__, minion, inventory)
    found = saltext.package_states.refresh.rows(__opts__, minion)
    return saltext.package_states.status.summary(minion, found)


def dry_run(minion):
    """
    Ask a minion what would be done, with the packages that would go too

    minion
        The id of the minion.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.dry_run web1
    """
    service = _service()
    _, verdicts = service.verdicts(minion)
    rows = [[v.item.key, v.item.wanted, v.item.version, v.item.floor] for v in verdicts]
    return _ask(minion, "package_state.plan", [rows, sorted(service.protected)])


def _ask(minion, function, arg=()):
    with store.reading(__opts__) as connection:
        Fleet(__opts__, connection).minion(minion)
    try:
        with salt.client.get_local_client(mopts=__opts__) as client:
            answer = client.cmd(
                minion,
                function,
                arg,
                tgt_type="list",
                timeout=TIMEOUT,
                full_return=True,
            )
    except salt.exceptions.SaltException as exc:
        raise PackageStateError(
            f"{minion} can't be asked: {exc}; see that the master runs and that you may"
            " use it."
        ) from exc
    data = answer.get(minion) or {}
    if not isinstance(data, dict) or data.get("retcode", 1) or "ret" not in data:
        raise PackageStateError(
            f"{minion} did not answer {function}: {str(data.get('ret', 'no answer'))[-300:]};"
            " see that it is up and has saltext-package-states."
        )
    return data["ret"]
