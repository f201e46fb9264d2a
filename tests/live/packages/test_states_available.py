"""Which packages minions can get: told by the minions, kept once for all of them, searched in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.database import sources
from harness.saltprocess.patched import Salt, patched
from harness.saltprocess.process import SaltProcess
from tests.live.helpers.applied_states import COMPILER, TASKS
from tests.live.helpers.package_states import MINIONS, States

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database import Postgres

pytestmark = [pytest.mark.live, pytest.mark.long]
MANY = 10_000
MAIN = {"nginx": ["1.22.1-9"], "nginx-common": ["1.22.1-9"], "vim": ["9.0"], "a.b": ["1"], "axb": ["1"]}
NEWER = {**MAIN, "nginx": ["1.22.1-10", "1.22.1-9"]}
EXTRA = {"nginx": ["1.26.0-1"], "foo": ["1.0"]}


class Told:
    """States, and minions that tell of their repositories."""

    def __init__(self, states: States, process: SaltProcess) -> None:
        """Take both."""
        self.states = states
        self._process = process
        self._options = {"postgres": states.database.server.salt_options()}

    def contents(self, name: str, packages: dict[str, list[str]], manager: str = "apt") -> dict[str, Any]:
        """Return what a minion answers of a repository."""
        found: dict[str, Any] = self._process.run("contents", manager, name, packages)[1]
        return found

    def act(self, action: str, minion: object, answer: object) -> dict[str, Any]:
        """Give the master an answer of a minion."""
        found: dict[str, Any] = self._process.run(action, self._options, minion, answer)[1]
        return found

    def send(self, minion: str, *repositories: dict[str, Any], **more: object) -> list[str]:
        """Let a minion send its packages, and return what it is to be asked for."""
        inventory = {
            "platform": "apt",
            "digest": "x",
            "packages": {"nginx": {"versions": ["1.22.1-9"]}},
            "repositories": {one["digest"]: one["name"] for one in repositories},
            **more,
        }
        found: list[str] = self.act("store", minion, inventory)["result"]
        return found

    def refresh(self, minion: str, *repositories: dict[str, Any], **more: object) -> None:
        """Let a minion send its packages, and what it is asked for then."""
        lacking = self.send(minion, *repositories, **more)
        answer = [one for one in repositories if one["digest"] in lacking]
        assert self.act("offers", minion, answer) == {"result": sorted(lacking)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with sources.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        found.act("grains", "db", {"os_family": "RedHat", "os": "Fedora", "osmajorrelease": 42})
        yield found


@pytest.fixture(scope="module")
def process() -> Iterator[SaltProcess]:
    """Yield the master's side of answers."""
    with SaltProcess("patched", COMPILER, {}, TASKS) as found:
        yield found


@pytest.fixture
def told(server: Postgres, salt: Salt, process: SaltProcess, tmp_path: Path, request: pytest.FixtureRequest) -> Told:
    """Return three minions that have told nothing."""
    states = States(salt, sources.make(server, f"told_{abs(hash(request.node.name))}"), tmp_path, "keys")
    keys = tmp_path / "pki" / "minions"
    keys.mkdir(parents=True)
    for minion in MINIONS:
        (keys / minion).write_text("key")
    states.do("setup")
    return Told(states, process)


def _names(found: dict[str, Any]) -> list[str]:
    return [row["package"] for row in found["packages"]]


def test_what_minions_can_get(told: Told) -> None:
    """Of a minion, a group, a channel or all: what all of them can get, and what some can."""
    main, newer = told.contents("main", MAIN), told.contents("main", NEWER)
    extra = told.contents("extra", EXTRA)
    do = told.states.do
    assert "pkgset.refresh" in told.states.refused("available")
    told.refresh("web", main, extra)
    told.refresh("web1.example.com", newer)
    found = do("available", search="nginx*")
    assert found["counts"] == {"packages": 2, "minions": 2, "never told": 1}
    assert found["packages"] == [
        {
            "package": "nginx",
            "manager": "apt",
            "versions": ["1.22.1-9"],
            "some": ["1.26.0-1", "1.22.1-10"],
            "channels": ["extra", "main"],
        },
        {"package": "nginx-common", "manager": "apt", "versions": ["1.22.1-9"], "channels": ["main"]},
    ]
    (row,) = do("available", search="nginx", minion="web")["packages"]
    assert (row["versions"], "some" in row) == (["1.26.0-1", "1.22.1-9"], False)
    assert _names(do("available", search="f*", group="a")) == ["foo"]
    (foo,) = do("available", search="f*", group="b")["packages"]
    assert (foo["versions"], foo["some"]) == ([], ["1.0"])
    assert _names(do("available", channel="extra")) == ["foo", "nginx"]
    assert do("available", channels=True)["main"] == {
        **do("available", channels=True)["main"], "packages": 5, "minions": 2, "contents": 2, "unknown": 0,
    }  # fmt: skip


