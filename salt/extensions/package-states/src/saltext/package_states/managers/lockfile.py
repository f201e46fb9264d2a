"""The files in which zypper and dnf keep locks, which are others' as well.

All locks of Salt's change in one step, as the file is replaced. What others have put
into it stays as it is, word for word.
"""

import contextlib
import os
import re
from typing import NamedTuple

import saltext.package_states.minion.replace as replace

import salt.utils.files

_PLAIN = set("type version match_type case_sensitive solvable_name".split())
_ENTRY = re.compile(r"^\s*(\w+)\s*[:=]\s*(.*?)\s*$", re.MULTILINE)
# name-[epoch:]version-release.arch, as dnf writes it
_NEVRA = re.compile(r"(.+)-(?:\d+:)?[^-]+-[^-]+\Z")


class Lock(NamedTuple):
    id: str  # what tells it from others, the same whoever writes it
    name: str  # the name of the package
    text: str  # its text in the file


class LockFile:
    """A file of locks

    A subclass has ``parse(text)``, a list of :class:`Lock`; ``lock(ident)``, one; and
    ``_join(locks)``, their text.
    """

    # pylint: disable=no-member

    def __init__(self, path):
        self.path = path

    def read(self):
        """Return the locks of the file, a list of :class:`Lock`"""
        try:
            with salt.utils.files.fopen(self.path) as handle:
                return self.parse(handle.read())
        except FileNotFoundError:
            return []

    def text(self, others, idents):
        known = {lock.id for lock in others}
        own = [self.lock(one) for one in sorted(set(idents)) if one not in known]
        return self._join([*others, *own])

    def write(self, others, idents):
        replace.put(self.path, self.text(others, idents))


class ZyppLocks(LockFile):
    """The locks of zypper; the id is ``name`` or such as ``name<=1.10``"""

    def parse(self, text):
        found = []
        for block in re.split(r"\n[ \t]*\n", text):
            fields = dict(_ENTRY.findall(block))
            if not block.strip():
                continue
            # a pattern or a patch may have the name of a package
            package = fields.get("type", "package") == "package"
            name = fields.get("solvable_name", "") if package else ""
            plain = fields.keys() <= _PLAIN
            version = fields.get("version", "").replace(" ", "").replace("==", "=")
            ident = f"{name}{version}" if plain and name else block.strip()
            found.append(Lock(ident, name, block.strip("\n")))
        return found

    def lock(self, ident):
        name, operator, version = re.match(r"([^<>=]+)([<>=]*)(.*)", ident).groups()
        lines = ["type: package"]
        if version:
            lines.append(
                f"version: {operator.replace('=', '==') if operator == '=' else operator} {version}"
            )
        lines += ["match_type: glob", "case_sensitive: on", f"solvable_name: {name}"]
        return Lock(ident, name, "\n".join(lines))

    def _join(self, locks):
        return "".join(f"\n{lock.text}\n\n" for lock in locks)

    @contextlib.contextmanager
    def instead(self, conf, others, idents):
        """Yield the environment in which zypper has other locks than its configuration says"""
        text = ""
        with contextlib.suppress(FileNotFoundError), salt.utils.files.fopen(
            conf
        ) as handle:
            text = handle.read()
        text = re.sub(r"(?m)^\s*locksfile\.path\s*=.*$", "", text)
        if not re.search(r"(?m)^\s*\[main\]", text):
            text = "[main]\n" + text
        main = r"(?m)^(\s*\[main\].*)$"
        text = re.sub(
            main, f"\\1\nlocksfile.path = {replace.HERE}/locks", text, count=1
        )
        files = {"locks": self.text(others, idents), "zypp.conf": text}
        with replace.beside(files) as folder:
            yield {"ZYPP_CONF": os.path.join(folder, "zypp.conf")}


class DnfLocks(LockFile):
    """The list of dnf's versionlock; the id is its line"""

    def parse(self, text):
        found, comments = [], []
        for line in text.splitlines():
            words = line.strip()
            if not words or words.startswith("#"):
                comments.append(line)
                continue
            bare = words.lstrip("!")
            match = _NEVRA.match(bare)
            name = match.group(1) if match else bare
            found.append(Lock(words, name, "\n".join([*comments, words])))
            comments = []
        return found

    def lock(self, ident):
        return Lock(ident, ident.lstrip("!"), ident)

    def _join(self, locks):
        return "".join(f"{lock.text}\n" for lock in locks)

    def instead(self, conf, others, idents, script):
        """Return a context with a folder: plugins' configurations with other locks, and ``script``"""
        folder, name = os.path.split(conf)
        files = {
            "versionlock.list": self.text(others, idents),
            name: f"[main]\nenabled = 1\nlocklist = {replace.HERE}/versionlock.list\n",
            "script": script,
        }
        return replace.beside(files, folder)
