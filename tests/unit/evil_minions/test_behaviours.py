"""Behaviours: their files, what they decide, who gets them, and that chance repeats itself."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from evil_minions import __main__ as commands
from evil_minions.behaviour import Delay, Lognormal, Measured, example, load, names
from evil_minions.errors import UsageError
from evil_minions.fleet import commands as command
from evil_minions.fleet import ramp, worker
from evil_minions.fleet.supervisor import check_fleet
from evil_minions.inventory import GrainsFactory, load_population, load_template
from evil_minions.rng import Assignment, assign, assignment_of, stream
from tests.unit.evil_minions import fleets

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """
description = "good"
[[rules]]
name = "s"
[[examples]]
name = "e"
function = "test.ping"
expect = { rule = "s", return = true }
"""


@pytest.fixture
def write(tmp_path: Path) -> Path:
    """Return a path for a behaviour file."""
    return tmp_path / "mine.toml"


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_examples_of_presets(name: str) -> None:
    """Every example of every shipped behaviour holds, and each has at least one."""
    behaviour = load(name)
    assert behaviour.examples
    assert example.failures(behaviour) == []


def test_the_page_names_presets_that_there_are(root: Path) -> None:
    """Each row of the page is a preset; the command lists all of them, so a new one needs no edit of the page."""
    page = (root / "docs" / "simulated-minions.md").read_text()
    table = page.partition("| preset |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    assert rows
    assert set(rows) <= set(names())


WRONG = [
    ("rules = 3", "`rules` is 3, but has to be a list."),
    ("description = 3", "`description` is 3, but has to be a text."),
    ("", "`description` is missing: give it a text."),
    ("desciption = 'x'", "`desciption` is no key here; the nearest one is `description`."),
    ("format = 2\ndescription = 'x'", "`format` is 2, but has to be 1."),
    ("description = 'x'\n[[rules]]\n", "`rules[1].name` is missing: give it a text."),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\n[[rules]]\nname = 'a'\n",
        "`rules[2].name` is 'a', as another rule's: give it another one.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\ndelay = -1\n",
        "`rules[1].delay` is -1, but has to be from 0 to 1e+06.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\ndelay = { samples = [1, 'x'] }\n",
        "`rules[1].delay.samples` holds 'x', but may hold seconds only.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\ndelay = { seconds = 1, median = 2 }\n",
        "`rules[1].delay.median` and `seconds` exclude each other: leave one out.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\nreturns = 'silence'\n",
        "`rules[1].returns` is 'silence', but has to be one of normal, nothing.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\nreturns = { copies = 0 }\n",
        "`rules[1].returns.copies` is 0, but has to be from 1 to 1000.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\nnext = 'sleep'\n",
        "`rules[1].next` is 'sleep', but has to be one of stay, die.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\nshare = 2\n",
        "`rules[1].share` is 2, but has to be from 0 to 1.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\nevery = 0\n",
        "`rules[1].every` is 0: give some time between two rounds.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\nevery = 1\ndelay = 2\n",
        "`rules[1].delay` is no key here; there are asks, every, minions, name, next, sends, share, weight.",
    ),
    (
        "description = 'x'\n[[rules]]\nname = 'a'\nevery = 1\nasks = 'sky'\n",
        "`rules[1].asks` holds 'sky', but may hold pillar and auth only.",
    ),
    (
        "description = 'x'\n[[examples]]\nname = 'a'\nfunction = 'f'\nexpect = { rule = 'b' }\n",
        "`examples[1].expect.rule` is 'b', but has to be one of none.",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_files(write: Path, text: str, message: str) -> None:
    """What is wrong with a file is said in one sentence with file and key."""
    write.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(write)
    assert str(caught.value) == f"{write}: {message}"


def test_unknown_behaviour() -> None:
    """A name that isn't there is an error with the nearest one."""
    with pytest.raises(UsageError, match=r"^There is no behaviour slow-tale: the nearest preset is slow-tail\.$"):
        load("slow-tale")