def test_each_package_manager_has_its_own_order(told: Told) -> None:
    """Over minions of apt, dnf and zypper, versions are never compared with those of another one."""
    # in the order of Debian 1.0^git is newer than 1.0.1, in that of rpm it is older
    theirs = {"foo": ["1.0^git-1", "1.0.1-1"], "rpm-only": ["1-1"]}
    ours = {"foo": ["1.0.1-1", "1.0+b1-1"], "apt-only": ["1-1"]}
    told.refresh("web", told.contents("debian", ours))
    told.refresh("web1.example.com", told.contents("alma", theirs, "dnf"), platform="dnf")
    told.refresh("db", told.contents("leap", theirs, "zypper"), platform="zypper")
    found = told.states.do("available", search="foo")
    assert found["counts"] == {"packages": 3, "minions": 3, "never told": 0}
    rpm = ["1.0.1-1", "1.0^git-1"]
    assert found["packages"] == [
        {"package": "foo", "manager": "apt", "versions": ["1.0.1-1", "1.0+b1-1"], "channels": ["debian"]},
        {"package": "foo", "manager": "dnf", "versions": rpm, "channels": ["alma"]},
        {"package": "foo", "manager": "zypper", "versions": rpm, "channels": ["leap"]},
    ]
    pages = [told.states.do("available", size=2, page=number) for number in (1, 2, 3)]
    rows = [(row["package"], row["manager"]) for page in pages for row in page["packages"]]
    assert [page["pages"] for page in pages] == [3] * 3
    names = [("apt-only", "apt"), *(("foo", one) for one in ("apt", "dnf", "zypper"))]
    assert rows == [*names, ("rpm-only", "dnf"), ("rpm-only", "zypper")]
    (row,) = told.states.do("available", search="foo", minion="db")["packages"]
    assert (row["manager"], row["versions"]) == ("zypper", rpm)


def test_search_and_pages(told: Told) -> None:
    """Patterns mean what they say, and what is wrong is refused in one sentence."""
    told.refresh("web", told.contents("main", MAIN))
    do, refused = told.states.do, told.states.refused
    assert _names(do("available", search="a.b")) == ["a.b"]
    assert _names(do("available", search="a?b")) == ["a.b", "axb"]
    first, second = (do("available", size=3, page=page) for page in (1, 2))
    assert (_names(first), _names(second), second["pages"]) == (["a.b", "axb", "nginx"], ["nginx-common", "vim"], 2)
    assert _names(do("available", page=9)) == []
    for hostile in ("'; DROP TABLE package_states.offer; --", "%s", "$$", "[[:alpha:]]", "{{ x }}", "\\"):
        assert _names(do("available", search=hostile)) == [], hostile
    assert "at most" in refused("available", search="a" * 201)
    assert "whole number" in refused("available", size=0)
    assert "not both" in refused("available", minion="web", group="a")
    assert "no group" in refused("available", group="nobody")
    assert "no minion" in refused("available", minion="nobody")
    assert "package_states.available channels=True" in refused("available", channel="nowhere")
    assert "never told" in refused("available", minion="db")


def test_ten_thousand_minions_tell_it_once(told: Told) -> None:
    """What the same repositories have is asked of one minion and stored once."""
    main, extra = told.contents("main", MAIN), told.contents("extra", EXTRA)
    assert sorted(told.send("web", main, extra)) == sorted([main["digest"], extra["digest"]])
    assert told.act("offers", "web", [main, extra])["result"] == sorted([main["digest"], extra["digest"]])
    keys = told.states.root / "pki" / "minions"
    for number in range(MANY):
        (keys / f"m{number}").write_text("key")
    run = told.states.database.run
    run(
        "INSERT INTO package_states.package_list (minion_id, platform, digest, packages)"
        " SELECT 'm' || n, 'apt', 'x', '{}' FROM generate_series(1, %s) AS n",
        MANY - 1,
    )
    run(
        "INSERT INTO package_states.minion_repository SELECT 'm' || n, r.digest, r.name"
        " FROM generate_series(1, %s) AS n, package_states.repository AS r",
        MANY - 1,
    )
    assert told.send("m0", main, extra) == []
    assert run("SELECT count(*) FROM package_states.offer") == [(len(MAIN) + len(EXTRA),)]
    found = told.states.do("available", search="nginx")
    assert found["counts"] == {"packages": 1, "minions": MANY + 1, "never told": 2}
    assert found["packages"][0]["versions"] == ["1.26.0-1", "1.22.1-9"]


