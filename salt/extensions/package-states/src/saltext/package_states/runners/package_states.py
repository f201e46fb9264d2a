"""Say what should be installed, and see what is

:depends: psycopg2

A package state is a named, versioned list of packages, each with what is wanted of it. States are
assigned to organizations, groups, grain matches and minions; the state with the name of a minion is
that minion's own. What is saved is compiled to one SLS file for each minion. See
:ref:`package-states`. The states are in PostgreSQL, see
:mod:`saltext.package_states.store.connection`.

What changes something takes ``author`` (for whom the user of the command, who is written down in
any case, does it), ``comment`` (why) and ``dry_run`` (save nothing, return what would change; a
number such as 500 shows so many minions, and packages of each). What changes entries takes
``revision`` as well, the one that you saw: an error if it is not the newest.
"""

import saltext.package_states.master.service as services
import saltext.package_states.status.available as offered
import saltext.package_states.status.page as pages
import saltext.package_states.store.tables as store
from saltext.package_states.errors import InvalidInput
from saltext.package_states.master import answers, arguments, authors, edit, sets
from saltext.package_states.model import names
from saltext.package_states.status import owners, views
from saltext.package_states.store import schema
from saltext.package_states.store.connection import HAS_PSYCOPG2

__func_alias__ = {"set_": "set", "import_": "import"}


def __virtual__():
    if authors.is_minion(__opts__):
        return False, authors.REFUSED
    if not HAS_PSYCOPG2:
        return False, "The package_states runner needs psycopg2"
    return True


def _path(path):
    """Check that the caller may name files of the master, and return the path"""
    if path is not None and authors.is_within():
        raise InvalidInput(
            "Only salt-run on the master may name its files; give the text itself, and export"
            " without a path."
        )
    return path


def _service():
    return services.Service(__opts__)


def _save(author, comment, revision, dry_run):
    # Salt puts the user whom it has authenticated here
    user = globals().get("__user__")
    author = authors.caller(user, __opts__, author)
    return store.Save(author, comment, revision, dry_run)


def setup(uyuni=False, dry_run=False):
    """Make the tables in the database, or bring them up to this version of the extension

    Returns the names of the steps that were ``applied``. With ``uyuni``, it makes the views of
    Uyuni's tables too, for ``minions: database``. With ``dry_run``, it only returns the SQL.

    CLI Example: ``salt-run package_states.setup``
    """
    if dry_run:
        return schema.script(bool(uyuni))
    return {"applied": schema.setup(__opts__, bool(uyuni))}


def set_(
    name,
    package=None,
    wanted=None,
    version=None,
    rename=None,
    author=None,
    comment="",
    revision=None,
    dry_run=False,
):  # pylint: disable=too-many-arguments
    """Say what is wanted of packages, and save the state, which is made if there is none

    package
        ``name`` or ``name:architecture``, or several with commas between them, or a list of
        ``{"package": ..., "wanted": ..., "version": ...}``. Without it, nothing is set.

    wanted
        ``present``, ``installed``, ``latest``, ``removed``, ``purged``, ``kept`` or
        ``unmanaged``. Or ``upgrade``, of what is ``installed`` already (``'*'`` as the package
        for all of that): an exact version becomes the newest one that every minion of the state
        can get, all others keep their condition and get that version as their floor. Minions
        that never told what their repositories have are returned as ``silent``.

    version
        What the version must fulfil, such as ``=1.10`` or ``>=1.0,<2.0``; with ``removed`` and
        ``purged``, which versions must not be there: an installed one of these is removed, and
        not replaced by another one.

    rename
        Give the state this name, and do nothing else.

    Packages of which no minion of the state has or can get such a version are returned as
    ``unknown``, and saved all the same. A name that a state had before it was renamed makes no
    new state by itself: ``set web`` alone, without a package, does.

    CLI Example::

        salt-run package_states.set web nginx installed '>=1.22,<2.0' comment='as tested'
        salt-run package_states.set web nginx upgrade
    """
    save = _save(author, comment, revision, dry_run)
    if rename is not None:
        return edit.rename(_service(), name, rename, save)
    if wanted == "upgrade":
        if version is not None:
            raise InvalidInput(
                "An upgrade takes no version; set the entry to installed with that version."
            )
        return edit.upgrade(_service(), name, package, save)
    return edit.put(_service(), name, package, wanted, version, save)


