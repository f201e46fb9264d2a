import itertools
import random

import pytest
import saltext.query.filters
from saltext.query.errors import QueryError
from saltext.query.field import Field, Known, alias, table
from saltext.query.filters import Filter
from saltext.query.kinds import MISSING_NODATA

_NAME = Field("name", "Name", "text", "Name", lambda item: item["name"], host=True)

FIELDS = table(
    _NAME,
    alias("id", _NAME),
    *[
        Field(
            kind,
            kind.title(),
            kind,
            "Doc",
            lambda item, kind=kind: item.get(kind, MISSING_NODATA),
        )
        for kind in ("text", "bool", "number", "unit", "float", "timestamp", "other")
    ],
)

KNOWN = Known(FIELDS)

ITEM = {
    "name": "web2.example.com",
    "text": "Debian 12",
    "bool": True,
    "number": 4,
    "unit": 4096,
    "float": 0.5,
    "timestamp": 1000.5,
    "other": ["a", 1, [2], True],
}
EMPTY = {"name": "web3"}


def holds(rule, item=None):
    return Filter(rule, KNOWN).holds(ITEM if item is None else item)


@pytest.mark.parametrize(
    "rule,result",
    (
        (None, True),
        (["|"], False),
        (["&"], True),
        (["!", ["|"]], True),
        (["!", ["&"]], False),
        (["=", "name", "web2"], True),
        (["=", "name", "WEB2.example"], True),
        (["==", "name", "web2.example.com"], True),
        (["=", "name", "web"], False),
        (["!=", "name", "web2"], False),
        (["!=", "name", "web"], True),
        (["=", "id", "web2"], True),
        (["=", "text", "Debian 12"], True),
        (["=", "text", "debian 12"], False),
        (["=", "text", "Debian"], False),
        (["!=", "text", "Debian"], True),
        (["<", "text", "Debian 2"], False),
        (["<", "text", "Debian 100"], True),
        (["<=", "text", "Debian 12"], True),
        ([">", "text", "Debian 12"], False),
        ([">=", "text", "Debian 12"], True),
        (["=~", "text", "ian"], True),
        (["=~", "text", "^ian"], False),
        (["=~", "text", "[0-9]+$"], True),
        (["=~", "text", "(?i)DEB"], True),
        (["=~", "name", "example"], True),
        (["?", "text"], True),
        (["?", "bool"], True),
        (["?", "number"], True),
        (["=", "bool", True], True),
        (["!=", "bool", True], False),
        (["=", "number", 4], True),
        (["=", "number", 4.0], True),
        (["=", "number", 4.5], False),
        (["!=", "number", 5], True),
        (["<", "number", 4.5], True),
        (["<=", "number", 4], True),
        ([">", "number", 4], False),
        ([">=", "number", 4], True),
        ([">", "unit", 4000], True),
        (["=", "float", 0.5], True),
        (["<", "float", 1], True),
        ([">", "timestamp", 1000], True),
        (["=", "timestamp", 1000.5], True),
        (["=[]", "other", "a"], True),
        (["=[]", "other", "b"], False),
        (["=[]", "other", [2]], True),
        (["=", "other", ["a", 1, [2], True]], True),
        (["=", "other", ["a", True, [2], True]], False),
        (["!=", "other", []], True),
        (["&", ["=", "number", 4], ["=", "text", "x"]], False),
        (["|", ["=", "number", 5], ["=", "unit", 4096]], True),
        (["!", ["=", "number", 5]], True),
        (("&", ("=", "number", 4)), True),
    ),
)
def test_filters(rule, result):
    assert holds(rule) is result


