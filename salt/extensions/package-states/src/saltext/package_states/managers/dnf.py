"""dnf 4: all that is asked of it is one transaction of its shell.

Its plugin versionlock hides versions from the solver, by the list that its configuration names; a
change is made with another list.
"""

import contextlib
import os
import re

import saltext.package_states.model.condition as condition
import saltext.package_states.model.version as versions
from saltext.package_states.errors import PackageStateError
from saltext.package_states.managers.base import Solution
from saltext.package_states.managers.lockfile import DnfLocks
from saltext.package_states.managers.rpm import OFF, Rpm, _bare, settings
from saltext.package_states.model.decision import INSTALL
from saltext.package_states.model.item import ABSENT

CONF = "/etc/dnf/plugins/versionlock.conf"
LOCKS = "/etc/dnf/plugins/versionlock.list"
MAIN = "/etc/dnf/dnf.conf"
# another program holds its lock, see exit_on_lock
LOCKED = 200
FORMAT = r"%{name}\t%{epoch}:%{version}-%{release}\t%{arch}\t%{repoid}"
# one of these is in what dnf says if it came to a result
ENDS = ("Transaction Summary", "Nothing to do")
_PROBLEM = re.compile(
    r"^(?: Problem.*|Error: (?!Operation aborted).*|No match for argument.*"
    r"|All matches were filtered.*|  - .*)$",
    re.MULTILINE,
)
# advisory, severity, name-[epoch:]version-release.arch
_ADVISORY = re.compile(r"\S+\s+\S+\s+(\S+)-([^-\s]+-[^-\s]+)\.([^.\s]+)\s*\Z")
_HEAD = re.compile(r"^([A-Z][a-z][\w ]*):$")
_GONE = ("Removing", "Removing dependent packages", "Removing unused dependencies")
_REPLACED = ("Upgrading", "Downgrading")
_IGNORED = re.compile(r"^Ignoring repositories: (.+)$", re.MULTILINE)
_NOT_CHANGED = ("Skipping", "Transaction", "Reinstalling")