def unset(
    name,
    package=None,
    delete=False,
    author=None,
    comment="",
    revision=None,
    dry_run=False,
):  # pylint: disable=too-many-arguments
    """Take packages out of a state: they are not managed by it any more

    To release what a lower state says, set the package to ``unmanaged`` instead. With
    ``delete`` the state itself goes; its history stays, and :func:`restore` brings it back.

    CLI Example: ``salt-run package_states.unset web nginx``
    """
    save = _save(author, comment, revision, dry_run)
    if delete:
        return edit.delete(_service(), name, save)
    return edit.take(_service(), name, package, save)


def import_(
    minion,
    name=None,
    packages=None,
    author=None,
    comment="",
    revision=None,
    dry_run=False,
):  # pylint: disable=too-many-arguments
    """Take what is installed on a minion into a state, as it sent it last

    What a repository has becomes ``installed`` in its version, an orphan ``kept`` in
    its version. Other entries of the state ``name`` stay, by default the minion's own one.
    ``packages`` is a pattern of their names; ``*`` freezes all.

    CLI Example: ``salt-run package_states.import web1 packages='nginx*'``
    """
    save = _save(author, comment, revision, dry_run)
    return edit.installed(_service(), minion, name, packages, save)


def assign(
    name, kind, target, priority=None, author=None, comment="", dry_run=False
):  # pylint: disable=too-many-arguments
    """Let states apply to an organization, a group, a grain match or a minion

    ``name`` is a state, or several with commas between them. ``kind`` is ``organization``, ``group``,
    ``grains`` or ``minion``, from low to high: the higher one wins. ``target`` is the name of a
    nodegroup, ``all`` for the organization, the id of a minion, or several of them with commas
    between; or a grain match such as ``os:Debian``. Among assignments of one kind, the higher
    ``priority`` wins; by default it is 0, or stays what it was.

    CLI Example: ``salt-run package_states.assign web group Webservers priority=10``
    """
    save = _save(author, comment, None, dry_run)
    return edit.assign(_service(), name, kind, target, names.priority(priority), save)


def unassign(name, kind, target, author=None, comment="", dry_run=False):
    """Undo :func:`assign`

    CLI Example: ``salt-run package_states.unassign web group Webservers``
    """
    save = _save(author, comment, None, dry_run)
    return edit.assign(_service(), name, kind, target, None, save, away=True)


def show(name=None, revision=None, against=None):
    """Return all states with their assignments, or the entries of one

    Of a state, this is the newest ``revision`` or another one. ``against`` is one more, 0 for
    the empty state: the ``changes`` since that are returned too.

    CLI Example: ``salt-run package_states.show web against=3``
    """
    if name is None:
        return views.states(__opts__)
    return views.state(__opts__, name, revision, against)


def status(minion=None, table=True, group=None, only=None, page=1, size=100):
    """Return what is wanted on a minion, why, and what is there; or how a fleet is

    Of a minion, this is without asking it: its packages as it sent them last, see
    :func:`refresh`. ``current`` says whether its file says what is wanted, ``held`` what is
    held or locked on it though no state asks for that, ``held_by_others`` what of this and of the
    managed packages somebody else holds, ``unlocked`` what is right and not locked though a state asks
    for that, and ``errors`` what can't be decided.

    Of a fleet, or a ``group``, the counts come first: how many minions are ``consistent`` or
    ``drifting``, how many are ``pending`` (what is wanted or installed has changed, and is
    not compared yet), ``silent`` (not heard for a week, or for ``silent_after`` seconds under
    ``package_states``) or were ``never heard``. Then comes a ``page`` of at most ``size``.

    ``only`` are the minions of this verdict, such as ``drifting``, with a reason for each; or
    ``security``, those that lack security updates; or ``held``, those with holds or locks that no
    state asks for. ``table=False`` is data instead of a table for people.

    CLI Example: ``salt-run package_states.status group=Webservers only=drifting``
    """
    if minion is None:
        fleet = pages.page(__opts__, group, only, page, size)
        return pages.table(fleet) if table else fleet
    return views.status(_service(), minion, table)


def dry_run(minion=None, group=None):
    """Ask minions what a run would do, with the packages that would go too

    The answer of one minion is returned as it is. Of a group, or of all minions, these are the
    ``counts``, the answers of those that something is to change on, and the ``errors``, each
    with the minions that could not answer.

    CLI Example: ``salt-run package_states.dry_run group=Webservers``
    """
    return answers.plan(_service(), minion, group)


