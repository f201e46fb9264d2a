"""git, kept apart from the user's configuration.

Commit ids must be the same on every machine, and no hook, template, signing key or ignore file of the user may
take part: the environment is rebuilt, and the repository's own configuration is written by us.

Stored patches carry one neutral author. A mail to upstream is by a person, who signs it off with a real address.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from patches.errors import ToolError, UsageError
from patches.layout import EXTENSIONS, Layout, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# `git am --empty=keep`
OLDEST = (2, 35)
# the author of every stored patch, whoever saves it on whatever machine: the address is reserved, so it is nobody's
NAME = "Saltbed contributors"
EMAIL = "contributors@saltbed.invalid"
DATE = "2026-01-01T00:00:00+00:00"
# a date and a name that are the same everywhere make the same commit ids everywhere
IDENTITY = {
    "GIT_AUTHOR_NAME": NAME,
    "GIT_AUTHOR_EMAIL": EMAIL,
    "GIT_AUTHOR_DATE": DATE,
    "GIT_COMMITTER_NAME": NAME,
    "GIT_COMMITTER_EMAIL": EMAIL,
    "GIT_COMMITTER_DATE": DATE,
}
ALONE = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
    "TZ": "UTC",
}


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment without any GIT_* of theirs, and with ours."""
    return {**_without_git(), **ALONE, **IDENTITY, **extra}


def _without_git() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


@cache
def require_git() -> None:
    """Check that git is there and new enough.

    Raises:
        ToolError: when it is not.
    """
    try:
        run = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise ToolError("git is missing: install it, for example with 'apt-get install git'.") from None
    found = re.search(r"(\d+)\.(\d+)", run.stdout)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ToolError(f"git {wanted} or newer is needed, this is '{run.stdout.strip()}': install a newer one.")


@dataclass(frozen=True)
class Result:
    """How a git command ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Output as text without the last line's end; names that are not UTF-8 survive the round trip."""
        return decode(self.out).rstrip("\n")


def decode(data: bytes) -> str:
    """Decode what git prints; the counterpart of :func:`encode`."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Encode what git reads."""
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Git:
    """A git directory, a work tree, and optionally an index of its own."""

    git_dir: Path
    work_tree: Path
    index: Path | None = None

    @classmethod
    def of(cls, folder: Path) -> Git:
        """Return git over a work tree that `git worktree add` made."""
        link = (folder / ".git").read_text(encoding="utf-8")
        return cls(Path(link.removeprefix("gitdir: ").strip()), folder)

    def attempt(self, *args: str, feed: bytes = b"", env: Mapping[str, str] | None = None) -> Result:
        """Run git in the work tree and tell how it ended."""
        cwd = self.work_tree if self.work_tree.is_dir() else None
        require_git()
        index = {"GIT_INDEX_FILE": str(self.index)} if self.index is not None else {}
        command = ["git", f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}", *args]
        environ = environment({**(env or {}), **index})
        # git holds the lock of ours as well, see `locked`; nothing else is inheritable
        run = subprocess.run(
            command, input=feed, capture_output=True, env=environ, cwd=cwd, check=False, close_fds=False
        )
        return Result(run.returncode, run.stdout, decode(run.stderr).strip())

    def run(self, *args: str, feed: bytes = b"", env: Mapping[str, str] | None = None) -> Result:
        """Run git in the work tree.

        Raises:
            ToolError: when it fails; what git said is the message.
        """
        result = self.attempt(*args, feed=feed, env=env)
        if result.code != 0:
            said = result.err or result.text or "no message"
            raise ToolError(f"git {args[0]} failed with exit code {result.code} in {self.work_tree}: {said}")
        return result

    def text(self, *args: str, feed: bytes = b"") -> str:
        """Run git and give its output without the last line's end."""
        return self.run(*args, feed=feed).text

    def paths(self, *args: str) -> tuple[str, ...]:
        """Run a git command that lists paths with ``-z``."""
        return tuple(decode(name) for name in self.run(*args).out.split(b"\0") if name)


def list_paths(paths: Iterable[str]) -> bytes:
    """Write paths the way that git's ``-z --stdin`` reads them."""
    return b"".join(encode(path) + b"\0" for path in paths)


def tracked_files(layout: Layout) -> tuple[str, ...] | None:
    """Return the files below ``salt/`` that the project's git tracks; None when this is not its checkout."""
    return _paths(layout, "ls-files", "-z")


def changed_files(layout: Layout) -> tuple[str, ...]:
    """Return the tracked files below ``salt/`` that are not as last committed, as far as the project's git can say."""
    return _paths(layout, "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", "HEAD") or ()