@pytest.mark.parametrize(
    "rule,result",
    (
        (["=", "text", "x"], None),
        (["!=", "text", "x"], None),
        (["!", ["=", "text", "x"]], None),
        (["<", "number", 1], None),
        (["=~", "text", "."], None),
        (["=[]", "other", 1], None),
        (["?", "bool"], None),
        (["!", ["?", "bool"]], None),
        (["missing", "bool"], True),
        (["!", ["missing", "bool"]], False),
        (["missing", "name"], False),
        (["&", ["=", "text", "x"], ["=", "name", "web3"]], None),
        (["&", ["=", "text", "x"], ["=", "name", "web4"]], False),
        (["|", ["=", "text", "x"], ["=", "name", "web3"]], True),
        (["|", ["=", "text", "x"], ["=", "name", "web4"]], None),
        (["|", ["=", "text", "x"], ["!=", "text", "x"]], None),
    ),
)
def test_filters_on_missing_data(rule, result):
    """
    What is missing is neither the same nor different.
    """
    assert holds(rule, EMPTY) is result


DEEP = ["=", "number", 4]
for _ in range(9):
    DEEP = ["!", DEEP]


def test_ten_levels_are_allowed():
    assert holds(DEEP) is False


@pytest.mark.parametrize(
    "rule",
    (
        ["!", DEEP],
        [],
        "x",
        1,
        True,
        {},
        [[]],
        [None],
        [1, 2],
        [["="], "name", "x"],
        [{}, "name", "x"],
        ["|", 1],
        ["&", "name"],
        ["&", []],
        ["!"],
        ["!", ["&"], ["&"]],
        ["!", "bool"],
        ["?"],
        ["?", "bool", "text"],
        ["?", "nope"],
        ["?", ["=", "name", "x"]],
        ["=", "name"],
        ["=", "name", "x", "y"],
        ["=", "nope", "x"],
        ["=", ["name"], "x"],
        ["=", None, "x"],
        ["in", "name", "x"],
        ["=*", "name", "x"],
        ["=", "name", 1],
        ["=", "text", None],
        ["=", "text", True],
        ["=", "bool", 1],
        ["=", "bool", "true"],
        ["=", "number", "4"],
        ["=", "number", True],
        ["<", "number", None],
        ["=", "number", float("nan")],
        ["=", "unit", "4X"],
        ["<", "timestamp", "soon"],
        ["=", "timestamp", "7d"],
        ["<", "number", "4G"],
        ["=", "other", object()],
        ["<", "bool", True],
        ["<", "other", []],
        ["=~", "number", "4"],
        ["=~", "other", "4"],
        ["=~", "text", 4],
        ["=~", "text", "("],
        ["=[]", "text", "a"],
        ["=[]", "number", 1],
        ["=[]", "other", b"a"],
    ),
)
def test_wrong_filters(rule):
    """
    All that can be wrong is found before any item is seen.
    """
    with pytest.raises(QueryError):
        Filter(rule, KNOWN)


@pytest.mark.parametrize(
    "rule,result",
    (
        (["=", "unit", "4G"], True),
        (["<", "unit", "4.5g"], True),
        ([">", "unit", "4096M"], False),
        ([">=", "unit", "4194304 KiB"], True),
        ([">", "timestamp", "1d"], True),
        (["<", "timestamp", "1d"], False),
        (["<", "timestamp", "50y"], False),
        (["<", "timestamp", "2026-11-21"], True),
        ([">", "timestamp", "2026-11-21T10:00"], False),
    ),
)
def test_numbers_as_people_write_them(rule, result):
    """
    Sizes, dates and ages; the time is that of 1970, so it is more than 50 years old.
    """
    assert holds(rule) is result


@pytest.mark.parametrize(
    "value,found", (("web", "web"), ("web", ["web"]), (1, 1), ([2], [[2]]))
)
def test_a_list_of_one_without_brackets(value, found):
    assert holds(["=[]", "other", value], {**ITEM, "other": found}) is True
    assert holds(["=[]", "other", "no"], {**ITEM, "other": found}) is False


