"""State runs on the master's files: what is compiled, who shares a plan, and what a minion keeps."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions.errors import CompilerError
from evil_minions.functions import Call
from evil_minions.states.planner import NOTHING, Caches, Compiler, Planner
from tests.unit.evil_minions.conftest import FakeHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.slow

# a compiling process imports all of Salt's compiler, on a machine that may be busy
SECONDS = 500.0
OPTS = {"renderer": "jinja|yaml", "state_top": "salt://top.sls", "file_roots": {"base": ["/srv"]}, "nodegroups": {}}
FILES = {
    "top.sls": "base:\n  '*':\n    - app\n  'minion-00003':\n    - extra\n",
    "app.sls": (
        "{% from 'map.jinja' import port with context %}\n"
        "conf:\n  file.managed:\n    - name: /etc/app\n    - source: salt://app.conf\n    - template: jinja\n"
        "    - context: {port: {{ port }}}\n"
        "gone:\n  file.managed:\n    - name: /etc/gone\n    - source: salt://gone\n"
        "after:\n  test.nop:\n    - require:\n      - file: gone\n"
        "run:\n  cmd.run:\n    - name: echo hi\n    - unless: 'true'\n"
    ),
    "map.jinja": "{% set port = salt['grains.filter_by']({'Debian': 80, 'default': 81}, 'os') %}\n",
    "app.conf": "{{ grains['id'] }} {{ port }}\n",
    "extra.sls": "more:\n  test.succeed_with_changes: []\n",
    "named.sls": "{{ grains['id'] }}:\n  test.nop: []\n",
    "branch.sls": "a:\n  file.managed:\n    - name: /a\n    - source: salt://branch\n    - template: jinja\n",
    "branch": "{% if grains['id'].endswith('1') %}{% include 'app.conf' %}{% endif %}\n",
    "python.sls": "#!py\ndef run():\n    return {}\n",
    "far.sls": "a:\n  test.nop:\n    - name: {{ salt['cp.cache_file']('http://example.com/x') }}\n",
    "called.sls": "a:\n  test.nop:\n    - name: {{ salt['network.get_hostname']() }}\n",
    "secret.sls": "a:\n  test.nop:\n    - name: {{ pillar.get('tier', 'none') }}\n",
    "odd.sls": "a:\n  no_such.state: []\n",
}


class Master:
    """Files that a master serves, and what it was asked for."""

    def __init__(self) -> None:
        """Begin with the files above."""
        self.files = dict(FILES)
        self.asked: list[str] = []

    async def answer(self, load: Mapping[str, Any]) -> Any:
        """Answer a request."""
        self.asked.append(f"{load['cmd']} {load.get('path', '')}".strip())
        text = self.files.get(load.get("path", ""), "")
        match load["cmd"]:
            case "_file_hash":
                known = load["path"] in self.files
                return {"hsum": hashlib.sha256(text.encode()).hexdigest(), "hash_type": "sha256"} if known else ""
            case "_serve_file":
                return {"data": text[load["loc"] :].encode(), "dest": load["path"]}
        lists = {"_file_list": sorted(self.files), "_dir_list": ["."], "_file_envs": ["base"], "_master_opts": OPTS}
        return lists.get(load["cmd"], {})


class StateHost(FakeHost):
    """A minion with a number, whose master is the test."""

    def __init__(self, master: Master, number: int, pillar: dict[str, Any] | None = None) -> None:
        """Begin with nothing noted."""
        super().__init__()
        self.id = f"minion-{number:05d}"
        self.index = number
        self.master = master
        self.given = pillar or {}

    def grains(self) -> dict[str, Any]:
        """Return few grains."""
        return {"id": self.id, "host": self.id, "os": "Debian" if self.index < 10 else "SUSE", "shell": "/bin/sh"}

    def is_meant(self, target: Any) -> bool:
        """Return whether a glob means it."""
        return target.expression in ("*", self.id)

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the pillar."""
        return {**self.given, **(override or {})}

    @contextlib.contextmanager
    def asking(self) -> Iterator[Callable[..., Any]]:
        """Give what asks."""
        yield self.master.answer


