"""How large a fleet a machine can hold, told before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import __main__ as cli
from harness.bed import fleet
from harness.bed.fleet import Machine, Need
from harness.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Machine(memory_mb=4096.0, cores=2, files=65_536, ports=28_232)
LARGE = Machine(memory_mb=1e6, cores=64, files=-1, ports=100_000)


def test_every_lack_is_named() -> None:
    """A fleet that is too large is told with its memory, its time and its files, and all that is missing of it."""
    with pytest.raises(SettingsError) as caught:
        fleet.check_capacity(100_000, pillars=True, machine=SMALL)
    text = str(caught.value)
    assert text.startswith("100,000 minions need about ")
    for words in (
        " GB of memory, ",
        " minutes until all are ready, and 100,500 open files in one process of the master, but ",
        "4.0 GB of memory are available",
        "the hard limit of open files is 65,536 (as root: `ulimit -Hn 100500`)",
        "one address can connect 28,232 times to a port",
    ):
        assert words in text
    assert text.count("\n") == 0


def test_two_sizes_have_two_texts() -> None:
    """Twice the minions need more of everything."""
    texts = []
    for minions in (100_000, 200_000):
        with pytest.raises(SettingsError) as caught:
            fleet.check_capacity(minions, pillars=False, machine=SMALL)
        texts.append(str(caught.value).split(" until")[0])
    assert texts[0].split()[5:] != texts[1].split()[5:]
    assert [text.split()[0] for text in texts] == ["100,000", "200,000"]


@pytest.mark.parametrize("pillars", [True, False])
def test_the_advice_is_possible(*, pillars: bool) -> None:
    """What is told as the most that a machine can hold is not refused by it."""
    most = fleet.most(SMALL, pillars=pillars)
    assert most > 1000
    assert fleet.check_capacity(most, pillars=pillars, machine=SMALL).minions == most
    tiny = Machine(memory_mb=100.0, cores=1, files=600, ports=10)
    assert fleet.most(tiny, pillars=pillars) == 0


def test_a_large_machine() -> None:
    """A machine that has it all is asked for nothing, and the estimate says how long it takes there."""
    need = fleet.check_capacity(100_000, pillars=False, machine=LARGE)
    assert need == Need.of(100_000, 64, pillars=False)
    # no fleet begins more than 300 sign-ins a second
    assert need.ready_s == pytest.approx(100_000 / 300)


def test_this_machine(tmp_path: Path) -> None:
    """A limit of the group of processes counts, and none is none."""
    (tmp_path / "max").write_text("1048576\n")
    (tmp_path / "none").write_text("max\n")
    (tmp_path / "ports").write_text("32768\t60999\n")
    assert Machine.here(tmp_path / "max", tmp_path / "ports").memory_mb == 1.0
    found = Machine.here(tmp_path / "none", tmp_path / "ports")
    assert found.memory_mb > 1.0
    assert found.ports == 28_232


@pytest.mark.parametrize("command", ["load", "up"])
def test_a_fleet_that_is_too_large_starts_nothing(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both commands refuse with 2 before there is so much as a folder."""
    monkeypatch.setattr(Machine, "here", lambda: SMALL)
    assert cli.main([command, "--tree", "stock", "--minions", "100000", "--folder", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.startswith("100,000 minions need about ")
    assert list(tmp_path.iterdir()) == []
