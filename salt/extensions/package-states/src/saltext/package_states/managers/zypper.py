"""zypper: one call for all packages, with the locks as they should be afterwards.

It removes a package with what depends on it only if that is named, so dependants are asked for first.
"""

import html
import re

import saltext.package_states.model.condition as condition
import saltext.package_states.model.version as versions
from saltext.package_states.errors import PackageStateError
from saltext.package_states.managers.base import Solution
from saltext.package_states.managers.lockfile import ZyppLocks
from saltext.package_states.managers.rpm import FOREIGN, OFF, Rpm, settings
from saltext.package_states.model.decision import INSTALL
from saltext.package_states.model.item import ABSENT

CONF = "/etc/zypp/zypp.conf"
LOCKS = "/etc/zypp/locks"
# what it calls the repository of what is in none
SYSTEM = ("(System Packages)", "@System")
# seconds that it waits for another zypper
WAIT = "60"
# it found nothing, and it could not read a repository: answers of a search
EMPTY, SKIPPED = 104, 106
_SOLVABLE = re.compile(r"<solvable ([^>]*?)/?>")
# there are updates, there are security updates
UPDATES = (100, 101)
# what a patch calls architectures; a name may end in other words after a dot
ARCHITECTURES = (*FOREIGN, "noarch", "x86_64", "aarch64", "ppc64le", "s390x", "armv7hl")
_PATCH = re.compile(r'<update kind="patch" ([^>]*)>')
_CONFLICTS = re.compile(r"^Conflicts +: +(.*(?:\n    .*)*)", re.MULTILINE)
# what begins with srcpackage: is no package
_OLDER = re.compile(r"(?:^|\s)([^\s:]+) < (\S+)")
_FIELD = re.compile(r'([\w-]+)="([^"]*)"')
_TOLD = re.compile(
    r'<message type="error">(.*?)</message>|<description>(Problem.*?)</description>'
    r'|<message type="info">(Problem:.*?)</message>',
    re.DOTALL,
)
_SKIPPED = re.compile(r"Skipping repository &apos;(.*?)&apos; because")
_LOCK = re.compile(r"<lock [^>]*><name>(.*?)</name>")
_REPLACED = ("to-upgrade", "to-downgrade", "to-change-arch")
_PARTS = ("to-install", "to-upgrade", "to-downgrade", "to-reinstall", "to-change-arch")


