"""Who calls package states on a real master, and who is written down as the author."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from harness.bed import Bed, BedSettings
from harness.database import sources
from tests.live.helpers import real_minion
from tests.live.query.test_bed import request, token_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(600)]

REAL = "real"
REFUSED = "Minions may not call this runner"
ALL = [{"@runner": ["package_states.*", "state.*"]}]
RIGHTS = {
    "ann": ALL,
}
CLERK = "clerk"


@dataclass(frozen=True)
class Callers:
    """A master with package states, and all ways to call them."""

    bed: Bed
    files: Path
    tokens: dict[str, str] = field(default_factory=dict)

    def root(self, function: str, *arguments: str, user: str = "") -> Any:
        """Call with `salt-run`, as root or as who became root with `sudo`."""
        argv = [*self.bed.command("salt-run"), f"package_states.{function}", *arguments, "--out=json"]
        environment = {**self.bed.environment, **({"SUDO_USER": user} if user else {})}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else done.stdout

    def api(self, user: str, function: str, /, **arguments: object) -> Any:
        """Call over salt-api as a user."""
        if user not in self.tokens:
            self.tokens[user] = token_of(self.bed, user)
        body = [{"client": "runner", "fun": f"package_states.{function}", "kwarg": arguments}]
        status, found, _ = request(self.bed.api.port, "/", self.tokens[user], body)
        return json.loads(found)["return"][0] if status == 200 else found.decode()

    def minion(self, function: str, *arguments: str, user: str = "") -> str:
        """Call through a minion, which the master's `peer_run` permits, as root or a user of `publisher_acl`."""
        argv = [*self.bed.command("salt"), REAL, "publish.runner", f"package_states.{function}", *arguments]
        environment = {**self.bed.environment, **({"SUDO_USER": user} if user else {})}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout + done.stderr

    def orchestrate(self, user: str, function: str, /, **arguments: object) -> Any:
        """Call through an orchestration that a user starts."""
        rows = ({name: value} for name, value in arguments.items())
        state = {"salt.runner": [{"name": f"package_states.{function}"}, *rows]}
        (self.files / "orch.sls").write_text(yaml.safe_dump({"x": state}))
        self.api(user, "show")
        body = [{"client": "runner", "fun": "state.orchestrate", "kwarg": {"mods": "orch"}}]
        return json.loads(request(self.bed.api.port, "/", self.tokens[user], body)[1])


@pytest.fixture(scope="module")
def callers(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    """Yield a master with a minion and a state."""
    folder = tmp_path_factory.mktemp("callers")
    files = folder / "srv"
    files.mkdir()
    with sources.served(folder) as server:
        sources.make(server, "states")
        settings = BedSettings(
            tree=root / "salt",
            folder=folder / "bed",
            pillar="none",
            postgres="none",
            master_options={
                "postgres": server.salt_options() | {"db": "states"},
                "package_states": {},
                "external_auth": {"sharedsecret": RIGHTS},
                "publisher_acl": {CLERK: ["publish.*"]},
                "sudo_acl": True,
                "peer_run": {".*": ["package_states.*", "pkgset.*"]},
                "file_roots": {"base": [str(files)]},
            },
        )
        with Bed(settings) as bed:
            real_minion.start(bed, REAL)
            found = Callers(bed, files)
            found.root("setup")
            found.root("set", "front")
            yield found


def test_authors_are_who_is_authenticated(callers: Callers) -> None:
    """Each way to call writes down another user, whatever the arguments say."""
    callers.root("set", "who")
    callers.root("set", "who", "a", "latest", "author=bob")
    callers.root("set", "who", "b", "latest", user="carol")
    callers.api("ann", "set", name="who", package="c", wanted="latest", author="bob")
    assert REFUSED in callers.minion("set", "who d latest")
    callers.orchestrate("ann", "set", m_name="who", package="e", wanted="latest")
    authors = [row["author"] for row in callers.root("history", "who")]
    assert authors[:3] == ["root for bob", "sudo_carol", "ann for bob"]
    assert set(authors[3:]) <= {"UNKNOWN"}


def test_a_restore_over_salt_api_assigns_again(callers: Callers) -> None:
    """As on the command line, in the name of the user, and not past what somebody saved meanwhile or a conflict."""
    for name, wanted in (("gone", "latest"), ("rival", "removed")):
        callers.root("set", name, "foo", wanted)
    ways: dict[str, Callable[[], Any]] = {
        "root": lambda: callers.root("restore", "gone", "1"),
        "ann": lambda: callers.api("ann", "restore", name="gone", revision=1),
    }
    for user, call in ways.items():
        callers.root("assign", "gone", "minion", REAL, "priority=7")
        callers.root("unset", "gone", "delete=True")
        callers.root("assign", "rival", "minion", REAL, "priority=7")
        assert "both with priority 7" in str(call())
        callers.root("unassign", "rival", "minion", REAL)
        back = call()
        assert (back["assigned"], back["minions"]) == ([f"minion {REAL}"], [REAL]), back
        assert callers.root("show", "gone")["assigned"] == [f"minion {REAL} (priority 7)"]
        assert callers.root("history", "gone")[-1]["author"] == user
        callers.root("unassign", "gone", "minion", REAL)
    assert "you saw 1" in str(callers.api("ann", "restore", name="gone", revision=1, seen=1))


def test_a_minion_calls_no_runner(callers: Callers) -> None:
    """The master would run with the rights of root what a minion asks for, also for other minions."""
    for function in ("show", "show front", "status", "status real", "setup"):
        name, *arguments = function.split()
        said = callers.minion(name, *arguments)
        assert REFUSED in said, said
    done = callers.bed.run("salt", [REAL, "publish.runner", "pkgset.refresh", "*"])
    assert REFUSED in done.stdout + done.stderr


def test_only_salt_run_names_any_file_of_the_master(callers: Callers) -> None:
    """A user of salt-api may save and export, and neither reads nor writes what the master's user may."""
    secret, place = callers.files.parent / "secret", callers.files.parent / "new"
    secret.write_text("package_states: 1\nsecret: [")
    tries = [
        callers.api("ann", "load", path=str(secret)),
        callers.api("ann", "load", text="package_states: 1\nstates: {}", seen=str(secret)),
        callers.api("ann", "export", path=str(place)),
        callers.orchestrate("ann", "export", path=str(place)),
    ]
    for said in tries:
        assert "Only salt-run on the master may name its files" in str(said), said
    assert not place.exists()
    assert callers.root("export", str(place))["path"] == str(place)
    assert place.exists()