def uncommitted(layout: Layout, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of some paths, relative to the project, that are not as last committed, or not committed at all.

    Empty when this is not a checkout: there is nothing to compare with.
    """
    listed = _git(layout, "status", "--porcelain=v1", "--untracked-files=all", "--no-renames", "-z", "--", *paths)
    return tuple(decode(line[3:]) for line in (listed or b"").split(b"\0") if line)


def _paths(layout: Layout, *command: str) -> tuple[str, ...] | None:
    """Run a git command that lists paths; None when this is not a checkout, or has no commit yet."""
    listed = _git(layout, *command, "--", "salt")
    if listed is None:
        return None
    names = (decode(name).removeprefix("salt/") for name in listed.split(b"\0") if name)
    return tuple(name for name in names if not name.startswith(f"{EXTENSIONS}/"))


def _git(layout: Layout, *command: str, feed: bytes = b"") -> bytes | None:
    """Run the project's own git; None when this is not its checkout, or when it fails."""
    outer = ["git", "-C", str(layout.root)]
    # the user's configuration, but no GIT_* of a calling git
    env = _without_git()
    top = subprocess.run([*outer, "rev-parse", "--show-cdup"], capture_output=True, check=False, env=env)
    if top.returncode != 0 or top.stdout.strip():
        return None
    ended = subprocess.run([*outer, *command], input=feed, capture_output=True, check=False, env=env)
    return ended.stdout if ended.returncode == 0 else None


IDENT = re.compile(r"^(?P<name>.*?) ?<(?P<email>[^<>]*)> \d+ [+-]\d{4}$")
# RFC 2606, RFC 6761 and RFC 6762, what is used for networks that end at a router, and git's own "(none)"
NOBODYS: tuple[str, ...] = ("example", "invalid", "test", "localhost", "local", "localdomain", "internal", "lan")
NOBODYS += ("home", "arpa", "corp", "example.com", "example.net", "example.org", "(none)")
# accounts of systems and of build services
MACHINES = ("root", "nobody", "daemon", "runner", "jenkins", "buildbot", "gitlab-runner", "ci")
NO_REPLY = re.compile(r"no[-_.]?reply")
# addresses that GitHub gives to people who hide theirs, and to bots
HIDDEN = "users.noreply.github.com"
ADVICE = """run 'git config --global user.name "NAME"' and 'git config --global user.email ADDRESS' with your own."""


@dataclass(frozen=True)
class Contributor:
    """A person's name and mail address."""

    name: str
    email: str

    def __str__(self) -> str:
        """Write both as a mail's header does."""
        return f"{self.name} <{self.email}>"


def read_contributor(layout: Layout) -> Contributor:
    """Read who commits in this checkout: git's environment variables, the repository's configuration, the user's.

    Raises:
        UsageError: when none is set, or when a machine made it.
    """
    require_git()
    # without this option git makes an address of the account and the host
    command = ["git", "-C", str(layout.root), "-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT"]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    found = IDENT.match(run.stdout.strip())
    if run.returncode != 0 or found is None:
        raise UsageError(f"git knows no name and address to send mails under: {ADVICE}")
    contributor = Contributor(found["name"], found["email"])
    why = objection(contributor, socket.gethostname())
    if why is not None:
        raise UsageError(f"Upstream wants mails from a person, and '{contributor}' {why}: {ADVICE}")
    return contributor


def objection(contributor: Contributor, host: str) -> str | None:
    """Say why a name and an address cannot be a person's; None when they can.

    Args:
        host: the machine's name, as addresses made from it are the commonest wrong ones.
    """
    name = contributor.name.strip().lower()
    local, at, domain = contributor.email.strip().lower().rpartition("@")
    host = host.lower().strip(".")
    outer = domain.removeprefix(f"{host}.")
    reasons = {
        "is the project's neutral author": (contributor.name, contributor.email) == (NAME, EMAIL),
        "has no person's name": not name or name in MACHINES,
        "has no mail address": not (local and at) or re.search(r"\s", contributor.email),
        "is a bot": "[bot]" in f"{name} {local}",
        "has an address without a domain": "." not in domain or re.fullmatch(r"\[.*\]|[0-9.]+", domain),
        "has an address at a domain that is nobody's": f".{domain}".endswith(tuple(f".{end}" for end in NOBODYS)),
        # the host "mail" has nothing to do with mail.ru, but git makes laptop.company.com of the host "laptop"
        "has an address made of this machine's name": host and (domain == host or (outer != domain and "." in outer)),
        "has an address of a system account": local in MACHINES,
        "has an address that takes no replies": NO_REPLY.search(local)
        or (NO_REPLY.search(domain) and domain != HIDDEN),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def keep(layout: Layout, topic: str, data: bytes) -> Path | None:
    """Copy a patch unless the project's git has it, committed, staged or stashed; give the copy's path."""
    blob = _git(layout, "hash-object", "--stdin", feed=data)
    if blob is not None and _git(layout, "cat-file", "-e", decode(blob.strip())) is not None:
        return None
    path = layout.discarded / f"{topic}-{hashlib.sha256(data).hexdigest()[:12]}.patch"
    write_atomically(path, data)
    return path