class Dnf(Rpm):
    name = versions.DNF
    setting = f"locklist in {CONF}"

    _expired = False

    def refresh(self):
        """Let the next question read the lists anew: a command for that takes as long as the question"""
        self.refreshed()
        self._expired = True

    def file(self):
        return DnfLocks(settings(CONF, "locklist", LOCKS))

    def _listed(self):
        answer = self._dnf("-q", "versionlock", "list")
        said = f"{answer['stdout']}\n{answer['stderr']}"
        if "No such command" in said:
            switch = next(
                (
                    f"{path} says {name} = {settings(path, name, '')}; correct that"
                    for path, name in ((CONF, "enabled"), (MAIN, "plugins"))
                    if settings(path, name, "1").lower() in OFF
                ),
                "install the package python3-dnf-plugin-versionlock",
            )
            raise PackageStateError(
                f"No lock is in force, as dnf has no versionlock: {switch}."
            )
        if answer["retcode"]:
            raise self._unlisted(answer["stderr"].strip()[-300:])
        return set(map(str.strip, said.splitlines()))

    def _dnf(self, *words, act=False):
        """Return the whole answer of dnf, which waits up to a minute for another one"""
        command = ("dnf", "--setopt=exit_on_lock=1", *words)
        return self.wait(
            command,
            lambda one: one["retcode"] == LOCKED,
            do=self.act if act else self.ask,
        )

    def _offers(self, names):
        anew = ("--refresh",) if self._expired else ()
        # with -q, it does not say what it could not read
        answer = self._dnf(*anew, "repoquery", "--qf", FORMAT, "--", *names)
        if answer["retcode"]:
            raise PackageStateError(
                f"dnf can't be asked what there is: {answer['stderr'].strip()[-300:]}; mend"
                " that on the minion, then try again."
            )
        self._expired = False
        said = f"{answer['stdout']}\n{answer['stderr']}"
        for missed in _IGNORED.findall(said):
            self._missed(missed.replace(",", " ").split())
        for line in answer["stdout"].splitlines():
            fields = line.split("\t")
            if len(fields) == 4:
                name, version, arch, repository = fields
                yield self._name(name, arch), _bare(version), repository

    def security(self):
        """Return what advisories tell, whatever is locked or excluded"""
        answer = self._dnf(
            "-q", "--disableplugin=versionlock", "--disableexcludes=all",
            "updateinfo", "list", "--security",
        )  # fmt: skip
        if answer["retcode"]:
            raise PackageStateError(
                f"dnf can't list advisories: {answer['stderr'].strip()[-300:]}; mend that on"
                " the minion."
            )
        found = {}
        for line in answer["stdout"].splitlines():
            match = _ADVISORY.match(line)
            if match:
                name, version, arch = match.groups()
                there = found.setdefault(self._name(name, arch), [])
                there.append(_bare(version))
        return self._newer(found)

    def _idents(self, item, decision):
        alias = self.alias(item.key)
        if item.wanted not in ABSENT:
            epoch, colon, rest = decision.version.rpartition(":")
            # as versionlock writes it
            return [f"{item.name}-{epoch if colon else '0'}:{rest}.*"]
        if not item.condition:
            return [f"!{alias}"]
        found = self.offered(item)
        if len(item.condition) == 1 and item.condition[0][0] == "=":
            version = item.condition[0][1]
            if not found and not condition.is_glob(version):
                found.append(version)
        return [f"!{item.name}-{version}" for version in found]

    @contextlib.contextmanager
    def _shell(self, steps, items):
        lines = []
        for step in steps:
            name = step.key.partition(":")[0]
            # an architecture that is not the system's own
            end = self.alias(step.key)[len(name) :]
            if step.action == INSTALL:
                lines.append(f"install {name}-{step.version}{end}")
            elif step.versions:
                lines.extend(
                    f"remove {name}-{version}{end}" for version in step.versions
                )
            else:
                lines.append(f"remove {name}{end}")
        idents = self._during(steps, items)
        script = "\n".join([*lines, "run", ""])
        with self.file().instead(
            CONF, self._locks()["others"], idents, script
        ) as folder:
            yield (
                f"--setopt=pluginconfpath={folder}",
                "--setopt=strict=1",
                "shell",
                os.path.join(folder, "script"),
            )

    def solve(self, steps, items):
        with self._shell(steps, items) as words:
            answer = self._dnf("--assumeno", *words)
        said = f"{answer['stdout']}\n{answer['stderr']}"
        problem = _problem(said)
        if not problem and not any(end in said for end in ENDS):
            problem = (answer["stderr"] or answer["stdout"]).strip()[-300:]
            problem = (
                f"dnf does not say what it would do: {problem}; mend that on the minion, see"
                " 'dnf makecache', then apply the state again."
            )
        if problem:
            return Solution(problem=problem)
        own = {step.key for step in steps}
        removed, changed, replaced = set(), set(), set()
        for head, name, arch in _table(answer["stdout"]):
            key = self._name(name, arch)
            if head in _GONE:
                removed.add(key)
            elif not head.startswith(_NOT_CHANGED) and key not in own:
                changed.add(key)
            if head in _REPLACED:
                replaced.add(key)
        # an upgrade is no removal
        return Solution(
            tuple(sorted(removed)), tuple(sorted(changed)), "", tuple(sorted(replaced))
        )

    def commit(self, steps, items):
        with self._shell(steps, items) as words:
            answer = self._dnf("--assumeyes", *words, act=True)
        said = f"{answer['stdout']}\n{answer['stderr']}"
        return _problem(said) or answer["stderr"].strip()[-600:]


def _problem(said):
    found = dict.fromkeys(line.strip() for line in _PROBLEM.findall(said))
    return " ".join(found)[:600]


def _table(out):
    """Yield head, name and architecture of the rows of a table, where a long name is a line of its own"""
    head, name = "", ""
    for line in out.splitlines():
        match = _HEAD.match(line)
        if match or line.startswith("Transaction Summary"):
            head, name = (match.group(1), "") if match else ("", "")
        elif head and line.startswith(" "):
            words = line.split()
            if name:
                yield head, name, words[0]
                name = ""
            elif len(words) == 1:
                name = words[0]
            elif len(words) > 3 and not line.startswith("   "):
                yield head, words[0], words[1]
