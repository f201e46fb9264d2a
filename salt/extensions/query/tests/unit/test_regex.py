import random
import re
import warnings

import pytest
import saltext.query.regex
from saltext.query.errors import QueryError, QueryTooDearError
from saltext.query.regex import Budget, Regex

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
    monkeypatch.setattr(saltext.query.regex, "MAX_WORK", 100_000)
    rand = random.Random(2)
    regex = Regex("(a|b)*a(a|b){400}c")
    with pytest.raises(QueryTooDearError, match="takes too long"):
        for _ in range(100):
            regex.search("".join(rand.choices("ab", k=1000)))
    assert regex.work < 110_000


def test_patterns_of_one_budget(monkeypatch):
    """
    Many patterns have together what one has.
    """
    monkeypatch.setattr(saltext.query.regex, "MAX_WORK", 1000)
    budget = Budget()
    regexes = [Regex(f"{number}$", budget) for number in range(10)]
    with pytest.raises(QueryTooDearError, match="takes too long"):
        for regex in regexes:
            regex.search("a" * 400)
    assert budget.work == regexes[0].work < 1500


@pytest.mark.parametrize("pattern", ("[ac-eg-ik-m]{300}x", "(?i)[a-c]{300}x"))
def test_what_is_dear_counts_more(pattern):
    cheap, dear = Regex("a{300}x"), Regex(pattern)
    for regex in (cheap, dear):
        for length in range(300):
            regex.search("a" * length + "!")
    assert dear.work > 2 * cheap.work


def test_what_is_kept_is_bounded(monkeypatch):
    """
    States are forgotten in time, and what is found is the same.
    """
    monkeypatch.setattr(saltext.query.regex, "_MAX_KEPT", 500)
    budget = Budget()
    patterns = ["(a|b)*a(a|b){9}c", r"\b(a|b|c)*a$", "a|bc"]
    regexes = [Regex(pattern, budget) for pattern in patterns]
    rand = random.Random(3)
    for _ in range(300):
        text = "".join(rand.choices("abc ", k=rand.randint(0, 30)))
        for regex in regexes:
            found = re.search(regex.pattern, text) is not None
            assert regex.search(text) == found
            assert budget.kept <= 500


@pytest.mark.parametrize(
    "pattern", ("^web", r"^web\d+\.dc1\.", "(?i)WEB[0-9a-f]+", r"[a-z0-9.-]+\.com$")
)
def test_ordinary_patterns_over_many_names(pattern):
    regex = Regex(pattern)
    names = [f"web{number:05}.dc{number % 2}.example.com" for number in range(10000)]
    assert sum(map(regex.search, names)) == (5000 if "dc1" in pattern else 10000)
    assert regex.work < saltext.query.regex.MAX_WORK / 10