def test_names_within_names():
    """
    The parts of a request may have been put together: the order is kept.
    """
    rule = ["|", ["|", ["=", "name", "b"], ["=", "name", "a"]], ["=", "id", "c"]]
    assert Filter(rule, KNOWN).names == ["b", "a", "c"]


def test_many_comparisons_are_refused():
    rule = ["|", *[["!=", "text", "x"]] * (saltext.query.filters.MAX_TERMS + 1)]
    with pytest.raises(QueryError):
        Filter(rule, KNOWN)


@pytest.mark.parametrize("word", ("&", "|", "!"))
def test_empty_groups_count_as_well(word):
    """
    Each of them is looked at for each item.
    """
    group = ["!", ["&"]] if word == "!" else [word]
    rule = ["&", *[group] * (saltext.query.filters.MAX_TERMS + 1)]
    with pytest.raises(QueryError, match="at most 1000"):
        Filter(rule, KNOWN)


def test_what_just_fits():
    most = saltext.query.filters.MAX_TERMS
    assert most == 1000
    Filter(["|", *[["!=", "text", "x"]] * (most - 1)], KNOWN)


def test_many_names_are_not():
    rule = ["|", *[["=", "name", "x"]] * 5000]
    assert holds(rule) is False


def _random_rule(rand, levels):
    if levels and rand.random() < 0.6:
        word = rand.choice("|&!")
        count = 1 if word == "!" else rand.randint(0, 3)
        return [word, *[_random_rule(rand, levels - 1) for _ in range(count)]]
    kind = rand.choice(["number", "text", "bool", "other"])
    if rand.random() < 0.2:
        return ["?", kind]
    value = {
        "number": rand.randint(3, 5),
        "text": rand.choice(["Debian 12", "x"]),
        "bool": rand.random() < 0.5,
        "other": [],
    }[kind]
    words = ["=", "!="]
    if kind in ("number", "text"):
        words += ["<", ">="]
    return [rand.choice(words), kind, value]


def _oracle(rule, item):
    """
    The same by strong Kleene logic, as of a textbook: false < unknown < true.
    """
    word = rule[0]
    if word == "!":
        return 1 - _oracle(rule[1], item)
    if word == "|":
        return max((_oracle(one, item) for one in rule[1:]), default=0)
    if word == "&":
        return min((_oracle(one, item) for one in rule[1:]), default=1)
    value = item.get(rule[1])
    if value is None:
        return 0.5
    if word == "?":
        return int(bool(value))
    return int(
        {
            "=": value == rule[2],
            "!=": value != rule[2],
            "<": word == "<" and value < rule[2],
            ">=": word == ">=" and value >= rule[2],
        }[word]
    )


def test_random_filters():
    """
    Each agrees with its double negation and with an independent implementation.
    """
    rand = random.Random(11)
    values = {0: False, 0.5: None, 1: True}
    kinds = ("number", "text", "bool", "other")
    items = [
        {key: ITEM[key] for key in chosen}
        for size in range(5)
        for chosen in itertools.combinations(kinds, size)
    ]
    for _ in range(400):
        rule = _random_rule(rand, 4)
        for item in items:
            result = holds(rule, item)
            assert result is values[_oracle(rule, item)]
            assert holds(["!", ["!", rule]], item) is result


@pytest.mark.parametrize(
    "rule,names",
    (
        (["=", "name", "a"], ["a"]),
        (["==", "id", "a"], ["a"]),
        (["|", ["=", "name", "b"], ["=", "name", "a"]], ["b", "a"]),
        (["|", ["=", "name", "b"], ["=", "name", "b"]], ["b"]),
        (["|", ["=", "name", "b"], ["=", "text", "a"]], None),
        (["|"], None),
        (["|", ["!=", "name", "b"]], None),
        (["&", ["=", "name", "b"]], None),
        (["=", "text", "a"], None),
    ),
)
def test_names_of_filters(rule, names):
    assert Filter(rule, KNOWN).names == names
