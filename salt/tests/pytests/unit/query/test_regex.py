import random
import re
import warnings

import pytest

import salt.query.regex
from salt.query.errors import QueryError, QueryTooDearError
from salt.query.regex import Regex

ATOMS = [
    *["a", "b", "A", "1", ".", r"\d", r"\w", r"\W", r"\s", r"\S", "[ab]", "[^a]"],
    *[r"[^\W\d]", "^", "$", r"\b", r"\B", r"\A", r"\Z", "(?:ab|b)", "(a|)", "(?:)"],
    *["(?i:a)", "[a-c1]", " ", r"\n", "(?s:.)", "(?m:^)", "(?m:$)"],
]
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?"]


def _random_pattern(rand, level=0):
    parts = []
    for _ in range(rand.randint(1, 4)):
        part = rand.choice(ATOMS)
        if level < 3 and rand.random() < 0.3:
            part = "|".join(
                _random_pattern(rand, level + 1) for _ in range(rand.randint(1, 2))
            )
            part = f"({part})"
        parts.append(part + rand.choice(REPEATS))
    return "".join(parts)


def test_same_as_python():
    """
    Whatever is found is what Python's own module finds.
    """
    rand = random.Random(5)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while compared < 3000:
            pattern = rand.choice(["", "", "(?i)", "(?m)", "(?s)", "(?a)"])
            pattern += _random_pattern(rand)
            try:
                expected = re.compile(pattern)
            except re.error:
                with pytest.raises(QueryError):
                    Regex(pattern)
                continue
            ours = Regex(pattern)
            for _ in range(5):
                text = "".join(rand.choices("abABc1 \né", k=rand.randint(0, 7)))
                found = expected.search(text) is not None
                assert (pattern, text, ours.search(text)) == (pattern, text, found)
                compared += 1


@pytest.mark.parametrize(
    "pattern", (r"(a)\1", "(?=a)", "(?!a)", "(?<=a)b", "(?P<x>a)(?P=x)", "(a)?(?(1)b)")
)
def test_what_goes_back_is_refused(pattern):
    with pytest.raises(QueryError, match="Leave out"):
        Regex(pattern)


@pytest.mark.parametrize("pattern", ("(", "[", "*", "a{2,1}", "(?i", "\\"))
def test_wrong_patterns(pattern):
    with pytest.raises(QueryError, match="Correct"):
        Regex(pattern)


@pytest.mark.parametrize(
    "pattern", ("a" * 501, "(a{100}){100}", "((a{50}){50}){50}", "a{1000000}")
)
def test_large_patterns_are_refused(pattern):
    with pytest.raises(QueryTooDearError):
        Regex(pattern)


def test_repeats_of_nothing():
    assert Regex("(?:){1000000}a").search("a")


@pytest.mark.parametrize(
    "pattern", ("(a+)+$", "^(a|a)*$", "^(a*)*$", "a*a*a*a*a*a*a*b", "(.*)*(.*)*x")
)
def test_work_grows_with_the_text_only(pattern):
    """
    Patterns that take Python for ever are searched in so many steps that each
    character of the text is a few of them.
    """
    text = "a" * 20000 + "!"
    regex = Regex(pattern)
    assert not regex.search(text)
    assert regex.work < 2 * len(text)


def test_work_is_bounded(monkeypatch):
    """
    A pattern whose states explode ends with an error, after a bounded number of steps.
    """
    monkeypatch.setattr(salt.query.regex, "MAX_WORK", 100_000)
    rand = random.Random(2)
    regex = Regex("(a|b)*a(a|b){400}c")
    with pytest.raises(QueryTooDearError, match="takes too long"):
        for _ in range(100):
            regex.search("".join(rand.choices("ab", k=1000)))
    assert regex.work < 110_000
