"""apt: pins in one preferences file, and holds.

What is away is pinned at -1, so that neither people nor dependencies bring it back; what is
installed is pinned at 1001 to its version. Versions that meet a condition are looked up here, as
apt knows nothing but wildcards.
"""

import contextlib
import fnmatch
import os
import re
from typing import NamedTuple

import saltext.package_states.model.condition as condition
import saltext.package_states.model.version as versions
from saltext.package_states.errors import PackageStateError
from saltext.package_states.managers import aptlists, journal, pins
from saltext.package_states.managers.base import Manager, Solution
from saltext.package_states.managers.pins import Pin
from saltext.package_states.minion import pkgset, replace
from saltext.package_states.model.decision import IMPOSSIBLE, INSTALL, NOTHING, Facts
from saltext.package_states.model.item import ABSENT, INSTALLED, KEPT

PREFERENCES = "/etc/apt/preferences.d/00salt-package-states"
# tells which holds are Salt's own when somebody has cleaned that file
COPY = os.path.join(journal.FOLDER, "package_states.pins")
STATUS = "/var/lib/dpkg/status"
LISTS = "/var/lib/apt/lists"
CACHE = "/var/cache/apt/pkgcache.bin"
FIELDS = "${Package}\t${Architecture}\t${db:Status-Abbrev}\t${Version}\t${Essential}\t${Protected}\t${Provides}\n"
_VERSION = re.compile(r"^ (?:\*\*\*|   ) (\S+) (-?\d+)")
_LOCKED = re.compile(
    r"locked by another process|Could not get lock|Unable to acquire the dpkg frontend lock"
)
_CHANGED = re.compile(r"^Inst (\S+)", re.MULTILINE)
_REMOVED = re.compile(r"^(?:Remv|Purg) (\S+) ", re.MULTILINE)
# what dpkg says of a package that it has begun with: half installed, unpacked, half configured
_BEGUN = "HUF"
_THERE = f"iWt{_BEGUN}"
_QUIET = {
    "APT_LISTBUGS_FRONTEND": "none",
    "APT_LISTCHANGES_FRONTEND": "none",
    "DEBIAN_FRONTEND": "noninteractive",
    "UCF_FORCE_CONFFOLD": "1",
}
_CONFFILES = (
    "-o DPkg::Options::=--force-confold -o DPkg::Options::=--force-confdef"
    " -o DPkg::Lock::Timeout=60"
).split()
# what must have another version first, which apt itself would not change
_NEEDS = re.compile(r"Depends: (\S+) \([^)]*\) but \S+ is to be installed")
_UNLOCKED = ("-o", "Debug::NoLocking=true")


class Row(NamedTuple):
    """A version in apt's policy of a package: its priority, and whether a repository has it"""

    priority: int
    offered: bool


class Policy(NamedTuple):
    """What apt says of a package, with a row for each version"""

    candidate: str
    installed: str
    table: dict


