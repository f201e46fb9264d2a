"""Who there is: minions, groups and organizations.

With ``minions: keys`` under ``package_states``, the default, minions are those with an accepted
key, groups are the master's :conf_master:`nodegroups`, and every minion belongs to the one
organization :data:`ALL`. With ``minions: database`` all three come from the views ``minion`` and
``target`` in the schema ``package_states``, which ``setup uyuni=True`` makes of Uyuni's tables.
"""

import contextlib
import hashlib
import os
import re

import saltext.package_states.store.connection as connections
import saltext.package_states.store.tables as store
from saltext.package_states.errors import InvalidInput, PackageStateError
from saltext.package_states.model import names, resolver

import salt.utils.files
import salt.utils.minions

_COMPOUND = re.compile(r"^\(|^not |^[A-Z]@|\s(?:and|or)\s+(?:not\s+)?\(*\S+[:@]")
# grains, pillars and addresses
_TOLD = re.compile(r"(?:^|[\s(])[GPIJS]@")
#: The organization of every minion with an accepted key
ALL = "all"


def get(opts, connection):
    name = (opts.get("package_states") or {}).get("minions", "keys")
    found = {"keys": Keys, "database": Database}.get(str(name))
    if found is None:
        raise InvalidInput(
            f"The option minions of package_states is {name!r}; use keys or database."
        )
    return found(opts, connection)


class Registry:
    def __init__(self, opts, connection):
        self.opts = opts
        self.connection = connection

    def members(self):
        """Return what of each minion may change without an event, by id"""
        return {}

    def by_grains(self, target):
        """Return whether what minions tell of themselves decides who is in a group"""
        return False

    def target(self, kind, name):
        """Return the id of what a state is to be assigned to; grain matches are ids themselves"""
        # pylint: disable=no-member
        kinds = resolver.LEVELS[:-1]
        if kind not in kinds:
            raise PackageStateError(
                f"There is no {kind!r} to assign to; use one of {', '.join(kinds)}."
            )
        name = names.text(name, kind)
        if kind == resolver.GRAINS:
            if ":" not in name:
                raise PackageStateError(
                    f"{name!r} is no grain match; write it like os:Debian."
                )
            if _COMPOUND.search(name):
                raise InvalidInput(
                    f"{name!r} is a compound match, and this takes one grain, such as"
                    " os:Debian; make a nodegroup of it, and assign to that group."
                )
            return name
        minion = kind == resolver.MINION
        found = self.minions([name]) if minion else self.found(kind, name)
        if len(found) != 1:
            raise PackageStateError(
                f"There {'is more than one' if found else 'is no'} {kind} {name!r};"
                f" {self.hint(kind)}."
            )
        return found[0]


