import random
import re
import signal
import threading
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
MORE_ATOMS = [
    *["-", "{", "}", "]", "c", "Z", "_", "\u00e9", r"\.", r"\\", r"\[", r"\x41", r"\D"],
    *["[]a]", "[^]a]", r"[\w-]", r"[^\d\s]", r"[a\]]", "[a-c-]", "[^a-z]", r"[\x41-C]"],
    *[
        "(?P<n>a)",
        "(?i)",
        "(?-i:a)",
        "(?i-s:a.)",
        "(?s-i:A.)",
        "()",
        "(?:|a)",
        "(?:a?b?)",
    ],
    *[
        "(?:a*|b)",
        "(?:a+)+",
        "(?:a*)*",
        "(?:^a|b$)",
        "(?m:^a$)",
        "(?:$|a)",
        r"(?:\b|a)",
    ],
]
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?"]


def _random_pattern(rand, atoms, level=0):
    parts = []
    for _ in range(rand.randint(1, 4)):
        part = rand.choice(atoms)
        if level < 3 and rand.random() < 0.3:
            part = "|".join(
                _random_pattern(rand, atoms, level + 1)
                for _ in range(rand.randint(1, 2))
            )
            part = f"({part})"
        parts.append(part + rand.choice(REPEATS))
    return "".join(parts)


@pytest.mark.parametrize("engine", ("re2", "python"))
def test_same_as_python(engine, monkeypatch):
    """
    Whatever is found is what Python's own module finds.
    """
    if engine == "re2":
        pytest.importorskip("re2")
    else:
        monkeypatch.setattr(saltext.query.regex, "library", lambda: None)
    rand = random.Random(5)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while compared < 3000:
            pattern = rand.choice(["", "", "(?i)", "(?m)", "(?s)", "(?ims)"])
            pattern += _random_pattern(rand, ATOMS)
            try:
                expected = re.compile(pattern)
            except re.error:
                with pytest.raises(QueryError):
                    Regex(pattern)
                continue
            ours = Regex(pattern, Budget(lambda: 0))
            for _ in range(5):
                text = "".join(rand.choices("abABc1 \né", k=rand.randint(0, 7)))
                found = expected.search(text) is not None
                assert (pattern, text, ours.search(text)) == (pattern, text, found)
                compared += 1


@pytest.mark.long
@pytest.mark.parametrize("engine", ("re2", "python"))
def test_a_hundred_thousand_as_python(engine, monkeypatch):
    """
    Where both answer they agree: 100,000 patterns, with six texts each.
    """
    if engine == "re2":
        pytest.importorskip("re2")
    else:
        monkeypatch.setattr(saltext.query.regex, "library", lambda: None)
    rand = random.Random(26)
    answered = by_engine = 0
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while answered < 100_000:
            pattern = rand.choice(["", "", "(?i)", "(?m)", "(?s)", "(?ims)"])
            pattern += _random_pattern(rand, ATOMS + MORE_ATOMS)
            try:
                expected = re.compile(pattern)
            except re.error:
                with pytest.raises(QueryError):
                    Regex(pattern)
                continue
            budget = Budget()
            try:
                ours = Regex(pattern, budget)
            except QueryError:
                continue
            both = False
            with budget.watch():
                for _ in range(6):
                    text = "".join(rand.choices("aabABc1 -_.]{", k=rand.randint(0, 12)))
                    text += rand.choice(["", "", "", "", "\n", "\u00e9"])
                    try:
                        found = budget.run(expected.search, text, pattern) is not None
                        mine = ours.search(text)
                    except QueryTooDearError:
                        break
                    both = True
                    by_engine += text.isprintable() and text.isascii() and bool(text)
                    if mine is not found:
                        wrong.append((pattern, text, found))
            answered += both
    assert not wrong
    assert by_engine > 300_000


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
    "pattern", ("a" * 501, "a{1001}", "a{1000000}", "(?:){1,2000}")
)
def test_large_patterns_are_refused(pattern):
    with pytest.raises(QueryTooDearError):
        Regex(pattern)


