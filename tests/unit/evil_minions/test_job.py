"""Jobs: what a function leaves, as a real minion would return it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions.functions import MODULE_KINDS, Call, Function, job
from evil_minions.functions.modules import FUNCTIONS, cmd
from evil_minions.inventory import GrainsFactory, load_template
from tests.unit.evil_minions.conftest import FakePlanner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LOAD = {
    "fun": "test.ping",
    "arg": [],
    "tgt": "*",
    "tgt_type": "glob",
    "jid": "20261121034757208012",
    "ret": "",
    "user": "root",
}
JOB = {**LOAD, "pid": 7, "resource_targets": [], "pure_resource_target": False, "minion_is_target": True}
PID = 99


class Host:
    """A minion without a master."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.id = "minion-00001"
        self.rng = seeded()
        self.replay: Any = None
        self.planner = FakePlanner()
        self.fired: list[tuple[str, object]] = []
        self.jobs = [{**JOB, "pid": PID}]
        self.asked: list[str] = []
        self.overrides: list[Any] = []
        self.refreshed: list[bool] = []

    def job_rng(self, pid: int) -> random.Random:  # noqa: ARG002 - a minion's signature
        """Return chance that is the same every time."""
        return self.rng

    def grains(self) -> dict[str, Any]:
        """Return the grains of the built-in template."""
        return GrainsFactory(load_template(), 1, "127.0.0.1").build(self.id, 1)

    def fire(self, tag: str, data: object) -> None:
        """Note it."""
        self.fired.append((tag, data))

    def running(self) -> list[dict[str, Any]]:
        """Return the jobs that the test put there, this one among them."""
        return self.jobs

    def queued(self) -> list[dict[str, Any]]:
        """Return no job."""
        return []

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return a pillar."""
        self.asked.append("_pillar")
        self.overrides.append(override)
        return {"secret": "hunter2", "port": 80, "empty": "", "nested": {"list": ["a"]}}

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Note it."""
        self.refreshed.append(clean_cache)
        return asyncio.create_task(asyncio.sleep(0))

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Change nothing."""

    def register_resources(self) -> None:
        """Register nothing."""

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept."""
        return {}

    def pillar_item(self, name: str) -> None:
        """Return nothing of it."""
        assert name

    def stop_job(self, jid: str) -> int | None:
        """Find no such job."""
        assert jid
        return None

    @contextlib.contextmanager
    def asking(self) -> Iterator[Callable[..., Any]]:
        """Note what is asked."""

        async def ask(load: Mapping[str, Any]) -> None:
            self.asked.append(load["cmd"])

        yield ask


@pytest.fixture
def host() -> Host:
    """Return a minion without a master."""
    return Host()


def call(host: Host, name: str, *args: object) -> job.Result:
    """Run one function to its end."""

    async def run() -> job.Result:
        outcome = job.begin(host, {**LOAD, "fun": name, "arg": list(args)}, PID, name, args)
        result = await outcome if inspect.iscoroutine(outcome) else outcome
        assert isinstance(result, job.Result)
        return result

    return asyncio.run(run())


def keyword(**values: object) -> dict[str, object]:
    """Return keywords as a publication holds them."""
    return {**values, "__kwarg__": True}


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("test.ping", [], True),
        ("test.echo", ["hi"], "hi"),
        ("test.echo", ["text=3"], 3),
        ("test.echo", [keyword(text="x")], "x"),
        ("test.sleep", [0], True),
        ("grains.get", ["id"], "minion-00001"),
        ("grains.get", ["systemd:version"], "255"),
        ("grains.get", ["nope", "other"], "other"),
        ("grains.item", ["id", "nope"], {"id": "minion-00001", "nope": ""}),
        (
            "pillar.items",
            [keyword(unmask=True)],
            {"secret": "hunter2", "port": 80, "empty": "", "nested": {"list": ["a"]}},
        ),
        ("saltutil.running", [], []),
        ("saltutil.find_job", ["20261121034757208012"], {}),
        ("saltutil.refresh_pillar", [], True),
        ("cmd.run", ["echo a 'b  c'"], "a b  c"),
    ],
)
def test_values(host: Host, name: str, args: list[object], value: object) -> None:
    """Functions return what Salt's return, successfully."""
    outcome = call(host, name, *args)
    if (name, args) == ("grains.get", ["systemd:version"]):
        assert outcome.value in {"252", "254", "255"}
    else:
        assert outcome.value == value
    assert (outcome.retcode, outcome.out, outcome.error) == (0, None, None)


