"""Who calls package states on a real master, and that none of them alone brings a revision to the last stage."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from harness.bed import Bed, BedSettings
from harness.database import scratch
from tests.live.test_query_bed import request, token_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(600)]

REAL = "real"
REFUSED = "Minions may not call this runner"
ALL = [{"@runner": ["package_states.*", "state.*"]}]
RIGHTS = {
    # she saves and promotes
    "ann": ALL,
    # he may approve
    "bob": ALL,
    # saves, and has no right to approve
    "writer": [{"@runner": ["package_states.set", "package_states.promote", "package_states.apply"]}],
    "nobody": ["test.ping"],
}
CLERK = "clerk"


@dataclass(frozen=True)
class Team:
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
        self.api(user, "list")
        body = [{"client": "runner", "fun": "state.orchestrate", "kwarg": {"mods": "orch"}}]
        return json.loads(request(self.bed.api.port, "/", self.tokens[user], body)[1])

    def prod(self) -> bytes:
        """Return the file of the minion, which follows the last stage."""
        return (self.files / "susemanager" / f"packages-{REAL}.sls").read_bytes()


@pytest.fixture(scope="module")
def team(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """Yield a master whose minion follows the last stage, with revision 1 there; revision 2 waits in test."""
    folder = tmp_path_factory.mktemp("callers")
    files = folder / "srv"
    files.mkdir()
    with scratch.served(folder) as server:
        scratch.make(server, "states")
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
            bed.start_minion(REAL)
            found = Team(bed, files)
            found.root("setup")
            found.root("stages", "dev,test,prod")
            found.root("create", "front")
            number = found.api("ann", "assign", name="front", kind="minion", target=REAL, stage="prod")["request"]
            assert found.api("bob", "approve", request=number)["approved"]
            for wanted in ("latest", "removed"):
                found.api("ann", "set", name="front", package="foo", wanted=wanted, author="bob")
                found.api("ann", "promote", name="front", stage="test")
                number = found.api("ann", "promote", name="front", stage="prod")["request"]
                if wanted == "latest":
                    assert found.api("bob", "approve", request=number)["files"] == ["front", REAL]
            assert b"package_state.latest" in found.prod()
            yield found


def test_no_caller_alone(team: Team) -> None:
    """Eight callers and more try to approve what waits, or to go round it: the file stays until bob approves."""
    (waiting,) = team.root("requests")
    number = waiting["request"]
    assert waiting["author"] == "ann"
    before = team.prod()
    text = team.root("export").replace("latest", "removed").replace("foo", "evil")
    tries = {
        "the author": team.api("ann", "approve", request=number),
        "the author, another case": team.root("approve", str(number), user="ANN"),
        "the author by sudo": team.root("approve", str(number), user="ann"),
        "a forged user": team.api("ann", "approve", request=number, __user__="bob", user="bob", __pub_user="bob"),
        "a forged author": team.api("ann", "promote", name="front", stage="prod", revision=2, author="bob"),
        "without the right to approve": team.api("writer", "approve", request=number),
        "without any right": team.api("nobody", "approve", request=number),
        "publisher_acl through a minion": team.minion("approve", str(number), user=CLERK),
        "root through a minion": team.minion("approve", str(number)),
        "an orchestration": team.orchestrate("ann", "approve", request=number),
        "an orchestration that waits for nothing": team.orchestrate(
            "ann", "approve", request=number, asynchronous=True
        ),
        "a set by the author": team.api("ann", "apply", text=text),
        "a set by who may not approve": team.api("writer", "apply", text=text),
        "root, a set": team.root("apply", f"text={json.dumps(text)}"),
        "root, another stage": team.root("assign", "front", "minion", REAL, "stage=test"),
        "root, a rollback": team.root("rollback", "front", "2", "stage=prod"),
        "root, the own state": team.root("set", REAL, "evil", "latest"),
    }
    for who, said in tries.items():
        print(who, str(said)[:200])
    assert team.prod() == before
    assert team.root("show", "front", "stage=prod")["revision"] == 1
    # refused by Salt itself
    for who in ("without the right to approve", "without any right"):
        assert "erson" not in str(tries[who])
    for who in ("the author", "the author, another case", "the author by sudo", "a forged user", "an orchestration"):
        assert "erson" in str(tries[who]), tries[who]
    for who in ("publisher_acl through a minion", "root through a minion"):
        assert REFUSED in tries[who]
    assert waiting in team.root("requests")
    # and then another person
    assert team.api("bob", "approve", request=number)["files"] == ["front", REAL]
    assert b"package_state.removed" in team.prod()
    # one command, and the old file is there
    assert team.root("rollback", "front", "1", "stage=prod")["files"] == ["front", REAL]
    assert team.prod() == before


def test_authors_are_who_is_authenticated(team: Team) -> None:
    """Each way to call writes down another user, whatever the arguments say."""
    team.root("create", "who")
    team.root("set", "who", "a", "latest", "author=bob")
    team.root("set", "who", "b", "latest", user="carol")
    team.api("ann", "set", name="who", package="c", wanted="latest", author="bob")
    assert REFUSED in team.minion("set", "who d latest")
    team.orchestrate("ann", "set", m_name="who", package="e", wanted="latest")
    authors = [row["author"] for row in team.root("history", "who")]
    assert authors[:3] == ["root for bob", "sudo_carol", "ann for bob"]
    assert set(authors[3:]) <= {"UNKNOWN"}


def test_a_minion_calls_no_runner(team: Team) -> None:
    """The master would run with the rights of root what a minion asks for, also for other minions."""
    for function in ("list", "show front", "status", "verdicts real", "setup"):
        name, *arguments = function.split()
        said = team.minion(name, *arguments)
        assert REFUSED in said, said
    done = team.bed.run("salt", [REAL, "publish.runner", "pkgset.refresh", "*"])
    assert REFUSED in done.stdout + done.stderr


def test_only_salt_run_names_any_file_of_the_master(team: Team) -> None:
    """A user of salt-api may save and export, and neither reads nor writes what the master's user may."""
    secret, place = team.files.parent / "secret", team.files.parent / "new"
    secret.write_text("package_states: 1\nsecret: [")
    tries = [
        team.api("ann", "apply", path=str(secret)),
        team.api("ann", "apply", text="package_states: 1\nstates: {}", seen=str(secret)),
        team.api("ann", "import_file", name="front", path=str(secret)),
        team.api("ann", "export", path=str(place)),
        team.api("ann", "export_file", name="front", path=str(place)),
        team.orchestrate("ann", "export", path=str(place)),
    ]
    for said in tries:
        assert "Only salt-run on the master may name its files" in str(said), said
    assert not place.exists()
    assert team.root("export", str(place))["path"] == str(place)
    assert place.exists()