@pytest.mark.skipif(
    saltext.query.regex.library() is None, reason="google-re2 is not there"
)
@pytest.mark.parametrize("pattern", ("((a{50}){50}){50}", "(a{1000}){1000}"))
def test_patterns_that_take_much_memory_are_refused(pattern):
    with pytest.raises(QueryTooDearError, match="shorter"):
        Regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    (
        *[
            r"\N{DIGIT ONE}",
            r"\u0041",
            "(?x)a b",
            "(?a)a",
            "(?u)a",
            "(?#a)b",
            "a{,3}",
            "a{,}",
        ],
        *["[[:alpha:]]", "[a&&b]", "[a||b]", "[a~~b]"],
    ),
)
def test_what_other_engines_read_in_another_way_is_refused(pattern):
    with pytest.raises(QueryError, match="Leave"):
        Regex(pattern)


@pytest.mark.parametrize(
    "pattern,text,found",
    (
        *[("a{", "a{", True), ("a{x}", "a{x}", True)],
        *[("[]a]", "]", True), ("[^]a]", "]", False), ("[[]", "[", True)],
        *[(r"b\Z", "ab", True), (r"\x61", "a", True), (r"[\x61]", "a", True)],
        *[(r"\w\b", "\u00e9", True), ("a$", "a\n", True), (r"\s", "\x1c", True)],
        *[("(?i)\u00c9", "\u00e9", True), ("(?i:k)", "\u212a", True), ("", "", True)],
    ),
)
def test_corners(pattern, text, found):
    assert Regex(pattern).search(text) is found


_SLOW = [
    *[
        "(a+)+$",
        "^(a|a)*$",
        "^(a*)*$",
        "(.*)*(.*)*x",
        "(a|aa)+$",
        "(a|a?)+$",
        "^(([a-z])+.)+x$",
    ],
    *[
        "a*a*a*a*a*a*a*b",
        "(?:a?){30}a{30}b",
        "(x+x+)+y",
        "(.*?,){11}P",
        "^(a?){25}a{25}$b",
    ],
    *["([a-zA-Z0-9])(([a-zA-Z0-9])*)*@", "(a|b)*a(a|b){400}c", "(?i)(a|A)+$"],
    *[f"(a{{1,{count}}}){{1,{count}}}b" for count in range(2, 30)],
    *["(" + "a*" * count + ")*b" for count in range(2, 60)],
    *["(" + "|".join(["a"] * count) + ")*b" for count in range(2, 60)],
    *["^" + "(a+)" * count + "$b" for count in range(2, 50)],
]
_TEXTS = [
    "a" * 40,
    "a" * 40 + "!",
    "ab" * 20,
    "x" * 40,
    "a" * 2000 + "!",
    "a" * 30 + "\u00e9",
]


@pytest.mark.parametrize("engine", ("re2", "python"))
def test_slow_ones_answer_or_are_refused(engine, monkeypatch):
    """
    Each of 200 patterns that take Python for ever: without the limit this never ends.
    """
    if engine == "re2":
        pytest.importorskip("re2")
    else:
        monkeypatch.setattr(saltext.query.regex, "library", lambda: None)
    monkeypatch.setattr(saltext.query.regex, "MAX_SECONDS", 0.01)
    monkeypatch.setattr(saltext.query.regex, "EACH_SECONDS", 0)
    assert len(_SLOW) >= 200
    refused = answered = 0
    for pattern in _SLOW:
        try:
            regex = Regex(pattern)
            for number in range(10000):
                regex.search(_TEXTS[number % len(_TEXTS)])
            answered += 1
        except QueryTooDearError:
            refused += 1
    assert refused + answered == len(_SLOW)


class _Clock:
    """
    Each look at it takes so long.
    """

    def __init__(self, seconds=1):
        self.now = 0
        self.seconds = seconds

    def __call__(self):
        self.now += self.seconds
        return self.now


