"""Who sends mails to upstream: a person, by their own git configuration, and never a machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patches.git import Contributor, objection
from patches.patch import Patch
from patches.series import read_series

if TYPE_CHECKING:
    from tests.unit.patches.conftest import Project

ROOT = Path(__file__).parents[3]
NEUTRAL = "Saltbed contributors <contributors@saltbed.invalid>"


def configure(text: str) -> None:
    """Write the user's own git configuration."""
    Path(os.environ["HOME"], ".gitconfig").write_text(text)


def sent(project: Project) -> Patch:
    """Submit a topic and read its mail."""
    ended = project.run("submit", "first", "--mails", "--json")
    assert ended.code == 0, ended.out
    return Patch("first", Path(ended.data["submissions"][0]["mails"][0]).read_bytes())


def test_every_stored_patch_has_the_neutral_author() -> None:
    """No patch of the project names a person or a machine as its author."""
    found = {path.name: Patch(path.stem, path.read_bytes()).author for path in (ROOT / "patches").glob("*.patch")}
    assert found
    assert {name: author for name, author in found.items() if author != NEUTRAL} == {}


def test_mail_is_by_the_contributor_and_signed_off(patched: Project) -> None:
    """Name and address of the user's configuration are the mail's author and its sign-off; the patch stays neutral."""
    mail = sent(patched)
    assert mail.author == "Ada <ada@analytical.engineer>"
    assert mail.trailers == (("Signed-off-by", "Ada <ada@analytical.engineer>"),)
    assert read_series(patched.layout).get("first").author == NEUTRAL


def test_repository_comes_before_the_user(patched: Project) -> None:
    """What the checkout's own configuration says is taken first."""
    patched.git("config", "user.name", "Grace Höpper")
    patched.git("config", "user.email", "grace@harvard.computer")
    assert sent(patched).author == "Grace Höpper <grace@harvard.computer>"


@pytest.mark.parametrize("text", ["", "[user]\n\tname = Ada\n", "[user]\n\temail = ada@analytical.engineer\n"])
def test_nobody_is_not_made_up(patched: Project, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Without a name or an address git would make one of the account and the host; submit asks for it instead."""
    monkeypatch.delenv("EMAIL", raising=False)
    configure(text)
    ended = patched.run("submit", "first")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert "git config --global user.name" in ended.err
    assert "git config --global user.email" in ended.err
    assert not (patched.layout.build / "submit").exists()


def test_machine_is_refused(patched: Project) -> None:
    """A machine-made address ends the command in one sentence that names it and says what to set."""
    configure("[user]\n\tname = Seed 12 maintainers\n\temail = maintainers@users.noreply.a-seed-12.example\n")
    ended = patched.run("submit", "first")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "maintainers@users.noreply.a-seed-12.example" in ended.err
    assert "git config --global user.name" in ended.err


@pytest.mark.parametrize(
    "author",
    [
        NEUTRAL,
        "Ada <ada@saltbed.invalid>",
        "Ada <root@localhost>",
        "Ada <ada@localhost.localdomain>",
        "Ada <ada@laptop.local>",
        "Ada <ada@example.org>",
        "Ada <you@docs.example>",
        "Ada <ada@laptop>",
        "Ada <ada@laptop.(none)>",
        "Ada <ada@laptop.company.com>",
        "Ada <ada@127.0.0.1>",
        "Ada <ada>",
        "Ada <>",
        "Ada <root@company.com>",
        "Ada <no-reply@company.com>",
        "Ada <noreply@github.com>",
        "Ada <project_12_bot@noreply.gitlab.company.com>",
        "root <ada@company.com>",
        " <ada@company.com>",
        "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>",
    ],
)
def test_what_a_machine_made_is_recognised(author: str) -> None:
    """Reserved domains, hosts, system accounts, bots and our own neutral author are no contributors."""
    name, _, email = author.removesuffix(">").rpartition(" <")
    assert objection(Contributor(name, email), "laptop") is not None


@pytest.mark.parametrize(
    ("author", "host"),
    [
        ("Ada Lovelace <ada@analytical.engineer>", "laptop"),
        ("Ada <ada@company.com>", "laptop.company.com"),
        ("Ada <12+ada@users.noreply.github.com>", "laptop"),
        ("Ada <ada@mail.ru>", "mail"),
        ("Иван <ivan@почта.рф>", ""),
    ],
)
def test_person_is_taken(author: str, host: str) -> None:
    """A person's address passes, also one that GitHub hides and one at the machine's own domain."""
    name, _, email = author.removesuffix(">").rpartition(" <")
    assert objection(Contributor(name, email), host) is None


def test_address_of_this_machine_is_refused(patched: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the machine is asked for: an address made of it is refused by the command."""
    monkeypatch.setattr(socket, "gethostname", lambda: "build7.company.com")
    configure("[user]\n\tname = Ada\n\temail = ada@build7.company.com\n")
    assert "made of this machine's name" in patched.run("submit", "first").err