def test_switch_to_nothing(write: Path) -> None:
    """A rule that switches to a behaviour that isn't there is found before anything runs."""
    write.write_text("description = 'x'\n[[rules]]\nname = 'a'\nnext = { behaviour = 'no.toml' }\n")
    with pytest.raises(UsageError, match=r"mine\.toml: the rule 'a' can't go on\. There is no behaviour no\.toml: "):
        load(write)


def test_command_checks_a_file(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`behaviours --check` ends with 0 if all examples hold, 1 if not, 2 if the file makes no sense."""
    write.write_text(GOOD)
    assert commands.main(["behaviours", "--check", str(write)]) == 0
    assert capsys.readouterr().out == "mine: 1 example holds.\n"
    write.write_text(GOOD.replace("return = true", "return = 3"))
    assert commands.main(["behaviours", "--check", str(write)]) == 1
    expected = f"{write}: `examples[1]` (e) expects `return` 3, but it is True, for minion-00000.\n"
    assert capsys.readouterr().out == expected
    write.write_text(GOOD.replace('rule = "s"', 'rule = "s", share = [0, 0.5]'))
    assert commands.main(["behaviours", "--check", str(write)]) == 1
    assert "expects 0 to 0.5 of the minions at 's', but it is 1." in capsys.readouterr().out
    write.write_text("x")
    assert commands.main(["behaviours", "--check", str(write)]) == 2


def test_command_checks_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    """A preset is checked by its name, as it is described by it."""
    assert commands.main(["behaviours", "--check", "slow-tail"]) == 0
    assert "examples hold" in capsys.readouterr().out


def test_command_lists_and_describes(capsys: pytest.CaptureFixture[str]) -> None:
    """`behaviours` lists all presets, and describes one."""
    assert commands.main(["behaviours"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == names()
    assert commands.main(["behaviours", "dying-in-mid-job"]) == 0
    assert "returns nothing after 0.5 to 1.5 s; dies" in capsys.readouterr().out


def test_description_of_each() -> None:
    """Each preset can be described."""
    for name in names():
        assert name in command.describe(load(name))


def test_rule_selects(write: Path) -> None:
    """Globs on function and arguments, a target and a share say which rule a job gets."""
    write.write_text(
        """
description = "x"
[[rules]]
name = "web"
function = ["state.*", "!state.sls"]
args = ["test=True", "app*"]
minions = "G@role:web and minion-*"
[[rules]]
name = "half"
function = "test.ping"
share = 0.5
"""
    )
    behaviour = load(write)
    place = example.ExampleFleet.of(0, 400)
    minions = [example.ExampleMinion(place, number, number) for number in range(400)]
    args = ["apple", {"__kwarg__": True, "test": True}]

    def found(function: str, *args: object) -> list[str]:
        chosen = [behaviour.decide(minion, [function], args, 1, 7) for minion in minions]
        return [minion.id for minion, rule in zip(minions, chosen, strict=True) if rule is not None]

    factory = GrainsFactory(load_template(), 1, "127.0.0.1")
    web = [minion.id for minion in minions if factory.build(minion.id, minion.number)["role"] == "web"]
    assert found("state.apply", *args) == web
    assert found("state.apply", "apple") == []
    assert found("state.sls", *args) == []
    assert 160 < len(found("test.ping")) < 240


def test_weights(write: Path) -> None:
    """Each of several rules is as likely as its weight says."""
    write.write_text(
        "description = 'x'\n" + "".join(f"[[rules]]\nname = '{name}'\nweight = {name}\n" for name in (1, 3, 6))
    )
    behaviour = load(write)
    place = example.ExampleFleet.of(0, 1)
    subject = example.ExampleMinion(place, 0, 0)
    found = [behaviour.decide(subject, ["f"], [], 1, stream(1, nth)) for nth in range(4000)]
    counts = Counter(rule.name for rule in found if rule)
    assert [round(counts[name] / 4000, 1) for name in "136"] == [0.1, 0.3, 0.6]


def test_delays_have_their_distribution() -> None:
    """Draws are within the bounds, with the median asked for, and follow the samples."""
    rng = random.Random(1)  # noqa: S311 - no secret

    def draws(delay: Delay) -> list[float]:
        return sorted(delay.draw(rng) for _ in range(4001))

    even = draws(Delay(1.0, 2.0))
    assert 1.0 <= even[0] < 1.1
    assert 1.9 < even[2000] < 2.1
    assert 2.9 < even[-1] <= 3.0
    assert 1.8 < draws(Lognormal(median=2.0, sigma=0.5))[2000] < 2.2
    assert draws(Lognormal(median=2.0, sigma=2.0, most=5.0))[-1] == 5.0
    measured = draws(Measured(samples=(1.0, 1.0, 1.0, 9.0)))
    assert measured[2600] == 1.0
    assert 4.0 < measured[3333] < 6.0
    assert measured[-1] <= 9.0


def test_cast_is_exact_and_seeded() -> None:
    """Shares of a fleet are exact, however many workers divide it, and repeat with the seed."""
    parts = [Assignment("slow", 0.1), Assignment("silent", 0.25)]
    whole = range(1000)
    alone = assign(parts, whole, whole, 1, "behaviours")
    assert Counter(alone.values()) == {"slow": 100, "silent": 250}
    shared = {
        **assign(parts, range(400), whole, 1, "behaviours"),
        **assign(parts, range(400, 1000), whole, 1, "behaviours"),
    }
    assert shared == alone
    assert assign(parts, whole, whole, 2, "behaviours") != alone
    later = Counter(assign(parts, range(1000, 3000), whole, 1, "behaviours").values())
    assert 150 < later["slow"] < 250
    assert 420 < later["silent"] < 580


@pytest.mark.parametrize(
    ("text", "part"), [("silent", Assignment("silent", 1.0)), ("a/b=c.toml=5%", Assignment("a/b=c.toml", 0.05))]
)
def test_part_of_the_command_line(text: str, part: Assignment) -> None:
    """A role stands alone or with its share."""
    assert assignment_of(text, "--behaviour") == part


def test_shares_beyond_the_whole(tmp_path: Path) -> None:
    """Shares of more than 100 % are a usage error."""
    settings = fleets.settings(tmp_path, 10, behaviours=(Assignment("a", 0.6), Assignment("b", 0.6)))
    with pytest.raises(UsageError, match=r"^The shares of --behaviour add up to more than 100 %"):
        settings.check()
    with pytest.raises(UsageError, match=r"^--keys lost is no state of a key: there are accepted, pending"):
        ramp.parts_of("lost=10%")


def test_files_for_the_master(tmp_path: Path) -> None:
    """The files that the master gets accept and reject as the shares say, by Salt's own matching."""
    from salt.utils.stringutils import expr_match  # noqa: PLC0415 - after conftest has tamed Salt's import hook

    settings = fleets.settings(
        tmp_path,
        100,
        keys=ramp.parts_of("pending=10%,rejected=5%,denied=20%"),
        whole=(0, 100),
    )
    ramp.write(settings)
    states = ramp.states(settings)
    assert Counter(states.values()) == {"pending": 10, "rejected": 5, "denied": 20}
    sign = (tmp_path / ramp.AUTOSIGN).read_text().splitlines()
    reject = (tmp_path / ramp.AUTOREJECT).read_text().splitlines()
    for number, name in enumerate(settings.ids()):
        state = states.get(number)
        assert any(expr_match(name, line) for line in sign) == (state not in {"pending", "rejected"})
        assert any(expr_match(name, line) for line in reject) == (state == "rejected")


def test_word_that_the_master_knows(tmp_path: Path) -> None:
    """A file of the master's `autosign_grains_dir` gives the grain and its value, but for keys that are to wait."""
    word = tmp_path / "word"
    word.write_text("# of this master\n\nopen sesame\n")
    settings = fleets.settings(tmp_path, 100, keys=ramp.parts_of("pending=10%,rejected=5%,denied=20%"), whole=(0, 100))
    settings = replace(settings, autosign=word)
    keys = worker.make_keys(settings)
    states = ramp.states(settings)
    for number in range(100):
        knows = states.get(number) not in {"pending", "rejected"}
        assert keys.grains_of(number) == ({"word": "open sesame"} if knows else None)


@pytest.mark.parametrize(
    ("text", "sentence"), [(None, "can't be read: .*; give another"), ("# nothing\n", "no line with")]
)
def test_word_that_is_not_there(tmp_path: Path, text: str | None, sentence: str) -> None:
    """A file without a value is a usage error before anything starts."""
    word = tmp_path / "word"
    if text:
        word.write_text(text)
    settings = fleets.settings(tmp_path, 1)
    with pytest.raises(UsageError, match=sentence):
        check_fleet(replace(settings, autosign=word))


def test_default_population_is_the_built_in_one() -> None:
    """The shipped population gives every minion the grains that it has without one."""
    assert load_population() == load_template()


def test_population_of_a_user(write: Path) -> None:
    """Shares, a system of one's own and values of any type appear in the minions' grains, seeded."""
    write.write_text(
        """
domain = "lab.example"
[systems]
"Debian-12" = 1
"Alpine-3.20" = { share = 3, like = "Debian-12", grains = { os = "Alpine", os_family = "Alpine" } }
[grains]
rack = [{ value = 1, share = 1 }, { value = 2, share = 1 }]
[grains.role]
db = 1
"""
    )
    template = load_population(write)
    grains = [GrainsFactory(template, 5, "m").build(f"minion-{number:05d}", number) for number in range(1000)]
    assert grains == [GrainsFactory(template, 5, "m").build(f"minion-{number:05d}", number) for number in range(1000)]
    assert 700 < sum(own["os"] == "Alpine" and own["osfinger"] == "Alpine-3.20" for own in grains) < 800
    assert 450 < sum(own["rack"] == 1 for own in grains) < 550
    assert {(own["role"], own["domain"]) for own in grains} == {("db", "lab.example")}
    assert [own["os"] for own in grains] != [
        GrainsFactory(template, 6, "m").build(f"minion-{number:05d}", number)["os"] for number in range(1000)
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[systems]\n"Plan 9" = 1', "`systems.Plan 9` names no system of the package; there are Debian-12, "),
        ("[systems]", "`systems` has no shares: give at least one more than 0."),
        ('[systems]\n"Debian-12" = 0', "`systems` has no shares: give at least one more than 0."),
        (
            '[systems]\n"Debian-12" = 1\n[grains.role]\nweb = "x"',
            "`grains.role.web` is 'x', but has to be a whole number.",
        ),
    ],
)
def test_population_that_can_not_be(write: Path, text: str, message: str) -> None:
    """What is wrong with a population is said in one sentence with file and key."""
    write.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_population(write)
    assert str(caught.value).startswith(f"{write}: {message}")


def test_files_in_the_documentation(write: Path, root: Path) -> None:
    """The behaviour and the population that the user's page shows can be used as they are."""
    blocks = re.findall(r"```toml\n(.*?)```", (root / "docs" / "simulated-minions.md").read_text(), re.DOTALL)
    behaviours = [block for block in blocks if "[[rules]]" in block]
    populations = [block for block in blocks if "[systems]" in block]
    assert (len(behaviours), len(populations)) == (1, 1)
    write.write_text(behaviours[0])
    assert example.failures(load(write)) == []
    write.write_text(populations[0])
    assert load_population(write).custom