def test_pillar_is_masked(host: Host) -> None:
    """Without `unmask` every value that isn't empty is hidden, as Salt 3008 does."""
    hidden = "**********"
    assert call(host, "pillar.items").value == {
        "secret": hidden,
        "port": hidden,
        "empty": "",
        "nested": {"list": [hidden]},
    }


def test_pillar_override_reaches_the_master(host: Host) -> None:
    """Pillar data in the arguments goes into the compilation."""
    call(host, "pillar.items", keyword(pillar={"x": 1}))
    assert host.overrides == [{"x": 1}]


def test_grains_items_is_everything(host: Host) -> None:
    """All grains come back."""
    assert call(host, "grains.items").value == host.grains()


def test_unknown_function(host: Host) -> None:
    """A function that isn't there fails in Salt's words."""
    outcome = call(host, "no.such")
    assert outcome[:3] == ("'no.such' is not available.", 1, "nested")


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        (
            "test.ping",
            ["x"],
            "Passed invalid arguments to test.ping: ping() takes 0 positional arguments but 1 was given",
        ),
        (
            "test.echo",
            [],
            "Passed invalid arguments to test.echo: echo() missing 1 required positional argument: 'text'",
        ),
        ("test.echo", ["bad=3"], "ERROR executing 'test.echo': The following keyword arguments are not valid: bad=3"),
        ("cmd.run", [], "Passed invalid arguments to cmd.run: run() missing 1 required positional argument: 'cmd'"),
        ("test.sleep", ["x"], "The minion function caused an exception: Traceback (most recent call last):"),
    ],
)
def test_failures(host: Host, name: str, args: list[object], text: str) -> None:
    """Wrong arguments fail in Salt's words."""
    outcome = call(host, name, *args)
    assert str(outcome.value).splitlines()[0] == text
    assert (outcome.retcode, outcome.out) == (1, "nested")


def test_wrong_arguments_show_salts_documentation(host: Host) -> None:
    """The documentation in the message is that of Salt's own function."""
    assert "salt '*' test.echo 'foo bar baz quo qux'" in call(host, "test.echo").value


def test_running_jobs(host: Host) -> None:
    """Other jobs show, the asking one doesn't; both ways to look for one find it."""
    other = {**JOB, "jid": "20261121034757208013", "fun": "test.sleep", "pid": 5}
    host.jobs.append(other)
    assert call(host, "saltutil.running").value == [other]
    assert call(host, "saltutil.is_running", "test.s*").value == [other]
    assert call(host, "saltutil.is_running", "state.*").value == []
    assert call(host, "saltutil.find_job", "20261121034757208013").value == other


@pytest.mark.parametrize(
    ("line", "text", "code"),
    [
        ("true", "", 0),
        ("false", "", 1),
        ("exit 3", "", 3),
        ("echo a; echo b && false || echo c", "a\nb\nc", 0),
        ("false && echo no", "", 1),
        ("exit 2; echo no", "", 2),
        ("nosuch -x", "/bin/bash: line 1: nosuch: command not found", 127),
        ("echo 'open", "/bin/bash: -c: line 1: syntax error", 2),
        ("", "", 0),
        ("sleep", "sleep: missing operand", 1),
        ("hostname", "minion-00001", 0),
        ("hostname -f", "minion-00001.fleet.example", 0),
        ("uname -s -n", "Linux minion-00001", 0),
    ],
)
def test_shell(host: Host, line: str, text: str, code: int) -> None:
    """The simulated shell prints and ends as a real one."""
    outcome = cmd.execute(line, host.grains())
    assert (outcome.text, outcome.code) == (text, code)


def test_exit_code_is_the_jobs(host: Host) -> None:
    """A failing command fails the job, unless told to ignore it."""
    assert call(host, "cmd.run", "exit 3").retcode == 3
    assert call(host, "cmd.run", "exit 3", keyword(ignore_retcode=True)).retcode == 0


