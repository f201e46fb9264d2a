"""The table of the zoo is what its evidence says, and each bug in it is proven."""

from __future__ import annotations

from harness import zoo

LEAST = 10


def test_the_page_has_the_table() -> None:
    """Nobody has edited it by hand."""
    assert "\n".join([zoo.BEGIN, *zoo.rows(zoo.read_evidence()), zoo.END]) in zoo.PAGE.read_text(encoding="utf-8")


def test_enough_bugs_are_proven() -> None:
    """Each was found by three of three runs on one Salt, and by none of three on another one."""
    evidence = zoo.read_evidence()
    proven = [number for number in zoo.numbers() if zoo.proven(evidence.get(number, {}))]
    assert len(proven) >= LEAST
    assert set(evidence) <= set(zoo.numbers())


def test_a_topic_is_right_on_the_patched_tree() -> None:
    """A topic that claims to mend a bug does, and the base has that bug."""
    evidence = zoo.read_evidence()
    for number in evidence:
        if zoo.load(number).topic:
            assert set(evidence[number]["patched"]["states"]) == {"right"}, number
            assert set(evidence[number]["3008.5"]["states"]) == {"wrong"}, number


def test_disagreeing_runs_prove_nothing() -> None:
    """Neither do too few of them."""
    wrong, right = {"states": ["wrong"] * 3}, {"states": ["right"] * 3}
    assert zoo.proven({"3008.5": wrong, "patched": right})
    assert not zoo.proven({"3008.5": wrong, "patched": {"states": ["right"] * 2}})
    assert not zoo.proven({"3008.5": {"states": ["wrong", "right", "wrong"]}, "patched": right})
    assert not zoo.proven({"3008.5": wrong})