@pytest.fixture
def master() -> Master:
    """Return a master."""
    return Master()


def run(folder: Path, scenario: Callable[[Planner], Any]) -> Any:
    """Run a scenario with a planner and its compiling process."""

    async def bounded() -> Any:
        planner = Planner(Compiler(folder), Caches())
        try:
            return await asyncio.wait_for(scenario(planner), SECONDS)
        finally:
            await planner.close()

    return asyncio.run(bounded())


async def states(planner: Planner, host: StateHost, *mods: str, **options: Any) -> tuple[Any, int]:
    """Run states on a minion."""
    call = Call(host, {"jid": "1", "fun": "state.apply", "arg": []}, 99)
    return await planner.run(call, host, mods or None, options)


def test_leader_and_followers(tmp_path: Path, master: Master) -> None:
    """The first minion has its run compiled; one that is alike asks the same; the second time nothing is fetched."""

    async def scenario(planner: Planner) -> None:
        asked, values = [], []
        for number in (1, 2, 1, 12, 3):
            master.asked = []
            values.append(await states(planner, StateHost(master, number)))
            asked.append(master.asked)
        first, second, again, other, third = asked
        assert first[:3] == ["_master_opts", "_file_envs", "_file_hash top.sls"]
        assert first.count("_file_list") == 19
        assert first.count("_serve_file app.conf") == 2
        assert first.count("_file_hash app.conf") == 2
        assert first == second
        assert again == [each for each in first if not each.startswith("_serve_file")]
        # another system looks at the same files, with another port
        assert other == first
        assert "_serve_file extra.sls" in third
        results, retcode = values[0]
        assert retcode == 2
        assert [result["result"] for result in results.values()] == [True, False, False, True]
        conf, gone, after, ran = results.values()
        assert gone["comment"] == "Unable to manage file: Source file salt://gone not found in saltenv 'base'"
        assert after["comment"] == "One or more requisite failed: app.gone"
        assert ran["comment"] == ["unless condition is true"]
        assert (conf["changes"]["diff"], conf["__sls__"], conf["__run_num__"]) == ("New file", "app", 0)
        assert next(iter(values[2][0].values()))["changes"] == {}

    run(tmp_path, scenario)


def test_file_that_changes(tmp_path: Path, master: Master) -> None:
    """A follower that hears of another file goes on as its own leader, and asks nothing twice."""

    async def scenario(planner: Planner) -> None:
        await states(planner, StateHost(master, 1), "app")
        master.files["app.conf"] = "other\n"
        found = []
        for number in (1, 2):
            master.asked = []
            await states(planner, StateHost(master, number), "app")
            found.append(master.asked)
        assert found[0] == [each for each in found[1] if not each.startswith("_serve_file") or "app.conf" in each]
        assert found[0].count("_serve_file app.conf") == 2
        assert found[0].count("_file_hash app.sls") == 1

    run(tmp_path, scenario)