def test_states(host: Host) -> None:
    """A state run is the planner's: it gets the names of the files and the options, and tells the exit code."""
    outcome = call(host, "state.apply", "app,web", keyword(test=True))
    assert outcome[:2] == ({"test_|-a_|-a_|-nop": {"result": True}}, 2)
    assert host.planner.ran == [(["app", "web"], {"test": True})]


def test_second_state_run_is_refused(host: Host) -> None:
    """While one state run is under way, another one says so and fails."""
    host.jobs.append({**JOB, "fun": "state.apply", "pid": 5})
    outcome = call(host, "state.highstate")
    assert outcome.value[0].startswith('The function "state.apply" is running as PID 5 and was started at 2026, Nov 21')
    assert outcome.retcode == 1


def test_sync_all_refreshes_the_pillar(host: Host) -> None:
    """Synchronising returns every kind of module, and refreshes without cleaning the cache."""
    assert list(call(host, "saltutil.sync_all").value) == list(MODULE_KINDS)
    assert host.refreshed == [False]


def test_single_return() -> None:
    """A return's load has the keys of a real one, in their order."""
    load = job.single_return({**LOAD, "metadata": {"a": 1}}, "minion-1", job.Result(True))
    stamp = load.pop("_stamp")
    assert stamp.endswith("+00:00")
    assert list(load.items()) == [
        ("cmd", "_return"),
        ("id", "minion-1"),
        ("success", True),
        ("return", True),
        ("retcode", 0),
        ("jid", "20261121034757208012"),
        ("fun", "test.ping"),
        ("fun_args", []),
        ("user", "root"),
        ("metadata", {"a": 1}),
    ]


@pytest.mark.parametrize(
    ("fun", "out"), [("grains.items", "nested"), ("state.apply", "highstate"), ("test.ping", None)]
)
def test_outputter(fun: str, out: str | None) -> None:
    """Functions whose module declares an outputter say so."""
    assert job.single_return({**LOAD, "fun": fun}, "minion-1", job.Result({})).get("out") == out


def test_several_functions(host: Host) -> None:
    """A job of several functions returns by function, and tracebacks where they fail."""
    load = {**LOAD, "fun": ["test.ping", "no.such", "test.echo"], "arg": [[], [], ["a"]]}
    result = asyncio.run(job.multiple_return(host, load, PID))
    assert result["return"].pop("no.such").endswith("TypeError: 'str' object is not callable\n")
    assert result["return"] == {"test.ping": True, "test.echo": "a"}
    assert result["retcode"] == {"test.ping": 0, "test.echo": 0}
    assert result["success"] == {"test.ping": True, "no.such": False, "test.echo": True}


def test_a_dictionary_may_say_that_it_failed() -> None:
    """A result of False in a returned dictionary fails the job, as Salt does."""
    outcome = job._succeeded({"result": False}, Call(Host(), LOAD, PID))
    assert outcome.retcode == 1


def test_start_delays_are_those_of_a_minion() -> None:
    """A job starts after about 85 ms, a missing function takes seconds, and chance repeats."""
    delays, again = ([job.start_delay(LOAD, chance) for _ in range(200)] for chance in (seeded(), seeded()))
    chance = seeded()
    missing = [job.start_delay({**LOAD, "fun": "no.such"}, chance) for _ in range(200)]
    assert 0.075 < sorted(delays)[100] < 0.095
    assert 3.0 < sorted(missing)[100] < 5.0
    assert delays == again


def seeded() -> random.Random:
    """Return chance that is the same every time."""
    return random.Random(1)  # noqa: S311 - no secret


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_is_one_of_salts(name: str) -> None:
    """Every function has an origin in Salt, with documentation."""
    assert FUNCTIONS[name].documentation().strip()


def test_function_that_salt_does_not_have_has_its_own_words() -> None:
    """A function of a site is documented by itself: an error there would leave its caller without a return."""

    def orders() -> None:
        """Count the orders."""

    for origin in ("salt.modules.shop:orders", "salt.modules.test:orders", "evil_minions.nowhere:orders"):
        assert Function(orders, origin).documentation() == "Count the orders."
