"""
zypper and dnf: the locks of ``zypper addlock`` and of dnf's versionlock.

Both know locks by name. Such a lock also stops Salt, so it is taken away before
a package is changed, and set again afterwards. Which locks are Salt's is written
down in a file, as those of other people stay as they are.
"""

import json
import os
import re

import saltext.package_states.version as versions
from saltext.package_states.decision import INSTALL, NOTHING, Facts
from saltext.package_states.errors import PackageStateError
from saltext.package_states.item import ABSENT, INSTALLED, KEPT
from saltext.package_states.managers.base import Manager

import salt.utils.atomicfile
import salt.utils.files
from salt.utils.pkg.rpm import get_osarch

RECORD = "/var/lib/salt/package_states.json"
LOCKING = (*ABSENT, INSTALLED, KEPT)
# what zypper calls the repository of what is in none
SYSTEM = ("(System Packages)", "@System")
# one of these is in what dnf says if it came to a result
ENDS = ("Transaction Summary", "Nothing to do")


class Rpm(Manager):
    """
    What zypper and dnf have in common
    """

    def alias(self, key):
        """
        Return the name that the module ``pkg`` has for a package
        """
        name, _, arch = key.partition(":")
        return (
            f"{name}.{arch}" if arch and arch not in (get_osarch(), "noarch") else name
        )

    def _installed(self):
        return self.salt["pkg.list_pkgs"](versions_as_list=True)

    def fetch(self, keys):
        """
        Ask for some packages at once
        """
        known = self.context.setdefault("package_state.rpm", {})
        names = [self.alias(key) for key in keys if self.alias(key) not in known]
        if names:
            # an answer has all versions, or no key at all
            known.update({name: [] for name in names})
            known.update(self._repositories(*names))

    def _repositories(self, *names):
        """
        Return the versions that the repositories have, by the name that ``pkg`` has

        :param names: those of the packages, none for all
        """
        return self.salt["pkg.list_repo_pkgs"](*names) or {}

    def facts(self, key):
        """
        Return what is known of a package
        """
        self.fetch([key])
        alias = self.alias(key)
        available = tuple(self.context["package_state.rpm"].get(alias, ()))
        return Facts(
            self.name,
            tuple(self._installed().get(alias, ())),
            available,
            versions.newest(self.name, available),
            False,
            self._record().get(key, ""),
        )

    def held(self, key):
        """
        Return whether somebody else holds a package
        """
        return self.alias(key) in self._locked() and key not in self._record()

    def essential(self, key):
        """
        Return False: both refuse to remove what they protect
        """
        return False

    def simulate(self, decision, key):
        """
        Return the names of all packages that would be removed, a sorted list
        """
        raise NotImplementedError

    def _locked(self):
        """
        Return the names that are locked, by anybody
        """
        raise NotImplementedError

    def _lock(self, item):
        """
        Set a lock
        """
        raise NotImplementedError

    def _unlock(self, alias):
        """
        Release a lock
        """
        self.salt["pkg.unhold"](alias)

    def _record(self):
        """
        Return the locks that Salt has set: the version, or nothing, by package
        """
        try:
            with salt.utils.files.fopen(RECORD) as handle:
                return json.load(handle)
        except FileNotFoundError:
            return {}
        except ValueError as exc:
            raise PackageStateError(
                f"{RECORD} is broken; delete it, and release old locks by hand."
            ) from exc

    def _write(self, record):
        os.makedirs(os.path.dirname(RECORD), exist_ok=True)
        with salt.utils.files.fopen(RECORD + ".new", "w") as handle:
            json.dump(record, handle, sort_keys=True, indent=1)
        salt.utils.atomicfile.atomic_rename(RECORD + ".new", RECORD)

    def locks(self, items, test=False):
        """
        Lock what is right already, unlock what is to be changed or is not wanted
        """
        self.forget()
        self.fetch([item.key for item in items])
        record, locked, changes = self._record(), self._locked(), {}
        wanted = {}
        for item in items:
            if item.wanted in LOCKING:
                decision = self.decide(item)
                if decision.action == NOTHING:
                    wanted[item.key] = (item, decision)
        for key in sorted({*record} - {*wanted}):
            changes[key] = {"old": "locked", "new": ""}
            if not test:
                self._unlock(self.alias(key))
                del record[key]
        for key in sorted({*wanted}):
            item, decision = wanted[key]
            if self.alias(key) in locked:
                # somebody else's lock does as well, and stays theirs
                continue
            changes[key] = {"old": "", "new": "locked"}
            if not test:
                self._lock(item)
                record[key] = decision.version
        if changes and not test:
            self._write(record)
        return changes

    def finish(self, item):
        """
        Lock a package that was changed
        """
        if item.wanted not in LOCKING or self.alias(item.key) in self._locked():
            return
        self._lock(item)
        decision = self.decide(item)
        self._write({**self._record(), item.key: decision.version})

    def inventory(self):
        """
        Return all packages, see :mod:`saltext.package_states.refresh`
        """
        self.forget()
        installed, locked = self._installed(), self._locked()
        repositories, found = self._repositories(), {}
        record = self._record()
        for alias in sorted({*installed, *locked}):
            name, dot, arch = alias.rpartition(".")
            key = (
                f"{name}:{arch}" if dot and arch in ("i386", "i586", "i686") else alias
            )
            available = list(repositories.get(alias, ()))
            there = list(installed.get(alias, ()))
            found[key] = {
                "versions": there,
                "available": available,
                "candidate": versions.newest(self.name, available),
                "held": alias in locked,
                "orphan": bool(there) and not available,
                "configured": False,
                "kept": record.get(key, ""),
            }
        return found

    def _gone(self, out, pattern):
        return sorted(
            {match.group(1) for match in re.finditer(pattern, out, re.MULTILINE)}
        )