class Keys(Registry):
    """The accepted keys and the nodegroups of the master"""

    def __init__(self, opts, connection):
        super().__init__(opts, connection)
        self._check = salt.utils.minions.CkMinions(opts).check_minions
        self._members = {}
        self._all = None

    def minions(self, ids=None):
        """Return the ids of minions with an accepted key, those of a set that there are, or all"""
        if self._all is None:
            self._all = frozenset(self._accepted())
        return sorted(self._all if ids is None else self._all & set(ids))

    def _accepted(self):
        """Return the ids of all minions with an accepted key: where keys are files, their names are
        enough, and CkMinions would load the drivers of caches first
        """
        driver = self.opts.get("keys.cache_driver") or "localfs_key"
        if driver == "localfs_key" and not self.opts.get("cluster_id"):
            folder = os.path.join(self.opts["pki_dir"], "minions")
            with contextlib.suppress(OSError), os.scandir(folder) as found:
                return [
                    one.name
                    for one in found
                    if one.name[0] != "." and one.is_file(follow_symlinks=False)
                ]
        return self._check("*", "glob")["minions"]

    def belongs(self, minion, kind, target):
        """Return whether a minion is in the nodegroup or organization of an id, as far as the master knows it"""
        if kind == resolver.ORGANIZATION:
            return target == ALL
        if target not in (self.opts.get("nodegroups") or {}):
            return False
        if target not in self._members:
            self._readable(target)
            found = self._check(target, "nodegroup", greedy=False)
            self._members[target] = frozenset(found["minions"])
        return minion in self._members[target]

    def by_grains(self, target):
        if target not in (self.opts.get("nodegroups") or {}):
            return False
        found = self._readable(target)
        return bool(_TOLD.search(found if isinstance(found, str) else " ".join(found)))

    def _readable(self, target):
        """Return what a nodegroup is, or raise: Salt takes for empty what is none, and its members would lose all"""
        try:
            found = salt.utils.minions.nodegroup_comp(target, self.opts["nodegroups"])
        except Exception:  # pylint: disable=broad-except
            # whatever a wrong definition leads to
            found = None
        if not found:
            raise InvalidInput(
                f"The nodegroup {names.shown(target)} can't be read, so nobody knows who is in"
                " it; correct it in the configuration of the master."
            )
        return found

    def identities(self, ids):
        """Return the digests of the public keys of minions by id, empty if there is none"""
        found = {}
        for one in ids:
            try:
                with salt.utils.files.fopen(
                    os.path.join(self.opts["pki_dir"], "minions", one), "rb"
                ) as handle:
                    found[one] = hashlib.sha256(handle.read().strip()).hexdigest()
            except OSError:
                found[one] = ""
        return found

    def found(self, kind, name):
        """Return the ids of the groups or organizations that somebody may mean"""
        if kind == resolver.ORGANIZATION:
            return [ALL] if name == ALL else []
        return [name] if name in (self.opts.get("nodegroups") or {}) else []

    def label(self, kind, target):
        return target if self.found(kind, target) else None

    def hint(self, kind):
        """Return what to do where a minion, group or organization is not there"""
        some = ", ".join(
            map(names.shown, sorted(self.opts.get("nodegroups") or {})[:10])
        )
        return {
            resolver.ORGANIZATION: f"use {ALL}, which is every minion with an accepted key",
            resolver.GROUP: f"use one of the master's nodegroups: {some or 'it has none'}",
            resolver.MINION: "use the id of a minion whose key is accepted, see salt-key",
        }[kind]


class Database(Registry):
    def __init__(self, opts, connection):
        super().__init__(opts, connection)
        self._known = {}
        self._whole = False
        self._labels = None

    def _ask(self, query, *values):
        with connections.told(
            "make the views with package_states.setup uyuni=True, or see minions: keys"
        ):
            return store.ask(self.connection, query, *values)

    def _read(self, ids):
        query = "SELECT minion_id, organization, groups FROM package_states.minion"
        if ids is None:
            rows = self._ask(query)
            self._whole = True
        else:
            rows = self._ask(f"{query} WHERE minion_id = ANY(%s)", list(ids))
        for minion, organization, groups in rows:
            self._known[minion] = (organization, frozenset(groups))

    def minions(self, ids=None):
        if not self._whole and (ids is None or not self._known.keys() >= set(ids)):
            self._read(ids)
        if ids is None:
            return sorted(self._known)
        return sorted(self._known.keys() & set(ids))

    def identities(self, ids):
        """Return the column ``identity`` of the view by id, which a view of others may not have"""
        found = dict.fromkeys(ids, "")
        if self._ask(
            "SELECT FROM information_schema.columns WHERE table_schema = 'package_states'"
            " AND table_name = 'minion' AND column_name = 'identity'"
        ):
            rows = self._ask(
                "SELECT minion_id, identity::text FROM package_states.minion"
                " WHERE minion_id = ANY(%s)",
                list(ids),
            )
            found.update((minion, identity or "") for minion, identity in rows)
        return found

    def members(self):
        self.minions()
        return dict(self._known)

    def belongs(self, minion, kind, target):
        if not self.minions([minion]):
            return False
        organization, groups = self._known[minion]
        return target in ([organization] if kind == resolver.ORGANIZATION else groups)

    def found(self, kind, name):
        return [
            one
            for (what, one), label in self._targets().items()
            if what == kind and name in (one, label)
        ]

    def _targets(self):
        if self._labels is None:
            rows = self._ask("SELECT kind, id, name FROM package_states.target")
            self._labels = {(kind, one): name for kind, one, name in rows}
        return self._labels

    def label(self, kind, target):
        return self._targets().get((kind, target))

    @staticmethod
    def hint(kind):
        view = "minion" if kind == resolver.MINION else "target"
        return f"use a name or id that is in the view package_states.{view}"
