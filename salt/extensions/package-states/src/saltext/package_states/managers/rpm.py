"""What zypper and dnf have in common: rpm, and locks by name in a file of others' too.

A lock also stops Salt, so a change is made with other locks: those that there should be afterwards.
The file itself is replaced once, at the end. Which locks are Salt's is written down before that.
"""

import fnmatch
import json

import saltext.package_states.managers.journal as journal
import saltext.package_states.minion.replace as replace
import saltext.package_states.model.version as versions
from saltext.package_states.errors import PackageStateError
from saltext.package_states.managers.base import Manager
from saltext.package_states.model import condition
from saltext.package_states.model.decision import IMPOSSIBLE, NOTHING, Facts
from saltext.package_states.model.item import ABSENT, LOCKING

import salt.utils.files
from salt.utils.pkg.rpm import get_osarch

RECORD = "/var/lib/salt/package_states.json"
# the priority of a repository that has none
USUAL = 99
# what a configuration says of what is switched off
OFF = ("0", "false", "no", "off")
FOREIGN = ("i386", "i586", "i686")
QUERY = r"%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\t%{ARCH}\n"


class Rpm(Manager):
    """What zypper and dnf have in common

    A subclass has ``_offers(names)``, what the repositories have: key, version and repository;
    ``file()``, that of locks; ``_idents(item, decision)``, the ids of the locks of an item that is
    as it should be; and ``_listed()``, those that the package manager lists, or raise why not.
    """

    # pylint: disable=no-member
    #: where the path of the file of locks is set
    setting = ""

    def alias(self, key):
        name, _, arch = key.partition(":")
        return (
            f"{name}.{arch}" if arch and arch not in (get_osarch(), "noarch") else name
        )

    def _name(self, name, arch):
        return f"{name}:{arch}" if arch in FOREIGN and arch != get_osarch() else name

    def _rows(self):
        rows = (
            line.split("\t")
            for line in self.run("rpm", "-qa", "--qf", QUERY).splitlines()
        )
        return [
            (self._name(name, arch), _bare(version), arch)
            for name, version, arch in rows
            if name != "gpg-pubkey"
        ]

    def installed(self):
        if "package_state.rpm" not in self.context:
            found = {}
            for key, version, _ in self._rows():
                found.setdefault(key, []).append(version)
            self.context["package_state.rpm"] = {
                key: tuple(versions.sort(self.name, there))
                for key, there in found.items()
            }
        return self.context["package_state.rpm"]

    def forget(self):
        super().forget()
        self.context.pop("package_state.rpm", None)

    def refreshed(self):
        self.forget()
        for what in ("repositories", "offers", "unread"):
            self.context.pop(f"package_state.{what}", None)

    def fetch(self, keys):
        known = self.context.setdefault("package_state.repositories", {})
        missing = sorted({key for key in keys if key not in known})
        if missing:
            # an answer has all versions, or no key at all
            known.update({key: {} for key in missing})
            found = self._repositories(
                sorted({key.partition(":")[0] for key in missing})
            )
            known.update({key: there for key, there in found.items() if key in known})

    def _repositories(self, names):
        """Return what repositories have: by key the best priority of each version"""
        priorities, found = self._priorities(), {}
        rows = list(self._offers(names))
        for key, version, repository in rows:
            rank = priorities.get(repository, USUAL)
            there = found.setdefault(key, {})
            there[version] = min(rank, there.get(version, rank))
        if not names:
            self.context["package_state.offers"] = rows
        return found

    def unread(self):
        """Return the repositories of which the last answers lacked something, sorted"""
        return tuple(sorted(self.context.get("package_state.unread", ())))

    def _missed(self, names):
        self.context.setdefault("package_state.unread", set()).update(names)

    def loose(self):
        mine = {one for there in self._record().values() for one in there["locks"]}
        try:
            missing = sorted(mine - self._listed()) if mine else []
        except PackageStateError as exc:
            return [str(exc)]
        said = f"as {self.name} does not read {self.file().path}; see {self.setting}."
        return missing and [f"{', '.join(missing)} is not in force, {said}"]

    def _unlisted(self, said):
        return PackageStateError(
            f"Whether locks are in force is not known, as {self.name} can't list them:"
            f" {said}; mend that on the minion."
        )

    def repositories(self):
        if "package_state.offers" not in self.context:
            self._repositories(())
        found = {}
        for key, version, repository in self.context["package_state.offers"]:
            found.setdefault(repository, {}).setdefault(key, []).append(version)
        return {
            name: versions.ordered(self.name, there) for name, there in found.items()
        }

    def _priorities(self):
        found = {}
        for ident, values in (self.salt["pkg.list_repos"]() or {}).items():
            try:
                priority = int(values.get("priority") or USUAL)
            except (TypeError, ValueError):
                priority = USUAL
            found[ident] = priority
            found.setdefault(str(values.get("name") or ident), priority)
        return found

    def facts(self, key):
        self.fetch([key])
        known = self.context["package_state.repositories"]
        there = known.get(key, {})
        best = min(there.values(), default=USUAL)
        preferred = [one for one, rank in there.items() if rank == best]
        return Facts(
            self.name,
            tuple(self.installed().get(key, ())),
            tuple(versions.sort(self.name, there)[::-1]),
            versions.newest(self.name, preferred),
            False,
            self._record().get(key, {}).get("version", ""),
        )

    def providers(self, name):
        answer = self.ask("rpm", "-q", "--whatprovides", "--qf", r"%{NAME}\n", name)
        # it fails where there are none
        return [] if answer["retcode"] else sorted(set(answer["stdout"].split()))

    def essential(self, key):
        """Return False: both refuse to remove what they protect"""
        return False

    def _locks(self):
        file = self.file()
        stamp = (file.path, replace.stamp(file.path), replace.stamp(RECORD))
        known = self.context.get("package_state.locks")
        if known is None or known["stamp"] != stamp:
            there = file.read()
            record = self._recorded()
            own = {one for mine in record.values() for one in mine["locks"]}
            others = [lock for lock in there if lock.id not in own]
            known = {
                "stamp": stamp,
                "record": record,
                "others": others,
                "names": [lock.name for lock in others],
            }
            self.context["package_state.locks"] = known
        return known

    def _recorded(self):
        try:
            with salt.utils.files.fopen(RECORD) as handle:
                return json.load(handle)
        except FileNotFoundError:
            return {}
        except ValueError as exc:
            raise PackageStateError(
                f"{RECORD} is broken; delete it, and release old locks by hand."
            ) from exc

    def _record(self):
        """Return the locks that Salt has set: ``version``, ``locks`` and ``scope`` by key"""
        return self._locks()["record"]

    def held(self, key):
        called = {key.partition(":")[0], self.alias(key)}
        return any(fnmatch.filter(called, name) for name in self._locks()["names"])

    def locked(self, key):
        return key in self._record() or self.held(key)

    def everything(self):
        self.forget()
        keys = sorted({*self.installed(), *self._record()})
        # one question for all of them
        there = {**dict.fromkeys(keys, {}), **self._repositories(())}
        self.context["package_state.repositories"] = there
        return keys

    def _wanted(self, items, coming=()):
        record, found = self._record(), {}
        named = {item.key for item in items}
        theirs = {lock.id for lock in self._locks()["others"]}
        for key, there in record.items():
            stays = self.stays(key, there["scope"])
            if key not in named and stays:
                found[key] = there
        for item in items:
            if item.wanted not in LOCKING:
                continue
            decision = self.decide(item)
            right = decision.action == NOTHING
            if item.key in coming:
                right = decision.action != IMPOSSIBLE
            if not right:
                # what can't be as it should keeps the lock that it has
                if item.key in record and item.key not in coming:
                    found[item.key] = record[item.key]
                continue
            idents = self._idents(item, decision)
            if item.wanted in ABSENT and item.condition:
                # a version that no repository has now may come back
                idents += self._gone(item, set(idents))
            # the same lock of somebody else does as well, and stays theirs
            mine = [one for one in idents if one not in theirs]
            if mine or not idents:
                found[item.key] = {
                    "version": "" if item.wanted in ABSENT else decision.version,
                    "locks": mine,
                    "scope": self.scope,
                }
        return found

    def _gone(self, item, idents):
        """Return the locks of an item that it has and that are still wanted, beside others"""
        found = []
        for ident in self._record().get(item.key, {}).get("locks", ()):
            for before in (f"!{item.name}-", f"{item.name}="):
                version = ident[len(before) :] if ident.startswith(before) else ""
                if (
                    version
                    and ident not in idents
                    and condition.meets(self.name, version, item.condition)
                ):
                    found.append(ident)
        return found

    def _during(self, steps, items):
        """Return the ids of Salt's locks that are in force while packages are changed"""
        coming = {step.key for step in steps}
        wanted = self._wanted(items)
        return [
            one
            for key, there in wanted.items()
            if key not in coming
            for one in there["locks"]
        ]

    def locks(self, items, test=False, coming=()):
        self.fetch([item.key for item in items])
        record, file = self._record(), self.file()
        wanted = self._wanted(items, coming if test else ())
        there = {lock.id for lock in file.read()}
        changes = {}
        for key in sorted({*record, *wanted}):
            before = sorted(there.intersection(record.get(key, {}).get("locks", ())))
            after = sorted(wanted[key]["locks"]) if key in wanted else []
            if before != after:
                changes[key] = {"old": ", ".join(before), "new": ", ".join(after)}
        if not test and (changes or wanted != record):
            others = self._locks()["others"]
            # whoever is killed between the two knows both as his own afterwards
            both = {key: dict(value) for key, value in {**wanted, **record}.items()}
            for key in both:
                lists = (one.get(key, {}).get("locks", ()) for one in (record, wanted))
                both[key]["locks"] = sorted({one for some in lists for one in some})
            journal.write(RECORD, both)
            if changes:
                file.write(
                    others, [one for mine in wanted.values() for one in mine["locks"]]
                )
            journal.write(RECORD, wanted)
        return changes

    def leftovers(self, notes):
        """Return old versions, beside new ones that replace them, that rpm was killed before it erased"""
        replaced, rows = notes.get("replaced", {}), {}
        for key, version, arch in self._rows():
            if key in replaced:
                rows.setdefault((key, arch), []).append(version)
        return [
            f"{key.partition(':')[0]}-{version.partition(':')[2] or version}.{arch}"
            for (key, arch), there in rows.items()
            if set(there) - set(replaced[key])
            for version in there
            if version in replaced[key]
        ]

    def recover(self, notes, check):
        old = self.leftovers(notes)
        if old:
            answer = self.act("rpm", "--erase", "--nodeps", *old)
            if answer["retcode"]:
                raise PackageStateError(
                    f"rpm can't erase {', '.join(old)}, which a killed run left:"
                    f" {answer['stderr'].strip()[-300:]}; erase it by hand, then apply the"
                    " state again."
                )
        self.refreshed()


def _bare(version):
    return version[2:] if version.startswith("0:") else version


def settings(path, name, usual):
    try:
        with salt.utils.files.fopen(path) as handle:
            lines = handle.read().splitlines()
    except OSError:
        return usual
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and key.strip() == name and value.strip():
            return value.strip()
    return usual