class Zypper(Rpm):
    """
    zypper
    """

    name = versions.ZYPPER

    def _repositories(self, *names):
        """
        Return the versions that the repositories have, by the name that ``pkg`` has

        zypper also names what is installed and in no repository.
        """
        found = {}
        answer = self.salt["pkg.list_repo_pkgs"](*names, byrepo=True) or {}
        for repository, packages in answer.items():
            if repository not in SYSTEM:
                for alias, there in packages.items():
                    found.setdefault(alias, {}).update(dict.fromkeys(there))
        return {
            alias: versions.sort(self.name, there)[::-1]
            for alias, there in found.items()
        }

    def _locked(self):
        return set(self.salt["pkg.list_locks"]())

    def _lock(self, item):
        self.salt["pkg.hold"](self.alias(item.key))

    def simulate(self, decision, key):
        """
        Return the names of all packages that would be removed, a sorted list
        """
        alias = self.alias(key)
        if decision.action == INSTALL:
            command = (
                "install",
                "--oldpackage",
                f"{alias}={decision.version.partition(':')[2] or decision.version}",
            )
        else:
            command = ("remove", alias)
        out = self.run(
            "zypper",
            "--non-interactive",
            "--xmlout",
            command[0],
            "--dry-run",
            *command[1:],
        )
        removed = "".join(re.findall(r"<to-remove>.*?</to-remove>", out, re.DOTALL))
        return self._gone(removed, r'<solvable [^>]*\bname="([^"]+)"')


class Dnf(Rpm):
    """
    dnf
    """

    name = versions.DNF

    def _locked(self):
        return {entry.lstrip("!") for entry in self.salt["pkg.list_holds"](full=False)}

    def _lock(self, item):
        if item.wanted in ABSENT:
            self.run("dnf", "-q", "versionlock", "exclude", self.alias(item.key))
        else:
            self.salt["pkg.hold"](self.alias(item.key))

    def simulate(self, decision, key):
        """
        Return the names of all packages that would be removed, a sorted list
        """
        alias = self.alias(key)
        if decision.action == INSTALL:
            spec, command = f"{alias}-{decision.version}", "install"
        else:
            spec, command = alias, "remove"
        # it ends with 1, as the question is answered with no
        answer = self.salt["cmd.run_all"](
            ["dnf", "--assumeno", command, spec],
            python_shell=False,
            env={"LC_ALL": "C", "SALT_RUNNING": "1"},
            ignore_retcode=True,
        )
        said = f"{answer['stdout']}\n{answer['stderr']}"
        if not any(end in said for end in ENDS):
            problem = (answer["stderr"] or answer["stdout"]).strip()[-300:]
            raise PackageStateError(
                f"dnf can't say what would go along with {key}: {problem}; mend that on"
                " the minion, see 'dnf makecache', then apply the state again."
            )
        gone = (
            re.split(
                r"^(?:Installing|Upgrading|Downgrading|Transaction Summary)",
                re.sub(
                    r"\A.*?^Removing",
                    "Removing",
                    answer["stdout"],
                    flags=re.DOTALL | re.MULTILINE,
                ),
                flags=re.MULTILINE,
            )[0]
            if "\nRemoving" in answer["stdout"]
            else ""
        )
        return self._gone(
            gone, r"^ (\S+) +(?:noarch|x86_64|aarch64|i[3-6]86|ppc64le|s390x) "
        )