def test_looks(tmp_path: Path, master: Master) -> None:
    """Whoever was looked at in state files gets a run of its own; a file that shows its id is no such look."""

    async def scenario(planner: Planner) -> None:
        ends = [await states(planner, StateHost(master, number), "named") for number in (1, 2)]
        assert [next(iter(value.values()))["__id__"] for value, _ in ends] == ["minion-00001", "minion-00002"]
        found = {}
        for number in (1, 2):
            master.asked = []
            await states(planner, StateHost(master, number), "branch")
            found[number] = "_serve_file app.conf" in master.asked
        assert found == {1: True, 2: False}
        names = []
        for number, pillar in ((1, {"tier": "gold"}), (2, {"tier": "gold"}), (3, {}), (4, {"tier": "iron"})):
            value, _ = await states(planner, StateHost(master, number, pillar), "secret")
            names.append(next(iter(value.values()))["name"])
        assert names == ["gold", "gold", "none", "iron"]
        master.files["app.conf"] = "{{ grains['id'] }} {{ pillar['owner']['name'] }}\n"
        master.files["shown.sls"] = (
            "a:\n  file.managed:\n    - name: /a\n    - source: salt://app.conf\n    - template: jinja\n"
        )
        plans = len(planner.plans)
        shown = []
        owners: list[tuple[int, dict[str, Any]]] = [
            (1, {"owner": {"name": "x"}}),
            (2, {"owner": {"name": "y"}}),
            (3, {"owner": {}}),
        ]
        for number, owner in owners:
            value, _ = await states(planner, StateHost(master, number, owner), "shown")
            shown.append(next(iter(value.values()))["result"])
        assert shown == [True, True, False]
        assert len(planner.plans) == plans + 2
        value, _ = await states(planner, StateHost(master, 5), "secret", pillar={"tier": "given"})
        assert next(iter(value.values()))["name"] == "given"

    run(tmp_path, scenario)


def test_refused(tmp_path: Path, master: Master) -> None:
    """What can't be rendered here is a sentence; a state that isn't there fails; a missing file is named."""

    async def scenario(planner: Planner) -> None:
        host = StateHost(master, 1)
        for name, problem in (
            ("python", "A fleet does not run the renderer py"),
            ("far", "A simulated minion fetches nothing from http://example.com/x"),
            ("no_such", "No matching sls found for 'no_such' in env 'base'"),
        ):
            value, retcode = await states(planner, host, name)
            assert (problem in value[0], retcode) == (True, 1), value
        value, retcode = await states(planner, host, "odd")
        assert next(iter(value.values()))["comment"].startswith("State 'no_such.state' was not found in SLS 'odd'")
        assert retcode == 2
        value, retcode = await states(planner, StateHost(master, 2, {"_errors": ["broken"]}), "named")
        assert (value, retcode) == (["Pillar failed to render with the following messages:", "broken"], 5)

    run(tmp_path, scenario)


def test_synchronise(tmp_path: Path, master: Master) -> None:
    """Modules of the master's own are fetched once, and named when they are new."""

    async def scenario(planner: Planner) -> None:
        host = StateHost(master, 1)
        master.files["_modules/mine.py"] = "x = 1\n"
        assert await planner.synchronise(host, ["modules", "states"], ["base"]) == {
            "modules": ["modules.mine"],
            "states": [],
        }
        assert master.asked.count("_file_list") == 2
        master.asked = []
        assert await planner.synchronise(host, ["modules"], ["base"]) == {"modules": []}
        assert not [each for each in master.asked if each.startswith("_serve_file")]

    run(tmp_path, scenario)


def test_compiler_that_ends(tmp_path: Path) -> None:
    """A compiling process that can't work is an error, and leaves nothing."""

    async def scenario() -> None:
        compiler = Compiler(tmp_path / "no-such-folder")

        async def answer(_message: dict[str, Any]) -> None:
            raise AssertionError

        end = r"^The state compiler .* ended with exit code 1\.(?s:.*)FileNotFoundError"
        with pytest.raises(CompilerError, match=end):
            await asyncio.wait_for(compiler.compile({}, answer), SECONDS)
        await compiler.close()

    asyncio.run(scenario())
    assert not list(tmp_path.iterdir())


def test_holdings_are_shared() -> None:
    """Minions that have the same have it once; a newer version replaces the older one."""
    caches = Caches()
    for index in range(100):
        caches.add(index, [("cache", "base", "a", "1"), ("cache", "base", "b", "1")])
    assert len({id(caches.of(index)) for index in range(100)}) == 1
    caches.add(5, [("cache", "base", "a", "2")])
    assert caches.of(5) == {("cache", "base", "a", "2"), ("cache", "base", "b", "1")}
    assert caches.of(6) == {("cache", "base", "a", "1"), ("cache", "base", "b", "1")}
    assert caches.of(200) is NOTHING
