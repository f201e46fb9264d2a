"""git, kept apart from the user's configuration.

Commit ids must be the same on every machine, and no hook, template, signing key or ignore file of the user may
take part: the environment is rebuilt, and the repository's own configuration is written by us.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from patches.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

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


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the caller's environment without any GIT_* of theirs, and with ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **ALONE, **IDENTITY, **(extra or {})}


@cache
def require_git() -> None:
    """Check that git is there and new enough.

    :raises ToolError: when it is not.
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

    def with_index(self, index: Path) -> Git:
        """Give the same repository with another index."""
        return replace(self, index=index)

    def attempt(self, *args: str, feed: bytes = b"", env: Mapping[str, str] | None = None) -> Result:
        """Run git in the work tree and tell how it ended."""
        require_git()
        extra = dict(env or {})
        if self.index is not None:
            extra["GIT_INDEX_FILE"] = str(self.index)
        command = ["git", f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}", *args]
        cwd = self.work_tree if self.work_tree.is_dir() else None
        # git holds the lock of ours as well, see lock.py; nothing else is inheritable
        run = subprocess.run(
            command, input=feed, capture_output=True, env=environment(extra), cwd=cwd, check=False, close_fds=False
        )
        return Result(run.returncode, run.stdout, decode(run.stderr).strip())

    def run(self, *args: str, feed: bytes = b"", env: Mapping[str, str] | None = None) -> Result:
        """Run git in the work tree.

        :raises ToolError: when it fails; what git said is the message.
        """
        result = self.attempt(*args, feed=feed, env=env)
        if result.code != 0:
            said = result.err or result.text or "no message"
            raise ToolError(f"git {args[0]} failed with exit code {result.code} in {self.work_tree}: {said}")
        return result

    def ask(self, *args: str) -> None:
        """Run a git command that talks with the user on the terminal, with the user's editor.

        :raises ToolError: when it fails.
        """
        require_git()
        editor = next((os.environ[name] for name in ("GIT_EDITOR", "VISUAL", "EDITOR") if os.environ.get(name)), "vi")
        extra = {"GIT_EDITOR": editor, **({"GIT_INDEX_FILE": str(self.index)} if self.index is not None else {})}
        command = ["git", f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}", *args]
        run = subprocess.run(command, env=environment(extra), cwd=self.work_tree, check=False)
        if run.returncode:
            raise ToolError(f"git {args[0]} failed with exit code {run.returncode} in {self.work_tree}.")

    def text(self, *args: str, feed: bytes = b"") -> str:
        """Run git and give its output without the last line's end."""
        return self.run(*args, feed=feed).text

    def paths(self, *args: str) -> tuple[str, ...]:
        """Run a git command that lists paths with ``-z``."""
        return tuple(decode(name) for name in self.run(*args).out.split(b"\0") if name)


def list_paths(paths: Iterable[str]) -> bytes:
    """Write paths the way that git's ``-z --stdin`` reads them."""
    return b"".join(encode(path) + b"\0" for path in paths)