def test_patterns_of_one_budget(monkeypatch):
    """
    Many patterns have together what one has.
    """
    monkeypatch.setattr(saltext.query.regex, "MAX_SECONDS", 1000)
    budget = Budget(_Clock())
    regexes = [Regex(f"{number}$", budget) for number in range(10)]
    budget.left = 5.5
    assert not any(regex.search("a") for regex in regexes[:5])
    with pytest.raises(QueryTooDearError, match="takes too long"):
        regexes[5].search("a")


@pytest.mark.parametrize("engine", ("re2", "python"))
def test_many_quick_searches_are_not_refused(engine, monkeypatch):
    """
    A pattern that is quick on each text is so on 200,000 of them.
    """
    if engine == "re2":
        pytest.importorskip("re2")
    else:
        monkeypatch.setattr(saltext.query.regex, "library", lambda: None)
    clock = _Clock(1.5e-6)
    regex = Regex("zzz$", Budget(clock))
    assert not any(regex.search("web1.example.com") for _ in range(200_000))
    assert clock.now > saltext.query.regex.MAX_SECONDS


def test_after_a_refusal_the_signal_is_as_before():
    before = signal.getsignal(signal.SIGVTALRM)
    regex = Regex("(a+)+$")
    with pytest.raises(QueryTooDearError, match="takes too long"):
        regex.search("a" * 40 + "\u00e9")
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_the_timer_is_set_up_once_for_many_searches(monkeypatch):
    """
    And taken away at the end, also after a refusal; that of others goes on.
    """
    monkeypatch.setattr(saltext.query.regex, "library", lambda: None)
    seen = []
    before = signal.signal(signal.SIGVTALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000, 2000)
    try:
        outer = signal.getsignal(signal.SIGVTALRM)
        budget = Budget()
        regex = Regex("(a+)+$", budget)
        assert signal.getsignal(signal.SIGVTALRM) == outer
        set_up = signal.signal
        monkeypatch.setattr(
            signal, "signal", lambda *args: seen.append(args) or set_up(*args)
        )
        with pytest.raises(QueryTooDearError, match="takes too long"), budget.watch():
            for _ in range(1000):
                assert regex.search("aaa")
            assert len(seen) == 1
            regex.search("a" * 40 + "b")
        assert len(seen) == 2
        assert signal.getsignal(signal.SIGVTALRM) == outer
        delay, interval = signal.getitimer(signal.ITIMER_VIRTUAL)
        assert delay > 900 and interval == pytest.approx(2000)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_what_can_not_be_stopped_searches_no_long_texts(monkeypatch):
    """
    RE2 is given texts that it is soon done with.
    """
    given = []

    class Linear:
        @staticmethod
        def search(text):
            given.append(len(text))

    most = saltext.query.regex.MAX_LINEAR
    regex = Regex("b$", Budget(lambda: 0))
    monkeypatch.setattr(regex, "_linear", Linear)
    assert not any(regex.search("a" * length) for length in (1, most, most + 1))
    assert given == [1, most]


def test_in_a_thread_nothing_runs_without_limit(monkeypatch):
    """
    Where Python can't be stopped, it is not begun.
    """
    told = []

    def search():
        regex = Regex("(a+)+$")
        found = saltext.query.regex.library()
        for engine in (found, None):
            monkeypatch.setattr(
                saltext.query.regex, "library", lambda engine=engine: engine
            )
            try:
                regex.search("a" * 40 + "\u00e9")
            except QueryTooDearError as exc:
                told.append(str(exc))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert len(told) == 2
    assert "Install google-re2" in told[1]


@pytest.mark.parametrize(
    "pattern",
    ("^web", r"^web\d+\.dc1\.", "(?i)WEB[0-9a-f]+", r"[a-z0-9.-]+\.com$", "zzz$"),
)
def test_ordinary_patterns_over_many_names(pattern):
    regex = Regex(pattern, Budget(lambda: 0))
    names = [f"web{number:05}.dc{number % 2}.example.com" for number in range(10000)]
    found = sum(map(regex.search, names))
    assert found == (5000 if "dc1" in pattern else 0 if "zzz" in pattern else 10000)
