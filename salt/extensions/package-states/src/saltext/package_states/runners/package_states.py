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
      exchange: ''                      # a folder whose files all callers may name
      postgres: {}                      # what is other than in the option postgres

With ``minions: keys``, groups are :conf_master:`nodegroups`, and the one organization is
``all``. With ``minions: database``, minions, groups and organizations come from the views
``package_states.minion`` and ``package_states.target``, which ``setup uyuni=True`` makes of
Uyuni's tables.
"""

import saltext.package_states.answers as answers
import saltext.package_states.authors as authors
import saltext.package_states.available as offered
import saltext.package_states.edit as edit
import saltext.package_states.names as names
import saltext.package_states.owners as owners
import saltext.package_states.page as pages
import saltext.package_states.paths as paths
import saltext.package_states.promotions as promotions
import saltext.package_states.schema as schema
import saltext.package_states.service as services
import saltext.package_states.sets as sets
import saltext.package_states.transfer as transfer
import saltext.package_states.upgrades as upgrades
import saltext.package_states.views as views
from saltext.package_states.connection import HAS_PSYCOPG2

__func_alias__ = {"set_": "set", "list_": "list", "compile_": "compile"}


def __virtual__():
    if authors.is_minion(__opts__):
        return False, authors.REFUSED
    if not HAS_PSYCOPG2:
        return False, "The package_states runner needs psycopg2"
    return True


def _author(other=None):
    # Salt puts the user whom it has authenticated here
    return authors.caller(globals().get("__user__"), __opts__, other)


def _path(path):
    return paths.allowed(__opts__, path)


def _service():
    return services.Service(__opts__)


def _save(author, comment, revision, dry_run):
    return edit.Save(_author(author), comment, revision, dry_run)


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
    return views.states(__opts__)


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
    entries = [{"package": package, "wanted": wanted, "version": version}]
    return edit.put(
        _service(), name, entries, _save(author, comment, revision, dry_run)
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
    return edit.put(
        _service(), name, packages, _save(author, comment, revision, dry_run)
    )


def unset(name, package, author=None, comment="", revision=None, dry_run=False):
    """
    Take a package out of a state: it is not managed by it any more

    To release what a lower state says, set the package to ``unmanaged`` instead.

    package
        ``name`` or ``name:architecture``.

    author, comment, revision, dry_run
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.unset web nginx
    """
    return edit.take(
        _service(), name, package, _save(author, comment, revision, dry_run)
    )


def assign(
    name, kind, target, priority=None, author=None, comment="", stage=services.KEPT
):  # pylint: disable=too-many-arguments
    """
    Let a state apply to an organization, a group, a grain match or a minion

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

    stage
        The stage that it follows, see :func:`stages`, by default the one that it follows
        already, or the first one. What concerns the last stage waits until another person
        approves it.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.assign web group Webservers priority=10
        salt-run package_states.assign web group Webservers stage=test
    """
    return _service().assign(
        name,
        kind,
        str(target),
        names.priority(priority),
        _author(author),
        comment=comment,
        stage=stage,
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
    return views.assignments(__opts__, name)


def show(name, revision=None, stage=None):
    """
    Return the entries of a state, and to whom it is assigned

    revision
        One of its revisions, the newest by default.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.show web
    """
    return views.state(__opts__, name, revision, stage)


def diff(name, old, new=None):
    """
    Return what two revisions of a state differ in

    old, new
        The revisions; ``new`` is the newest by default, 0 is the empty state.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.diff web 3 5
    """
    return views.changes(__opts__, name, old, new)


def history(name):
    """
    Return the revisions of a state, the oldest first

    CLI Example:

    .. code-block:: bash

        salt-run package_states.history web
    """
    return views.history(__opts__, name)


def rollback(name, revision, author=None, comment="", dry_run=False, stage=None):
    """
    Save the entries of an old revision as a new one

    The files are the same as they were then, byte for byte, if nothing else changed.

    revision
        The one to bring back, 0 for the empty state.

    author, comment, dry_run
        As for :func:`set`.

    stage
        Bring it back in this stage alone, at once, if it was in force there before. No new
        revision is saved then.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.rollback web 3
        salt-run package_states.rollback web 3 stage=prod
    """
    if stage is not None:
        save = _save(author, comment, None, dry_run)
        return promotions.back(_service(), name, stage, revision, save)
    return edit.back(_service(), name, revision, _save(author, comment, None, dry_run))


def stages(wanted=None, author=None, comment=""):
    """
    Return the stages of the site, or let it have others

    A stage, such as ``test``, has a revision of each state. The first one always has the
    newest; into the others, revisions are promoted one stage after the other, and into the
    last one only as another person approves. A minion belongs to the last of the stages
    that assignments to it follow: only those count, and its own state is that of this stage.

    wanted
        A list of the names in their order, such as ``dev,test,prod``; ``[]`` for none. A
        stage that an assignment follows must stay.

    author, comment
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.stages dev,test,prod
        salt-run package_states.stages
    """
    if wanted is None:
        return views.stages(__opts__)
    save = _save(author, comment, None, False)
    return promotions.set_stages(_service(), wanted, save)


def stage_history():
    """
    Return which stages there were from when on, by whom and why, the oldest first

    CLI Example:

    .. code-block:: bash

        salt-run package_states.stage_history
    """
    return views.stage_history(__opts__)


def promote(name, stage, revision=None, author=None, comment="", dry_run=False):
    """
    Let a revision of a state come into a stage

    Into the last stage it comes when another person approves the ``request`` that is
    returned then, see :func:`approve`. Minions whose file changes are returned.

    stage
        The stage, see :func:`stages`.

    revision
        One that was in the stage before, by default the one that is in force there.

    author, comment, dry_run
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.promote web test
        salt-run package_states.promote web prod comment='tested for a week'
    """
    save = _save(author, comment, None, dry_run)
    return promotions.promote(_service(), name, stage, revision, save)


def requests():
    """
    Return what waits for the approval of another person, with what would change

    CLI Example:

    .. code-block:: bash

        salt-run package_states.requests
    """
    return promotions.waiting(__opts__)


def approve(request, comment="", dry_run=False):
    """
    Do what a request asks for

    Whoever made it can't approve it, and of a revision none of the authors of what is new
    in it: who that is, Salt has authenticated.

    request
        Its number, see :func:`requests`.

    dry_run
        Do nothing, and return what would change.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.approve 7
    """
    return promotions.approve(_service(), request, _save(None, comment, None, dry_run))


def reject(request, comment=""):
    """
    Decide that what a request asks for is not done

    request
        Its number, see :func:`requests`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.reject 7 comment='not in December'
    """
    return promotions.reject(_service(), request, _save(None, comment, None, False))


def release(minion, author=None, comment=""):
    """
    Ask that a minion that belonged to the last stage leaves it

    A minion whose group or grains can't be told any more keeps the file that it has, and
    ``compile`` names it under ``errors``. It leaves the last stage when another person
    approves the ``request`` that is returned.

    author, comment
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.release web1 comment='a test machine now'
    """
    save = _save(author, comment, None, False)
    return promotions.release(_service(), minion, save)


def promotion_history(name):
    """
    Return what came into the stages of a state, what was asked for, and who decided

    CLI Example:

    .. code-block:: bash

        salt-run package_states.promotion_history web
    """
    return promotions.history(__opts__, name)


def generations(minion):
    """
    Return what was wanted on a minion from when on, the oldest first: who caused it, why,
    and what changed

    CLI Example:

    .. code-block:: bash

        salt-run package_states.generations web1
    """
    return views.generations(__opts__, minion)


def restore(
    minion, generation=None, day=None, author=None, comment="", dry_run=False
):  # pylint: disable=too-many-arguments
    """
    Let a minion have what was wanted on it at another time

    Its own state says so from then on, as that wins over all others: entries of this
    generation, and ``unmanaged`` for what others say besides. A rollback of its own state
    ends it.

    generation
        The number of one of its generations, see :func:`generations`.

    day
        Instead of that a time, such as ``2026-11-24``, of which it is the end, or
        ``'2026-11-24 12:00'``.

    author, comment, dry_run
        As for :func:`set`.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.restore web1 generation=3
        salt-run package_states.restore web1 day=2026-11-24
    """
    save = _save(author, comment, None, dry_run)
    return edit.restore(_service(), minion, generation, day, save)


def export(path=None):
    """
    Return all states, assignments and stages as YAML, which can live in git

    path
        A file on the master to write it to. Without it the text is returned.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.export /srv/git/packages.yaml
    """
    return sets.export(__opts__, _path(path))


def apply(
    path=None,
    text=None,
    test=False,
    prune=False,
    author=None,
    comment="",
    seen=None,
):  # pylint: disable=too-many-arguments
    """
    Let all states, assignments and stages be what a YAML text says, see :func:`export`

    All of it happens or nothing. What concerns the last stage waits for the approval of
    another person, see ``requests`` in what is returned. What the text does not name stays.

    path
        The file with the text, on the master.

    text
        The text itself, instead of a file.

    test
        Save nothing, and return what would change.

    prune
        Also empty and unassign the states that the text does not have.

    author, comment
        As for :func:`set`.

    seen
        A file on the master that :func:`export` wrote before the change: an error if
        somebody changed one of the states since, which this would undo.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.apply /srv/git/packages.yaml test=True
        salt-run package_states.apply /srv/git/packages.yaml comment='as of 4f0c2a1'
        salt-run package_states.apply /root/new.yaml seen=/root/old.yaml
    """
    if text is None:
        text = transfer.read(_path(path))
    save = _save(author, comment, None, test)
    before = None if seen is None else transfer.read(_path(seen))
    return sets.apply(_service(), text, save, bool(prune), before)


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
    return edit.installed(
        _service(), minion, name, packages, _save(author, comment, None, dry_run)
    )


def export_file(name, path, revision=None):
    """
    Write a state to a file

    path
        The file, on the master.

    revision
        One of its revisions, the newest by default.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.export_file web /root/web.json
    """
    return views.export(__opts__, name, _path(path), revision)


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
    save = _save(author, comment, revision, dry_run)
    return edit.load(_service(), name, _path(path), save)


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
    return upgrades.upgrade(
        _service(), name, package, version, _save(author, comment, revision, dry_run)
    )


def compile_(minion=None):
    """
    Write the files again: of one minion, or of all minions and states

    Saving does this for what depends on the state, and the engine ``package_states`` for
    who joins, leaves and goes. Returns how many were compiled, which ``files`` changed,
    which were ``removed`` as their minions are gone, who is ``gone``, who was ``renamed``,
    and the ``errors`` by minion.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.compile
    """
    return _service().compile(minion)


def verdicts(minion):
    """
    Return what is wanted of each package of a minion, and why, without asking it

    ``current`` says whether its file says the same.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.verdicts web1
    """
    return views.verdicts(_service(), minion)


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
        fleet = pages.page(__opts__, group, only, page, size)
        return pages.table(fleet) if table else fleet
    return views.status(__opts__, minion, table)


def who(package, page=1, size=100):
    """
    Return which minions have a package, and of which it is wanted

    What is installed is what they sent last. The file of a minion stays as it is if the
    minion belonged to the last stage and was not released, or if its states collide: then
    ``held`` says why, and ``wanted`` is what its file says, which is the newest one of its
    :func:`generations`.

    package
        ``name`` or ``name:architecture``.

    page, size
        Which page, and how many minions it has, at most 10,000.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.who nginx
    """
    return owners.page(__opts__, package, page, size)


def refresh(minion):
    """
    Ask a minion for its packages, store them, and return its status

    CLI Example:

    .. code-block:: bash

        salt-run package_states.refresh web1
    """
    return answers.refresh(__opts__, minion)


def dry_run(minion):
    """
    Ask a minion what would be done, with the packages that would go too

    CLI Example:

    .. code-block:: bash

        salt-run package_states.dry_run web1
    """
    return answers.plan(_service(), minion)


def available(
    search="*",
    minion=None,
    group=None,
    channel=None,
    regex=False,
    page=1,
    size=100,
):  # pylint: disable=too-many-arguments
    """
    Return which packages there are, with their versions, the newest first

    ``versions`` are those that all of the minions with this package ``manager`` can get,
    ``some`` those that only some of them can. A package of apt and one of dnf that have one
    name are two. It is what the minions told when they
    were refreshed last.

    search
        A pattern of their names, such as ``nginx*``.

    minion
        What this minion can get. Without ``minion`` and ``group``, all minions count.

    group
        What the minions of this group can get.

    channel
        What this repository has only, see :func:`channels`.

    regex
        True if ``search`` is a regular expression of PostgreSQL.

    page, size
        Which page, and how many packages it has, at most 10,000.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.available 'nginx*' group=Webservers
    """
    return offered.page(
        __opts__, search, minion, group, channel, regex, number=page, size=size
    )


def channels():
    """
    Return the repositories of the minions: how many packages and minions they have

    ``contents`` says in how many states minions have a repository, and ``unknown`` of how
    many of them nobody told yet what is in it.

    CLI Example:

    .. code-block:: bash

        salt-run package_states.channels
    """
    return offered.channels(__opts__)
