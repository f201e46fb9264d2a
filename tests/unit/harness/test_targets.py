"""What is refused before a load run starts anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness import __main__ as cli
from harness.errors import ScenarioError
from harness.scenarios import scenario
from harness.scenarios.clients import Arrival, Clients

if TYPE_CHECKING:
    from pathlib import Path

IDS = [f"minion-{number:05d}" for number in range(5)]
ONE = Clients("one", "api", "test.ping", "*", Arrival("burst", burst=1))
QUICK = scenario.load(scenario.find("quick"))


@pytest.mark.parametrize(
    ("tgt", "tgt_type", "expected"),
    [
        ("*", "glob", True),
        ("minion-0000[34]", "glob", True),
        ("minion-00005", "glob", False),
        ("web*", "glob", False),
        ("minion-00009,minion-00004", "list", True),
        ("minion-00009,web", "list", False),
        ("os:none", "grain", True),
        ("web.*", "pcre", True),
    ],
)
def test_matches(tgt: str, tgt_type: str, expected: bool) -> None:  # noqa: FBT001 - what is expected
    """Globs and lists are checked against the ids; the rest is the fleet's to tell."""
    assert scenario.matches(tgt, tgt_type, IDS) is expected


def test_target_of_nobody() -> None:
    """Clients that target nobody are refused with their name."""
    wrong = replace(QUICK, clients=(ONE, replace(ONE, name="web", tgt="web*")))
    expected = r"^The clients `web` target none of the 5 minions \(minion-00000 to minion-00004\) with 'web\*': change"
    with pytest.raises(ScenarioError, match=expected):
        scenario.check(wrong, IDS)


def test_empty_schedule() -> None:
    """A schedule without a request is refused."""
    nothing = replace(QUICK, clients=(replace(ONE, arrival=Arrival("poisson", rate=0.001, duration_s=1.0)),))
    with pytest.raises(ScenarioError, match="holds no request, so there is nothing to measure"):
        scenario.check(nothing, IDS)


@pytest.mark.parametrize("name", scenario.names())
def test_own_scenarios_pass(name: str) -> None:
    """Every scenario of ours targets somebody and has requests."""
    found = scenario.load(scenario.find(name))
    scenario.check(found, [f"minion-{number:05d}" for number in range(found.minions)])


def test_nothing_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with 2 and one sentence, and makes no folder."""
    path = tmp_path / "mine.toml"
    clients = '[[clients]]\nkind = "api"\nfunction = "test.ping"\ntgt = "web*"\nburst = 1\n'
    path.write_text(f'description = "x"\nminions = 3\n{clients}')
    # any folder with the two files that make it a tree of Salt: none of it is run
    (tmp_path / "tree" / "scripts").mkdir(parents=True)
    (tmp_path / "tree" / "scripts" / "salt-master").write_text("")
    words = ["load", "--scenario", str(path), "--tree", str(tmp_path / "tree"), "--folder", str(tmp_path / "runs")]
    assert cli.main(words) == 2
    assert capsys.readouterr().err.startswith("The clients `api test.ping` target none of the 3 minions")
    assert not (tmp_path / "runs").exists()
