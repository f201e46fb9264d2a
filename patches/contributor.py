"""Who sends patches upstream: the person whose name and address stand in their own git configuration.

Stored patches carry one neutral author (see ``git.py``). A mail to upstream carries a person, who signs it off, so an
address that a machine made up, or one that nobody can have, must not get that far.
"""

from __future__ import annotations

import re
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.errors import UsageError
from patches.git import EMAIL, NAME, require_git

if TYPE_CHECKING:
    from patches.layout import Layout

IDENT = re.compile(r"^(?P<name>.*?) ?<(?P<email>[^<>]*)> \d+ [+-]\d{4}$")
# RFC 2606, RFC 6761 and RFC 6762, what is used for networks that end at a router, and git's own "(none)"
NOBODYS: tuple[str, ...] = (
    "example",
    "invalid",
    "test",
    "localhost",
    "local",
    "localdomain",
    "internal",
    "lan",
    "home",
    "arpa",
)
NOBODYS += ("corp", "example.com", "example.net", "example.org", "(none)")
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

    :raises UsageError: when none is set, or when a machine made it.
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

    :param host: the machine's name, as addresses made from it are the commonest wrong ones.
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