class Zypper(Rpm):
    name = versions.ZYPPER
    setting = f"locksfile.path in {CONF}"

    def __init__(self, salt, opts, context):
        super().__init__(salt, opts, context)
        # what has to be removed with a transaction, by its keys
        self._along = {}

    def refresh(self):
        """Let zypper read those lists anew that have changed"""
        self.salt["pkg.refresh_db"](force=False)
        self.refreshed()

    def file(self):
        return ZyppLocks(settings(CONF, "locksfile.path", LOCKS))

    def _offers(self, names):
        words = ["--match-exact", *names] if names else []
        answer = self._zypper("search", "--details", "--type", "package", *words)
        if answer["retcode"] not in (0, EMPTY, SKIPPED):
            raise PackageStateError(
                f"zypper can't be asked what there is: {_said(answer)}; apply the state again"
                " when that is over."
            )
        self._missed(map(html.unescape, _SKIPPED.findall(answer["stdout"])))
        for fields in _solvables(answer["stdout"]):
            repository = fields.get("repository", "")
            if repository not in SYSTEM and "edition" in fields:
                key = self._name(fields["name"], fields.get("arch", ""))
                yield key, fields["edition"], repository

    def security(self):
        """Return what patches tell: they conflict with the versions before, and no lock hides them"""
        answer = self._zypper("list-patches", "--category", "security")
        needed = [
            fields["name"]
            for fields in map(_fields, _PATCH.findall(answer["stdout"]))
            # zypper names others as well
            if fields.get("category") == "security" and fields.get("status") == "needed"
        ]
        if answer["retcode"] not in (0, *UPDATES):
            raise PackageStateError(
                f"zypper can't list patches: {_problem(answer)}; mend that on the minion."
            )
        found = {}
        for start in range(0, len(needed), 200):
            some = dict.fromkeys(needed[start : start + 200])
            told = self._zypper("info", "--type", "patch", "--", *some)["stdout"]
            conflicts = "\n".join(_CONFLICTS.findall(html.unescape(told)))
            for name, version in _OLDER.findall(conflicts):
                name, dot, arch = name.rpartition(".")
                if arch not in ARCHITECTURES:
                    name, arch = f"{name}{dot}{arch}", ""
                found.setdefault(self._name(name, arch), []).append(version)
        return self._newer(found)

    def _listed(self):
        applied = settings(CONF, "locksfile.apply", "yes")
        if applied.lower() in OFF:
            raise PackageStateError(
                f"No lock is in force, as {CONF} says locksfile.apply = {applied}; correct that."
            )
        answer = self._zypper("locks")
        if answer["retcode"]:
            raise self._unlisted(_said(answer))
        there = set(map(html.unescape, _LOCK.findall(answer["stdout"])))
        # it names the packages only
        return {one.id for one in self.file().read() if one.name in there}

    def _zypper(self, *command, env=None, act=False):
        words = ("zypper", "--non-interactive", "--xmlout", "--no-refresh", *command)
        env = {"ZYPP_LOCK_TIMEOUT": WAIT, **(env or {})}
        do = self.act if act else self.ask
        answer = do(*words, env=env)
        if "Failed to cache rpm database" in answer["stdout"]:
            # it read the database while that was written
            answer = do(*words, env=env)
        return answer

    def _idents(self, item, decision):
        name = item.name
        if item.wanted not in ABSENT or not item.condition:
            return [name]
        if len(item.condition) == 1:
            ((operator, version),) = item.condition
            if operator != "!=" and not condition.is_glob(version):
                return [f"{name}{operator}{version}"]
        return [f"{name}={version}" for version in self.offered(item)]

    def _words(self, steps, more=()):
        words = []
        for step in steps:
            alias = self.alias(step.key)
            if step.action == INSTALL:
                words.append(f"{alias}={step.version}")
            elif step.versions:
                words.extend(f"!{alias}={version}" for version in step.versions)
            else:
                words.append(f"!{alias}")
        named = {step.key for step in steps}
        return words + [f"!{self.alias(key)}" for key in more if key not in named]

    def _install(self, steps, items, dry, more=()):
        idents = self._during(steps, items)
        with self.file().instead(CONF, self._locks()["others"], idents) as env:
            options = ["--dry-run"] if dry else []
            return self._zypper(
                "install", "--name", "--oldpackage", "--auto-agree-with-licenses",
                *options, "--", *self._words(steps, more), env=env, act=not dry,
            )  # fmt: skip

    def _dependants(self, steps, items):
        """Return what goes along with removals if nothing else is done, keys"""
        gone = [step for step in steps if step.action != INSTALL]
        if not gone:
            return []
        words = [word.lstrip("!") for word in self._words(gone)]
        idents = self._during(steps, items)
        with self.file().instead(CONF, self._locks()["others"], idents) as env:
            answer = self._zypper("remove", "--name", "--dry-run", *words, env=env)
        coming = {step.key for step in steps if step.action == INSTALL}
        return [key for key in self._parts(answer, "to-remove") if key not in coming]

    def _parts(self, answer, *names):
        found = set()
        for name in names:
            for part in re.findall(
                f"<{name}>.*?</{name}>", answer["stdout"], re.DOTALL
            ):
                for fields in _solvables(part):
                    if fields.get("type") == "package":
                        found.add(self._name(fields["name"], fields.get("arch", "")))
        return sorted(found)

    def _solved(self, steps, items):
        """Return the answer to a dry run, and what has to be removed as well"""
        answer = self._install(steps, items, True)
        if not _problem(answer):
            return answer, ()
        more = self._dependants(steps, items)
        if set(more) <= {step.key for step in steps}:
            return answer, ()
        again = self._install(steps, items, True, more)
        return (answer, ()) if _problem(again) else (again, tuple(more))

    def solve(self, steps, items):
        answer, more = self._solved(steps, items)
        self._along[frozenset(step.key for step in steps)] = more
        problem = _problem(answer)
        if problem:
            return Solution(problem=problem)
        own = {step.key for step in steps}
        changed = [key for key in self._parts(answer, *_PARTS) if key not in own]
        return Solution(
            tuple(self._parts(answer, "to-remove")),
            tuple(changed),
            "",
            tuple(self._parts(answer, *_REPLACED)),
        )

    def commit(self, steps, items):
        key = frozenset(step.key for step in steps)
        if key not in self._along:
            self._along[key] = self._solved(steps, items)[1]
        more = self._along[key]
        return _problem(self._install(steps, items, False, more))


def _solvables(text):
    for match in _SOLVABLE.finditer(text):
        yield _fields(match.group(1))


def _fields(text):
    return {name: html.unescape(value) for name, value in _FIELD.findall(text)}


def _problem(answer):
    if answer["retcode"] in (0, 100, 101, 102, 103, SKIPPED):
        if not any(one[1] for one in _TOLD.findall(answer["stdout"])):
            return ""
    return _said(answer)


def _said(answer):
    told = ["".join(one).strip() for one in _TOLD.findall(answer["stdout"])]
    # the first is only how many problems there are, or the same without the ways out
    texts = list(
        dict.fromkeys(
            html.unescape(one) for one in told if "\n" in one or len(told) == 1
        )
    )
    texts = texts or list(dict.fromkeys(html.unescape(one) for one in told))
    said = " ".join(" ".join(texts).split()) or answer["stderr"].strip()
    return said[:600] or f"zypper ended with {answer['retcode']}"
