"""
The files in which zypper and dnf keep locks, which are others' as well.

All locks of Salt's change in one step, as the file is replaced. What others have put
into it stays as it is, word for word.
"""

import contextlib
import os
import re
import tempfile
from typing import NamedTuple

import saltext.package_states.managers.journal as journal

import salt.utils.files

_ENTRY = re.compile(r"^\s*(\w+)\s*[:=]\s*(.*?)\s*$", re.MULTILINE)
# name-[epoch:]version-release.arch, as dnf writes it
_NEVRA = re.compile(r"(.+)-(?:\d+:)?[^-]+-[^-]+\Z")


class Lock(NamedTuple):
    """One lock of a file"""

    id: str  # what tells it from others, the same whoever writes it
    name: str  # the name of the package
    text: str  # its text in the file


class LockFile:
    """
    A file of locks

    path
        Its path.
    """

    def __init__(self, path):
        self.path = path

    def parse(self, text):
        """Return the locks of a text, a list of :class:`Lock`"""
        raise NotImplementedError

    def lock(self, ident):
        """Return the :class:`Lock` with an id"""
        raise NotImplementedError

    def _join(self, locks):
        """Return the text of locks"""
        raise NotImplementedError

    def read(self):
        """Return the locks of the file, a list of :class:`Lock`"""
        try:
            with salt.utils.files.fopen(self.path) as handle:
                return self.parse(handle.read())
        except FileNotFoundError:
            return []

    def text(self, others, idents):
        """Return the text of a file of some locks"""
        known = {lock.id for lock in others}
        own = [self.lock(one) for one in sorted(set(idents)) if one not in known]
        return self._join([*others, *own])

    def write(self, others, idents):
        """Replace the file, see :meth:`text`"""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        journal.put(self.path, self.text(others, idents))


class ZyppLocks(LockFile):
    """The locks of zypper; the id is ``name`` or such as ``name<=1.10``"""

    def parse(self, text):
        """Return the locks of a text, see :meth:`LockFile.parse`"""
        found = []
        for block in re.split(r"\n[ \t]*\n", text):
            fields = dict(_ENTRY.findall(block))
            name = fields.get("solvable_name", "")
            if not block.strip():
                continue
            plain = fields.keys() <= {
                "type",
                "version",
                "match_type",
                "case_sensitive",
                "solvable_name",
            }
            version = fields.get("version", "").replace(" ", "").replace("==", "=")
            ident = f"{name}{version}" if plain and name else block.strip()
            found.append(Lock(ident, name, block.strip("\n")))
        return found

    def lock(self, ident):
        """Return a lock, see :meth:`LockFile.lock`"""
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
        """Yield the environment in which zypper has other locks"""
        with tempfile.TemporaryDirectory(prefix="salt-package-states-") as folder:
            locks = os.path.join(folder, "locks")
            text = ""
            with contextlib.suppress(FileNotFoundError), salt.utils.files.fopen(
                conf
            ) as handle:
                text = handle.read()
            text = re.sub(r"(?m)^\s*locksfile\.path\s*=.*$", "", text)
            if not re.search(r"(?m)^\s*\[main\]", text):
                text = "[main]\n" + text
            text = re.sub(
                r"(?m)^\s*\[main\].*$",
                lambda head: f"{head.group(0)}\nlocksfile.path = {locks}",
                text,
                count=1,
            )
            other = os.path.join(folder, "zypp.conf")
            for place, content in (
                (locks, self.text(others, idents)),
                (other, text),
            ):
                with salt.utils.files.fopen(place, "w") as handle:
                    handle.write(content)
            yield {"ZYPP_CONF": other}


class DnfLocks(LockFile):
    """The list of dnf's versionlock; the id is its line"""

    def parse(self, text):
        """Return the locks of a text, see :meth:`LockFile.parse`"""
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
        """Return a lock, see :meth:`LockFile.lock`"""
        return Lock(ident, ident.lstrip("!"), ident)

    def _join(self, locks):
        return "".join(f"{lock.text}\n" for lock in locks)

    @contextlib.contextmanager
    def instead(self, conf, others, idents):
        """Yield options with which dnf has other locks"""
        folder = os.path.dirname(conf)
        with tempfile.TemporaryDirectory(prefix="salt-package-states-") as mine:
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                if name != os.path.basename(conf):
                    os.symlink(os.path.join(folder, name), os.path.join(mine, name))
            locks = os.path.join(mine, "versionlock.list")
            if os.path.lexists(locks):
                os.unlink(locks)
            for place, content in (
                (locks, self.text(others, idents)),
                (
                    os.path.join(mine, os.path.basename(conf)),
                    f"[main]\nenabled = 1\nlocklist = {locks}\n",
                ),
            ):
                with salt.utils.files.fopen(place, "w") as handle:
                    handle.write(content)
            yield (f"--setopt=pluginconfpath={mine}",)