class Apt(Manager):
    """apt and dpkg"""

    name = versions.APT
    # why unmet dependencies of a run that was killed were not met by themselves
    unmet = ""
    # what others wrote into preferences, where it is told of
    others = ()

    def _known(self):
        """Return what was found since the last change, a dictionary"""
        # what changes whenever dpkg or apt know something new
        stamp = list(map(replace.stamp, (STATUS, LISTS, PREFERENCES)))
        known = self.context.get("package_state.apt")
        if known is None or known["stamp"] != stamp:
            known = {
                "stamp": stamp,
                "dpkg": self._dpkg(),
                "policy": {},
                "pins": pins.read(PREFERENCES),
                "copy": pins.read(COPY),
            }
            held = [pin for pin in known["copy"] + known["pins"] if pin.held]
            known["record"] = {pin.key: pin.version for pin in held}
            self.context["package_state.apt"] = known
        return known

    def native(self):
        if "package_state.native" not in self.context:
            self.context["package_state.native"] = self.run(
                "dpkg", "--print-architecture"
            ).strip()
        return self.context["package_state.native"]

    def _dpkg(self):
        native, found = self.native(), {}
        for line in self.run("dpkg-query", "-W", "-f", FIELDS).splitlines():
            name, arch, status, version, essential, protected, *more = line.split("\t")
            key = name if arch in (native, "all") else f"{name}:{arch}"
            found[key] = {
                "wanted": status[0],
                "status": status[1],
                "version": version,
                "broken": status[1] in _BEGUN or "R" in status[2:],
                "torn": "R" in status[2:],
                "essential": "yes" in (essential, protected),
                "provides": {
                    one.split()[0] for one in "".join(more).split(",") if one.strip()
                },
            }
        return found

    def fetch(self, keys):
        known = self._known()
        missing = [key for key in keys if key not in known["policy"]]
        # after a change all are asked for again at once, not each by itself
        asked = self.context.setdefault("package_state.asked", {})
        asked.update(dict.fromkeys(missing))
        keys = [key for key in asked if key not in known["policy"]] if missing else []
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            found, installed = self._policy(some)
            if self._outdated(installed):
                with contextlib.suppress(OSError):
                    os.unlink(CACHE)
                found, installed = self._policy(some)
            known["policy"].update(found)

    def _outdated(self, installed):
        """Return whether apt takes other versions for installed than dpkg does: it reads the status from its
        own cache while size and second of the file are the same, and misses a second change in a second
        """
        dpkg = self._known()["dpkg"]
        for key, version in installed.items():
            there = dpkg.get(key, {})
            status = there.get("status", "n")
            if status in "inc" and version != (
                there["version"] if status == "i" else ""
            ):
                return True
        return False

    def _policy(self, keys):
        """Return the candidate and the available versions of packages, and what apt takes for installed

        The candidate is that without Salt's pins: else a lock to be released would decide what is next.
        """
        found = {key: ("", ()) for key in keys}
        installed = dict.fromkeys(keys, "")
        with pins.instead(PREFERENCES, ()) as options:
            for key, there in self._policies(options, keys):
                if key in found:
                    available = [one for one, row in there.table.items() if row.offered]
                    found[key] = (there.candidate, tuple(available))
                    installed[key] = there.installed
        return found, installed

    def _policies(self, options, keys):
        """Yield what ``apt-cache policy`` says of packages, pairs of key and :class:`Policy`"""
        key, there, row = "", None, None
        for line in self.run("apt-cache", *options, "policy", *keys).splitlines():
            match = _VERSION.match(line)
            if not line.startswith(" ") and line.endswith(":"):
                if there:
                    yield key, there
                key, there = self._key(line[:-1]), Policy("", "", {})
            elif line.startswith(("  Installed: ", "  Candidate: ")):
                field, _, value = line.strip().partition(": ")
                value = "" if value == "(none)" else value
                there = there._replace(**{field.lower(): value})
            elif match:
                row = Row(int(match.group(2)), False)
                version = match.group(1)
                there.table.setdefault(version, row)
            elif line.startswith("        ") and not line.endswith(STATUS):
                there.table[version] = row._replace(offered=True)
        if there:
            yield key, there

    def facts(self, key):
        self.fetch([key])
        known = self._known()
        there = known["dpkg"].get(key, {})
        candidate, available = known["policy"].get(key, ("", ()))
        if candidate not in available:
            candidate = ""
        return Facts(
            self.name,
            (there["version"],) if _there(there) else (),
            available,
            candidate,
            there.get("status") == "c",
            self._record().get(key, ""),
            bool(there.get("broken")),
        )

    def installed(self):
        return {
            key: (there["version"],)
            for key, there in self._known()["dpkg"].items()
            if _there(there)
        }

    def locked(self, key):
        """Return whether a hold, or a pin of Salt or of somebody else keeps a package as it is, or away"""
        return (
            self._on_hold(key)
            or any(pin.key == key for pin in self._known()["pins"])
            or any(other.has(key) for other in self.others)
        )

    def _on_hold(self, key):
        return self._known()["dpkg"].get(key, {}).get("wanted") == "h"

    def held(self, key):
        return self._on_hold(key) and key not in self._record()

    def providers(self, name):
        dpkg = self._known()["dpkg"]
        return sorted(
            key
            for key, there in dpkg.items()
            if name in there["provides"] and _there(there)
        )

    def essential(self, key):
        return self._known()["dpkg"].get(key, {}).get("essential", False)

    def _key(self, name):
        return name.removesuffix(f":{self.native()}")

    def solve(self, steps, items):
        steps = [step for step in steps if step.version]
        if not steps:
            return Solution()
        with self._locked(steps, items) as options:
            # as root or not, and with another apt at work: nothing is written
            answer = self.ask(
                "apt-get", "-s", "-y", *options, *_UNLOCKED,
                "--allow-remove-essential", *self._transaction(steps),
            )  # fmt: skip
        if answer["retcode"]:
            said = _said(answer)
            needs = ", ".join(dict.fromkeys(_NEEDS.findall(said)))
            more = f" Add an entry for {needs}, with the version that it needs."
            return Solution(problem=said + (more if needs else ""))
        return self._solution(answer["stdout"], {step.key for step in steps})

    def _solution(self, out, own):
        """Return what a dry run of apt says, beside what it was asked for"""
        removed = {self._key(name) for name in _REMOVED.findall(out)}
        changed = {self._key(name) for name in _CHANGED.findall(out)}
        return Solution(tuple(sorted(removed)), tuple(sorted(changed.difference(own))))

    def _locked(self, steps, items):
        """Return a context with options for apt: the pins as they are to be after steps"""
        coming = {step.key for step in steps}
        return pins.instead(PREFERENCES, self._pins(items, coming))

    def _transaction(self, steps):
        words = ["--allow-downgrades"]
        if self.unmet:
            words.append("--fix-broken")
        if any(step.key in self._record() for step in steps):
            # what others hold is left alone, see the plan
            words.append("--allow-change-held-packages")
        dpkg = self._known()["dpkg"]
        if any(dpkg.get(step.key, {}).get("torn") for step in steps):
            # apt takes a version for installed of which dpkg was killed in the unpacking
            words.append("--reinstall")
        words.append("install")
        for step in steps:
            words.append(
                f"{step.key}={step.version}"
                if step.action == INSTALL
                else f"{step.key}-"
            )
        return words

    def commit(self, steps, items):
        """Change packages; what is purged is removed first, as apt would purge whatever else goes"""
        said = ""
        real = [step for step in steps if step.version]
        dpkg = self._known()["dpkg"]
        torn = [
            step.key
            for step in real
            if step.action != INSTALL and dpkg.get(step.key, {}).get("torn")
        ]
        with pkgset.own_change(self.opts, STATUS):
            if torn:
                self._dpkg_does("--force-remove-reinstreq", "--remove", *torn)
            if real:
                with self._locked(real, items) as options:
                    answer = self.act(
                        "apt-get", "-q", "-y", *_CONFFILES, *options,
                        *self._transaction(real), env=_QUIET,
                    )  # fmt: skip
                said = _said(answer) if answer["retcode"] else ""
            dpkg = self._known()["dpkg"]
            purge = [
                step.key
                for step in steps
                if step.purge and dpkg.get(step.key, {}).get("status") == "c"
            ]
            if purge:
                answer = self._dpkg_does("--purge", *purge)
                said += _said(answer) if answer["retcode"] else ""
        return said

    def _dpkg_does(self, *words):
        """Return the whole answer of a dpkg that changes packages, while no other one does"""
        return self.wait(("dpkg", *words), _is_locked, env=_QUIET)

    def recover(self, notes, check):
        """Let dpkg and apt end what they were killed in

        Unmet dependencies are met only by what ``check`` lets pass, or by the run that follows.
        """
        with pkgset.own_change(self.opts, STATUS):
            self._dpkg_does("--configure", "-a", "--force-confold,confdef")
            if self._is_unmet():
                self.unmet = self._allowed(("--fix-broken", "install"), check)
            self._mend(check)

    def recovered(self):
        if self.unmet and self._is_unmet():
            raise PackageStateError(
                "A run was ended too early and left dependencies unmet, and to meet them"
                f" {self.unmet} Run apt-get --fix-broken install by hand, then apply the state"
                " again."
            )

    def _is_unmet(self):
        answer = self.ask("apt-get", "-s", "-y", *_UNLOCKED, "check")
        return bool(answer["retcode"])

    def _allowed(self, words, check, options=()):
        """Let apt do what it says that it would do if that is allowed, and return why not"""
        answer = self.ask("apt-get", "-s", "-y", *_UNLOCKED, *options, *words)
        if answer["retcode"]:
            return _said(answer)
        problem = check(self._solution(answer["stdout"], ()))
        if not problem:
            command = ("apt-get", "-q", "-y", *_CONFFILES, *options, *words)
            self.wait(command, _is_locked, env=_QUIET)
        return problem

    def _mend(self, check):
        """Install again what dpkg was killed in the unpacking of, also what came along"""
        dpkg = self._known()["dpkg"]
        torn = [key for key, there in dpkg.items() if there["torn"]]
        self.fetch(torn)
        words = [
            f"{key}={dpkg[key]['version']}"
            for key in torn
            if dpkg[key]["version"] in self.facts(key).available
        ]
        if words:
            words = ("--reinstall", "--allow-downgrades", "install", *words)
            with pins.instead(PREFERENCES, ()) as options:
                self._allowed(words, check, options)

    def _record(self):
        return self._known()["record"]

    def _pinned(self, item):
        """Return the versions that an item is pinned away from, with the priority"""
        if item.wanted in ABSENT:
            if not item.condition:
                return [("*", -1)]
            found = self.offered(item)
            if len(item.condition) == 1 and item.condition[0][0] == "=":
                found.append(item.condition[0][1])
            # a version that no repository has now may come back
            found += [
                pin.version
                for pin in self._known()["pins"]
                if pin.key == item.key
                and pin.priority < 0
                and not condition.is_glob(pin.version)
                and condition.meets(self.name, pin.version, item.condition)
            ]
            found = set(found)
            return [(version, -1) for version in versions.sort(self.name, found)]
        return []

    def _pins(self, items, coming=()):
        # a pin that is set already stays while its package can't be as it should
        before, found, named = self._known()["pins"], [], {item.key for item in items}
        for item in items:
            if item.wanted in ABSENT and self.decide(item).action == IMPOSSIBLE:
                found.extend(pin for pin in before if pin.key == item.key)
                continue
            pinned = self._pinned(item)
            if item.wanted in (INSTALLED, KEPT):
                decision = self.decide(item)
                right = decision.action == NOTHING
                if right or (decision.action == INSTALL and item.key in coming):
                    pinned = [(decision.version, 1001)] if decision.version else []
                else:
                    found.extend(pin for pin in before if pin.key == item.key)
            # what somebody else holds already is pinned only: the hold does as well,
            # and stays theirs
            held = item.wanted == KEPT and not self.held(item.key)
            found.extend(
                Pin(item.key, version, priority, item.wanted, held, self.scope)
                for version, priority in pinned
            )
        found.extend(
            pin
            for pin in before
            if pin.key not in named and self.stays(pin.key, pin.scope)
        )
        return found

    def locks(self, items, test=False, coming=()):
        self.fetch([item.key for item in items])
        old = self._known()["pins"]
        new = self._pins(items, coming)
        dpkg = self._known()["dpkg"]
        holds = {pin.key for pin in new if pin.held}
        held = {key for key, there in dpkg.items() if there["wanted"] == "h"}
        there = {key for key, found in dpkg.items() if _there(found)}
        release = sorted((self._record().keys() - holds) & held)
        hold = sorted((holds - held) & there)
        before, after = pins.shown(old), pins.shown(new)
        changes = {
            key: {"old": before.get(key, ""), "new": after.get(key, "")}
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
        }
        for key in (*hold, *release):
            there = ("", "hold") if key in hold else ("hold", "")
            changes.setdefault(key, dict(zip(("old", "new"), there)))
        written = {pins.text(one) for one in (old, self._known()["copy"])}
        if test or not (changes or written != {pins.text(new)}):
            return changes
        if release:
            self._mark("unhold", release)
        for path in (COPY, PREFERENCES):
            pins.write(path, new)
        if hold:
            self._mark("hold", hold)
        return changes

    def _mark(self, what, keys):
        """Hold or unhold packages, and tell the beacon ``pkgset`` that it was Salt"""
        with pkgset.own_change(self.opts, STATUS):
            answer = self.wait(("apt-mark", what, *keys), _is_locked)
        if answer["retcode"]:
            raise PackageStateError(f"apt-mark can't {what} packages: {_said(answer)}")

    def unread(self):
        """Return the repositories of which there is no list, or none that can be read"""
        if "package_state.unread" not in self.context:
            found = {
                f"{aptlists.shown(source['uri'])} {source.get('dist', '')}".strip()
                for sources in (self.salt["pkg.list_repos"]() or {}).values()
                for source in sources
                if aptlists.is_lost(LISTS, source)
            }
            self.context["package_state.unread"] = tuple(sorted(found))
        return self.context["package_state.unread"]

    def refreshed(self):
        self.context.pop("package_state.unread", None)

    def loose(self):
        known = self._known()["pins"]
        keys = sorted({pin.key for pin in known})
        there = {}
        for start in range(0, len(keys), 500):
            there.update(self._policies((), keys[start : start + 500]))
        found = []
        for key in keys:
            candidate, _, table = there.get(key, Policy("", "", {}))
            mine = [pin for pin in known if pin.key == key]
            only = [pin.version for pin in mine if pin.priority > 0]
            away = [
                version
                for version, row in table.items()
                if row.priority >= 0
                and any(
                    pin.priority < 0 and fnmatch.fnmatchcase(version, pin.version)
                    for pin in mine
                )
            ]
            if away or (only and candidate and candidate not in only):
                found.append(
                    f"The lock of {key} is not in force, as {pins.rival(PREFERENCES, key)}"
                    f" lets apt install {', '.join(away) or candidate}; take that out, or"
                    " say unmanaged."
                )
        return found

    def everything(self):
        known = self._known()
        states = f"{_THERE}c"
        there = {key for key, found in known["dpkg"].items() if _there(found, states)}
        self.others = [other for other in pins.others(PREFERENCES) if other.locks]
        named = {name for other in self.others for name in other.names}
        there.update(name for name in named if not condition.is_glob(name))
        keys = sorted(there.union(pin.key for pin in known["pins"]))
        self.fetch(keys)
        return keys

    def repositories(self):
        return {
            one.name: aptlists.packages(self, one.path) for one in aptlists.lists(self)
        }

    def digests(self):
        place = os.path.join(
            self.opts["cachedir"], "package_states", "repositories.json"
        )
        return aptlists.digests(self, place)

    def security(self):
        lists = [one for one in aptlists.lists(self) if one.security]
        if not lists:
            return None
        found = {}
        for one in lists:
            for key, there in aptlists.packages(self, one.path).items():
                found.setdefault(key, []).extend(there)
        return self._newer(found)


def _there(package, states=_THERE):
    return package.get("status", "n") in states


def _is_locked(answer):
    """Return whether another program kept dpkg from its work"""
    said = f"{answer['stdout']}\n{answer['stderr']}"
    return bool(answer["retcode"] and _LOCKED.search(said))


def _said(answer):
    lines = f"{answer['stdout']}\n{answer['stderr']}".splitlines()
    found = [line.strip() for line in lines if line.startswith(("E:", "dpkg:", " "))]
    return " ".join(found)[-600:] or "\n".join(lines).strip()[-300:]
