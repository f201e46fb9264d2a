"""
apt: pins in one preferences file, and holds.

What is away is pinned at -1, so that neither people nor dependencies bring it
back; what is installed is pinned at 1001 to its version. Where conditions are no
plain version, the versions that the repositories have are looked up here, as apt
knows nothing but wildcards.
"""

import contextlib
import os
import re
import tempfile

import saltext.package_states.condition as condition
import saltext.package_states.pkgset
import saltext.package_states.version as versions
from saltext.package_states.decision import IMPOSSIBLE, INSTALL, Facts
from saltext.package_states.item import ABSENT, INSTALLED, KEPT
from saltext.package_states.managers.base import Manager

import salt.utils.atomicfile
import salt.utils.files

PREFERENCES = "/etc/apt/preferences.d/00salt-package-states"
STATUS = "/var/lib/dpkg/status"
LISTS = "/var/lib/apt/lists"
CACHE = "/var/cache/apt/pkgcache.bin"
FIELDS = "${Package}\t${Architecture}\t${db:Status-Abbrev}\t${Version}\t${Essential}\t${Protected}\n"
HELD = "held by Salt"
_STANZA = re.compile(r"Package: (\S+)\nPin: version (\S+)\nPin-Priority: (-?\d+)\n")
_VERSION = re.compile(r"^ (?:\*\*\*|   ) (\S+) ")
_REMOVED = re.compile(r"^(?:Remv|Purg) (\S+) ", re.MULTILINE)


@contextlib.contextmanager
def _without_pins():
    """
    Yield options that let apt read all preferences except those of Salt
    """
    if not os.path.exists(PREFERENCES):
        yield ()
        return
    folder = os.path.dirname(PREFERENCES)
    with tempfile.TemporaryDirectory(prefix="salt-package-states-") as others:
        # apt reads them as a user of its own
        os.chmod(others, 0o755)
        for name in os.listdir(folder):
            if name != os.path.basename(PREFERENCES):
                os.symlink(os.path.join(folder, name), os.path.join(others, name))
        yield ("-o", f"Dir::Etc::PreferencesParts={others}/")


