"""What a load run makes of a bed that does not come up, and of a fleet that was asked for something unknown."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.commands import campaign
from harness.errors import MasterError, RunError, ScenarioError, SettingsError, StartError
from harness.load import run
from harness.load.backend import Job
from harness.processes.deadline import Deadline, Patience
from harness.progress import Progress
from harness.scenarios import scenario
from harness.scenarios.fleet import network_targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.load.backend import Backend, Fleet

QUICK = scenario.load(scenario.find("quick"))


def _job(folder: Path, found: scenario.Scenario) -> Job:
    return Job("stock", Path(), found, folder / "scenario.toml", folder / "stock", folder)


class Broken:
    """A bed whose master does not start."""

    def __enter__(self) -> None:
        """Fail."""
        raise MasterError("salt-master ended with exit code 1.")

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "^salt-master ended with exit code 1.$"),
        (
            {"worker_threads": "abc"},
            r"with the scenario's table `\[master\]` \(worker_threads\): check these options first. salt-master ended",
        ),
    ],
)
def test_master_that_does_not_start(tmp_path: Path, options: dict[str, object], expected: str) -> None:
    """The scenario's own options of the master are named, if it has any."""
    job = _job(tmp_path, replace(QUICK, master=options))
    with pytest.raises(MasterError, match=expected):
        run.run(job, Progress(io.StringIO()), lambda _: cast("Backend", Broken()))


UNKNOWN = replace(QUICK, clients=(replace(QUICK.clients[0], function="test.pnig"),))


def test_unknown_function(tmp_path: Path) -> None:
    """A function that no minion knows is refused before the run, with the nearest one that they know."""
    expected = r"do not know the function test.pnig: did you mean test.ping\? Or set `unknown_functions = \"allow\"`"
    with pytest.raises(ScenarioError, match=expected):
        campaign.check_fleet(UNKNOWN, tmp_path)


def test_unknown_function_that_is_meant(tmp_path: Path) -> None:
    """A scenario may ask for functions that no minion knows."""
    campaign.check_fleet(replace(UNKNOWN, unknown_allowed=True), tmp_path)


def test_known_functions(tmp_path: Path) -> None:
    """Nothing is said of functions that the fleet knows."""
    campaign.check_fleet(QUICK, tmp_path)


def test_network_of_nobody(tmp_path: Path) -> None:
    """A network that no minion is behind would leave the run without it, and nobody would say so."""
    text = 'network = { rtt_ms = 250, tgt = "G@site:nrth", tgt_type = "compound" }'
    file = tmp_path / "mine.toml"
    file.write_text(scenario.find("quick").read_text() + f"[fleet]\n{text}\n")
    job = _job(tmp_path, replace(scenario.load(file), clients=()))
    assert network_targets(job.scenario.fleet) == [("G@site:nrth", "compound")]
    nobody = cast("Fleet", SimpleNamespace(match=lambda *asked: 0 if asked == ("G@site:nrth", "compound") else 1))
    with pytest.raises(SettingsError, match="The network of `G@site:nrth` is that of none of the 100 minions"):
        run._expected(job, nobody)
    assert run._expected(job, cast("Fleet", SimpleNamespace(match=lambda *_: 1))) == {}
    assert network_targets(["--network=rtt_ms=250", "--jitter=20"]) == []
    # those may be whom a moment brings
    file.write_text(file.read_text() + '[[timeline]]\nat_s = 1\ndo = "scale"\nminions = 200\n')
    assert run._expected(_job(tmp_path, replace(scenario.load(file), clients=())), nobody) == {}


def test_clients_that_never_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that are not ready in time end the run, with what they were doing."""
    monkeypatch.setattr(run, "SAMPLE_S", 0.0)
    clients = SimpleNamespace(
        code=lambda: None,
        zero=lambda: None,
        answered=lambda: 0,
        patience=lambda _: Deadline(0, lambda: 7.0),
        late=lambda what, deadline: f"The clients did not {what} after {deadline.waited()}",
    )
    recorder = SimpleNamespace(sample=lambda *_: None)
    player = SimpleNamespace(problem="", started=False, done=True)
    with pytest.raises(RunError, match=r"^The clients did not begin after 0 s$"):
        run._watch_clients(_job(tmp_path, QUICK), cast("Any", recorder), cast("Any", clients), cast("Any", player))


def test_ramp_up_goes_on_while_more_get_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet is waited for beyond the scenario's seconds as long as more of its minions get ready."""
    monkeypatch.setattr(run, "SAMPLE_S", 0.0)
    now, ready = [0.0], [0]

    def sample(_: str) -> SimpleNamespace:
        now[0] += 5
        ready[0] = min(ready[0] + 1, 90)
        return SimpleNamespace(ready=ready[0], authenticated=100, connected=100, minions=wanted)

    def patience(seconds: float, progress: Callable[[], float], least: float) -> Patience:
        return Patience(seconds, progress, least, clock=lambda: now[0], pace=lambda: 1.0)

    monkeypatch.setattr(run, "Patience", patience)
    recorder = cast("Any", SimpleNamespace(sample=sample))
    job = _job(tmp_path, replace(QUICK, ready_s=60))
    wanted = 90
    run._ramp_up(job, recorder)
    assert now[0] == 450
    wanted, now[0], ready[0] = 100, 0.0, 0
    with pytest.raises(StartError, match=r"^Only 90 of 100 minions were ready after \d+ s \(load average"):
        run._ramp_up(job, recorder)
