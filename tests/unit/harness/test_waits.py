"""The first picture: what it says of each block of clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.report import series
from harness.results.evidence import Answer


def answer(clients: str, number: int, wait: float, error: str = "", answered: int = 3) -> Answer:
    """Return the answer to a request that was due a second after the load's start."""
    return Answer(clients, "test.ping", number, 101.0, 101.0 + wait, 3, answered, error)


def evidence(*answers: Answer) -> Any:
    """Return samples with these answers."""
    return SimpleNamespace(answers=list(answers), moments=[], timeline=SimpleNamespace(load_start=100.0))


def test_blocks_in_the_scenarios_order() -> None:
    """Blocks stand as the scenario has them; one without a request is left out."""
    found = series.blocks([answer("b", 0, 1), answer("a", 0, 1), answer("b", 1, 1)], ["a", "none", "b"])
    assert [(name, len(answers)) for name, answers in found.items()] == [("a", 1), ("b", 2)]


def test_picture_says_what_it_shows() -> None:
    """Each tree has its own part, with the complete answers of all and of each block."""
    stock = evidence(answer("people", 0, 9, "timeout", 0), answer("people", 1, 9, "1 of 3", 1), answer("one", 0, 1))
    svg = series.waits({"stock": stock, "patched": evidence(answer("people", 0, 2))}, ["people", "one"], "waits")
    assert (
        'aria-label="How long each request waited. stock: 1 of 3 complete (people 0 of 2, one 1 of 1). '
        'patched: 1 of 1 complete (people 1 of 1)."'
    ) in svg
    for text in ("stock: 1 of 3 complete", "patched: 1 of 1 complete", ">0 of 2<", ">1 of 1<", ">people<"):
        assert text in svg
    for state in ("good", "warn", "bad"):
        assert f"var(--{state})" in svg


def test_picture_of_nothing() -> None:
    """A run without a request has an empty picture, no error."""
    assert "stock: 0 of 0 complete" in series.waits({"stock": evidence()}, ["people"], "waits")


def test_long_names_are_cut() -> None:
    """A name has the room beside the bars, and no more."""
    name = "a very long name of clients that nobody would read in a picture"
    svg = series.waits({"stock": evidence(answer(name, 0, 1))}, [name], "waits")
    assert f">{name[: series.LONGEST - 1]}…<" in svg