def test_what_nobody_has_any_more_is_forgotten(told: Told) -> None:
    """A repository that has changed is kept as long as a minion has the old lists."""
    main, newer = told.contents("main", MAIN), told.contents("main", NEWER)
    for minion in ("web", "db"):
        told.refresh(minion, main)
    count = "SELECT count(*) FROM package_states.repository"
    told.refresh("web", newer)
    assert told.states.database.run(count) == [(2,)]
    told.refresh("db", newer)
    assert told.states.database.run(count) == [(1,)]
    assert told.states.database.run("SELECT count(*) FROM package_states.offer") == [(len(NEWER),)]


def test_a_minion_speaks_for_itself(told: Told) -> None:
    """What is not behind the digest, or no list of packages, is refused and nothing of it is stored."""
    main = told.contents("main", MAIN)
    told.send("web", main)
    for answer in (
        [{**main, "packages": {**MAIN, "vim": ["666"]}}],
        [{**main, "name": "another"}],
        [{**main, "packages": {"vim": "9"}}],
        [main, "text"],
        None,
        "no such function",
    ):
        assert "did not send what" in told.act("offers", "web", answer)["error"], answer
    for repositories in ({"x": "main"}, {main["digest"]: ""}, {main["digest"]: 5}, [1], {main["digest"]: "a\0"}):
        assert (
            "no list"
            in told.act(
                "store", "web", {"platform": "apt", "digest": "x", "packages": {}, "repositories": repositories}
            )["error"]
        )
    assert told.states.database.run("SELECT count(*) FROM package_states.repository") == [(0,)]
    # a minion of before tells nothing
    assert told.act("store", "db", {"platform": "apt", "digest": "x", "packages": {}}) == {"result": []}
    # nor does one that nobody knows
    assert told.act("offers", "db", [main])["result"] == [main["digest"]]


def test_security_updates_are_shown(told: Told) -> None:
    """A freeze does not hide them; what is not known is not said to be none."""
    states = told.states
    states.set("web", "nginx", "installed", "=1.22.1-9")
    told.send("web", security={"nginx": ["1.22.1-10"], "openssl": ["3.0.15", "3.0.14"]})
    told.send("web1.example.com", security={})
    told.send("db")
    shown = states.do("status", minion="web")
    assert "web is consistent." in shown
    frozen = "nginx 1.22.1-10 (it is to be installed =1.22.1-9, from own web)"
    assert f"It lacks 2 security updates: {frozen}, openssl 3.0.15." in shown
    assert states.do("status", minion="web", table=False)["security"]["openssl"] == ["3.0.15", "3.0.14"]
    assert "lacks no security update" in states.do("status", minion="web1.example.com")
    assert "not known" in states.do("status", minion="db")
    fleet = states.do("status", table=False)
    assert fleet["security"] == 1
    assert {row["minion"]: row.get("security") for row in fleet["minions"]}["web"] == 2
    assert "Security updates are lacking on 1 of them" in states.do("status")
    answer = {"platform": "apt", "digest": "x", "packages": {}, "security": {"a": "text"}}
    assert "no list" in told.act("store", "web", answer)["error"]


def test_a_minion_with_dnf_5_is_refused_at_saving(told: Told) -> None:
    """Its grains say so before it ever sent a list."""
    assert "dnf is version 5" in told.states.refused("set", name="db", package="foo", wanted="latest")


def test_an_upgrade_names_who_was_never_heard(told: Told) -> None:
    """Minions that never told what there is do not count, and are not passed over in silence."""
    states = told.states
    states.do("set", name="front")
    states.do("assign", name="front", kind="group", target="b")
    states.set("front", "nginx", "installed", "=1.22.1-9")
    assert "has told" in states.refused("set", name="front", package="*", wanted="upgrade")
    states.send("web", {"nginx": {"versions": ["1.22.1-9"], "available": ["1.22.1-10", "1.22.1-9"]}})
    found = states.do("set", name="front", package="*", wanted="upgrade")
    assert found["silent"] == ["web1.example.com"]
    assert states.do("show", name="front")["packages"] == {"nginx": "installed =1.22.1-10"}
    # what is not installed is known from repositories
    states.set("front", "vim", "installed", "=1")
    told.refresh("web", told.contents("main", MAIN))
    states.do("set", name="front", package="vim", wanted="upgrade")
    newest = states.do("available", search="vim", minion="web")["packages"][0]["versions"][0]
    assert states.do("show", name="front")["packages"]["vim"] == f"installed ={newest}"