def where(
    package, page=1, size=100, lacking=False, minion=None, version=None, group=None
):
    """Return which minions have a package, of which it is wanted and why, and what keeps it

    What is installed is what they sent last; ``unknown`` says that the minion never sent its
    packages. ``held`` says that it holds or locks the package, and ``halted`` why the file
    of a minion stays as it is. With ``lacking=True``, the page has those without the package.
    ``minion``, one or several with commas between them, or a list, leaves the others out, and
    so does ``version``, such as ``<2.0``: those without the package in such a version; and ``group``.

    CLI Example: ``salt-run package_states.where nginx version='<1.22'``
    """
    only = None if minion is None else edit.listed(minion, "minion")
    return owners.page(__opts__, package, page, size, lacking, only, version, group)


def history(name=None, size=100, author=None, day=None):
    """Return what became of a state, or of all that apply or applied to a minion, the oldest first

    Without a name, it is the last ``size`` changes of all states, the newest first. ``author`` and
    ``day``, such as ``2026-11-24``, leave out all others.

    CLI Example: ``salt-run package_states.history web``
    """
    return views.history(__opts__, name, size, author, day)


def restore(
    name, revision=None, day=None, author=None, comment="", seen=None, dry_run=False
):  # pylint: disable=too-many-arguments
    """Save the entries of an old revision of a state as a new one

    It is that of a number, 0 for the empty state, or the newest one at the end of a ``day``
    such as ``2026-11-24``, or at ``'2026-11-24 12:00'``. A deleted state is ``assigned`` again to
    what it lost then, but to what is ``gone`` meanwhile. It is an error if ``seen`` is not the
    newest revision any more.

    CLI Example: ``salt-run package_states.restore web day=2026-11-24``
    """
    save = _save(author, comment, seen, dry_run)
    return edit.restore(_service(), name, revision, day, save)


def export(path=None, name=None):
    """Return all states and assignments, or one state, as YAML, which can live in git

    With ``path``, it is written to that file on the master.

    CLI Example: ``salt-run package_states.export /srv/git/packages.yaml``
    """
    return sets.export(__opts__, _path(path), name)


def load(
    path=None, text=None, prune=False, author=None, comment="", seen=None, dry_run=False
):  # pylint: disable=too-many-arguments
    """Let all states and assignments be what a YAML text says, see :func:`export`

    All of it happens or nothing. What the text does not name stays; with ``prune``, those
    states are emptied and unassigned. The text is in a file on the master, ``path``, or
    ``text`` itself. ``seen`` is what :func:`export` said before the change, a file or the text: an
    error if somebody changed one of the states since, which this would undo.

    CLI Example: ``salt-run package_states.load /root/new.yaml seen=/root/old.yaml``
    """
    if text is None:
        text = sets.read(_path(path))
    # a path has one line
    if seen is not None and "\n" not in str(seen):
        seen = sets.read(_path(seen))
    save = _save(author, comment, None, dry_run)
    return sets.apply(_service(), text, save, bool(prune), seen)


def available(
    search="*", minion=None, group=None, channel=None, channels=False, page=1, size=100
):  # pylint: disable=too-many-arguments
    """Return which packages there are, with their versions, the newest first

    ``versions`` are those that all of the minions with this package ``manager`` can get,
    ``some`` those that only some of them can. A package of apt and one of dnf that have one
    name are two. It is what the minions told when they were refreshed last: one minion, those of
    a group, or all. ``channel`` is the name of a repository.

    ``channels=True`` returns the repositories instead, with their packages, minions, ``contents`` (in
    how many states minions have them), and how many of these are ``unknown``.

    CLI Example: ``salt-run package_states.available 'nginx*' group=Webservers``
    """
    if channels:
        return offered.channels(__opts__)
    return offered.page(__opts__, search, minion, group, channel, page, size)


def refresh(minion=None):
    """Ask a minion for its packages, store them, and return its status; or write all files again

    Without a minion, it returns how many were ``compiled``, which ``files`` changed, which were
    ``removed`` as their minions are gone, who is ``gone``, who was ``renamed``, and the
    ``errors`` by minion. For the packages of many minions, there is ``pkgset.refresh``.

    CLI Example: ``salt-run package_states.refresh web1``
    """
    if minion is None:
        return _service().sweep()
    return answers.refresh(_service(), minion)


arguments.strict(globals())
