"""Turns: who is asked when."""

from __future__ import annotations

from benchmarks.benchmark import Options, interleave


def test_who_comes_first_changes_with_each_turn() -> None:
    """Everybody is asked once a turn, and everybody comes first as often."""
    asked: list[tuple[str, int]] = []

    def ask(name: str, turn: int) -> int:
        asked.append((name, turn))
        return turn

    found = interleave({"a": lambda turn: ask("a", turn), "b": lambda turn: ask("b", turn)}, Options(1, 4))
    assert asked == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2), ("b", 3), ("a", 3)]
    assert found == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}


def test_warm_turns_are_thrown_away() -> None:
    """What comes before the first turn leaves no sample and is no progress."""
    told: list[tuple[int, int]] = []
    options = Options(1, 2, lambda done, total: told.append((done, total)))
    assert interleave({"a": lambda turn: turn}, options, warm=3) == {"a": [0, 1]}
    assert told == [(1, 2), (2, 2)]