def test_what_no_minion_is_offered_is_told(told: Told) -> None:
    """A name or a version with a slip is saved, and named; nothing is said where nobody has told what there is."""
    do = told.states.do
    assert "unknown" not in told.states.set("web", "nginxx", "present")
    told.refresh("web", told.contents("main", MAIN))
    assert told.states.set("web", "nginxx", "installed")["unknown"] == ["nginxx"]
    assert told.states.set("web", "vim", "installed", ">=99")["unknown"] == ["vim"]
    assert "unknown" not in told.states.set("web", "vim", "latest")
    assert "unknown" not in told.states.set("web", "nginx", "removed")
    assert told.states.set("web", "nginxx", "removed")["unknown"] == ["nginxx"]
    assert do("show", name="web")["packages"] == {"nginx": "removed", "nginxx": "removed", "vim": "latest"}


def test_where_says_that_no_repository_has_a_package(told: Told) -> None:
    """With names that are like it; a package that a repository or a minion has needs no hint."""
    do = told.states.do
    assert "run pkgset.refresh" in do("where", package="nginx")["hint"]
    told.refresh("web", told.contents("main", {**MAIN, "lone:i386": ["1"]}))
    hint = do("where", package="nginxx")["hint"]
    assert hint == "No repository that minions told of has nginxx; names like it: nginx."
    assert do("where", package="zz")["hint"].endswith("has zz; names like it: none.")
    told.states.send("web", {"zz": {"versions": ["1"]}})
    for package in ("zz", "vim", "vim:amd64", "lone:i386"):
        assert "hint" not in do("where", package=package), package


def test_no_minion_renames_the_channel_of_others(told: Told) -> None:
    """A digest stands for a name: what a hostile minion calls it counts for nobody once one has told what it is."""
    main = told.contents("main", MAIN)
    told.send("db", {**main, "name": "mine"})
    told.refresh("web", main)
    do = told.states.do
    assert list(do("available", channels=True)) == ["main"]
    assert do("available", channel="main", search="vim")["packages"][0]["channels"] == ["main"]
    assert "no such" in told.states.refused("available", channel="mine").replace("No minion", "no such")
    # nor does one answer for what it never had
    other = told.contents("other", EXTRA)
    told.act("offers", "db", [other])
    assert list(do("available", channels=True)) == ["main"]


def test_a_minion_whose_packages_have_changed_is_pending(told: Told) -> None:
    """Until it has sent them, nothing is said to be consistent; the status says how old it is."""
    do = told.states.do
    told.states.set("web", "nginx", "installed", "=1.22.1-9")
    told.send("web")
    found = do("status", minion="web", table=False)
    assert found["consistent"] is True
    assert found["refreshed"].startswith("20")
    assert do("status", table=False, only="consistent")["minions"][0]["minion"] == "web"
    assert told.act("mark", ["web"], "its packages have changed since") == {"result": None}
    found = do("status", minion="web", table=False)
    assert (found["consistent"], found["pending"]) == (None, "its packages have changed since")
    assert "web is pending: its packages have changed since" in do("status", minion="web")
    (row,) = do("status", table=False, only="pending")["minions"]
    assert (row["minion"], row["pending"]) == ("web", "its packages have changed since")
    told.send("web")
    assert do("status", table=False)["counts"]["consistent"] == 1
    assert "It sent its packages at 20" in do("status", minion="web")


def test_words_of_the_specification_for_versions(told: Told) -> None:
    """`Latest` beside `installed` is the policy, not a version."""
    told.states.set("web", "nginx", "installed", "Latest")
    told.states.set("web", "vim", "present")
    assert told.states.do("show", name="web")["packages"] == {"nginx": "latest", "vim": "present"}
    assert "takes no latest" in told.states.refused(
        "set", name="web", package="nginx", wanted="removed", version="latest"
    )
    assert "is no version" in told.states.refused("set", name="web", package="nginx", wanted="present", version="v1.2")