class Apt(Manager):
    """
    apt and dpkg
    """

    name = versions.APT

    def _stamp(self):
        """
        Return what changes whenever dpkg or apt know something new
        """
        stamp = []
        for path in (STATUS, LISTS, PREFERENCES):
            try:
                stat = os.stat(path)
                stamp.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
            except OSError:
                stamp.append(None)
        return tuple(stamp)

    def _known(self):
        """
        Return what was found since the last change, a dictionary
        """
        stamp = self._stamp()
        known = self.context.get("package_state.apt")
        if known is None or known["stamp"] != stamp:
            known = {
                "stamp": stamp,
                "dpkg": self._dpkg(),
                "policy": {},
                "record": self._read(),
            }
            self.context["package_state.apt"] = known
        return known

    def _native(self):
        if "package_state.native" not in self.context:
            self.context["package_state.native"] = self.run(
                "dpkg", "--print-architecture"
            ).strip()
        return self.context["package_state.native"]

    def _dpkg(self):
        """
        Return the status of each package that dpkg knows
        """
        native, found = self._native(), {}
        for line in self.run("dpkg-query", "-W", "-f", FIELDS).splitlines():
            name, arch, status, version, essential, protected = line.split("\t")
            key = name if arch in (native, "all") else f"{name}:{arch}"
            found[key] = {
                "wanted": status[0],
                "status": status[1],
                "version": version,
                "essential": "yes" in (essential, protected),
            }
        return found

    def fetch(self, keys):
        """
        Ask apt for some packages at once
        """
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
        """
        Return whether apt takes other versions for installed than dpkg does

        apt reads dpkg's status from its own cache as long as size and second of the
        file are those of before, so it misses the second of two changes in a second.
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
        """
        Return the candidate and the available versions of packages, and what apt
        takes for installed

        The candidate is that without the pins of Salt: else a lock that is to be
        released would decide what is installed next.
        """
        found = {key: ("", ()) for key in keys}
        installed = dict.fromkeys(keys, "")
        key, candidate, version, available = None, "", None, []
        native = ":" + self._native()
        with _without_pins() as options:
            out = self.run("apt-cache", *options, "policy", *keys)
        for line in out.splitlines():
            match = _VERSION.match(line)
            if not line.startswith(" ") and line.endswith(":"):
                key, candidate, available = line[:-1], "", []
                if key.endswith(native):
                    key = key[: -len(native)]
            elif line.startswith("  Installed: ") and key in found:
                there = line[len("  Installed: ") :]
                installed[key] = "" if there == "(none)" else there
            elif line.startswith("  Candidate: "):
                candidate = line[len("  Candidate: ") :]
                candidate = "" if candidate == "(none)" else candidate
            elif match:
                version = match.group(1)
            elif line.startswith("        ") and not line.endswith(STATUS):
                available.append(version)
            if key in found:
                found[key] = (candidate, tuple(dict.fromkeys(available)))
        return found, installed

    def facts(self, key):
        """
        Return what is known of a package
        """
        self.fetch([key])
        known = self._known()
        there = known["dpkg"].get(key, {})
        candidate, available = known["policy"].get(key, ("", ()))
        installed = there.get("status") == "i"
        if candidate not in available:
            candidate = ""
        return Facts(
            self.name,
            (there["version"],) if installed else (),
            available,
            candidate,
            there.get("status") == "c",
            self._record().get(key, ""),
        )

    def held(self, key):
        """
        Return whether somebody else holds a package
        """
        there = self._known()["dpkg"].get(key, {})
        return there.get("wanted") == "h" and key not in self._record()

    def essential(self, key):
        """
        Return whether dpkg calls a package essential or protected
        """
        return self._known()["dpkg"].get(key, {}).get("essential", False)

    def simulate(self, decision, key):
        """
        Return the names of all packages that would be removed, a sorted list
        """
        if decision.action == INSTALL:
            command = ("install", "--allow-downgrades", f"{key}={decision.version}")
        else:
            command = ("remove", key)
        # as root or not, and with another apt at work: nothing is written
        out = self.run(
            "apt-get", "-s", "-y", "--allow-change-held-packages",
            "--allow-remove-essential", "-o", "Debug::NoLocking=true", *command,
        )  # fmt: skip
        native = ":" + self._native()
        gone = (
            name[: -len(native)] if name.endswith(native) else name
            for name in _REMOVED.findall(out)
        )
        return sorted(set(gone))

    def _text(self):
        try:
            with salt.utils.files.fopen(PREFERENCES) as handle:
                return handle.read()
        except FileNotFoundError:
            return ""

    def _record(self):
        """
        Return the versions at which Salt holds packages
        """
        return self._known()["record"]

    def _read(self):
        return {
            match.group(1): match.group(2)
            for stanza in self._text().split("\n\n")
            if HELD in stanza
            for match in _STANZA.finditer(stanza + "\n")
        }

    def _pins(self, item):
        """
        Return the pins of an item, pairs of version and priority
        """
        if item.wanted in ABSENT:
            if not item.condition:
                return [("*", -1)]
            facts = self.facts(item.key)
            found = [
                v
                for v in facts.available
                if condition.meets(self.name, v, item.condition)
            ]
            if len(item.condition) == 1 and item.condition[0][0] == "=":
                found.append(item.condition[0][1])
            return [(version, -1) for version in versions.sort(self.name, found)]
        if item.wanted in (INSTALLED, KEPT):
            decision = self.decide(item)
            if decision.version and decision.action != IMPOSSIBLE:
                return [(decision.version, 1001)]
        return []

    def _wanted(self, items):
        """
        Return the text of the preferences file, and the packages that Salt holds

        What somebody else holds already is pinned only: the hold does as well, and
        stays theirs.
        """
        stanzas, holds = [], []
        for item in items:
            pins = self._pins(item)
            mark = item.wanted
            if item.wanted == KEPT and pins and not self.held(item.key):
                mark = f"{KEPT}, {HELD}"
                holds.append(item.key)
            stanzas.extend(
                f"Explanation: package state, {mark}\nPackage: {item.key}\n"
                f"Pin: version {version}\nPin-Priority: {priority}\n"
                for version, priority in pins
            )
        return "\n".join(stanzas), holds

    def locks(self, items, test=False):
        """
        Write the preferences file, hold what is kept, release what is not any more
        """
        self.fetch([item.key for item in items])
        old, record = self._text(), self._record()
        dpkg = self._known()["dpkg"]
        text, holds = self._wanted(items)
        held = {key for key, there in dpkg.items() if there["wanted"] == "h"}
        there = {key for key, found in dpkg.items() if found["status"] == "i"}
        release = [key for key in record if key not in holds and key in held]
        hold = [key for key in holds if key not in held and key in there]
        before, after = _locked(old), _locked(text)
        changes = {
            key: {"old": before.get(key, ""), "new": after.get(key, "")}
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
        }
        for key in hold:
            changes.setdefault(key, {"old": "", "new": "hold"})
        if test or not (changes or text != old):
            return changes
        if release:
            self._mark("unhold", release)
        self._write(text)
        if hold:
            self._mark("hold", hold)
        return changes

    def _mark(self, what, keys):
        """
        Hold or unhold packages, and tell the beacon ``pkgset`` that it was Salt
        """
        with saltext.package_states.pkgset.own_change(self.opts, STATUS):
            self.run("apt-mark", what, *keys)

    def _write(self, text):
        if not text:
            if os.path.exists(PREFERENCES):
                os.unlink(PREFERENCES)
            return
        # apt reads no file of this directory with such an ending
        beside = PREFERENCES + ".new"
        with salt.utils.files.fopen(beside, "w") as handle:
            handle.write(text)
        os.chmod(beside, 0o644)
        salt.utils.atomicfile.atomic_rename(beside, PREFERENCES)

    def inventory(self):
        """
        Return all packages, see :mod:`saltext.package_states.refresh`
        """
        dpkg = self._known()["dpkg"]
        locked = {match.group(1) for match in _STANZA.finditer(self._text())}
        record = self._record()
        keys = sorted(
            {*(key for key, value in dpkg.items() if value["status"] in "ic"), *locked}
        )
        self.fetch(keys)
        policy, found = self._known()["policy"], {}
        for key in keys:
            there = dpkg.get(key, {})
            candidate, available = policy.get(key, ("", ()))
            installed = there.get("status") == "i"
            found[key] = {
                "versions": [there["version"]] if installed else [],
                "available": list(available),
                "candidate": candidate if candidate in available else "",
                "held": there.get("wanted") == "h",
                "orphan": installed and not available,
                "configured": there.get("status") == "c",
                "kept": record.get(key, ""),
            }
        return found


def _locked(text):
    """
    Return the pins of a preferences file as text, by package
    """
    found = {}
    for key, version, priority in _STANZA.findall(text):
        what = f"not {version}" if int(priority) < 0 else f"only {version}"
        found[key] = f"{found[key]}, {what}" if key in found else what
    return found
