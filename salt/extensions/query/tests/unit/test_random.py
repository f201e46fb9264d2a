"""
Random filters, against an evaluator that was written from the documentation alone.
"""

import random

import pytest
import saltext.query
from evaluator import evaluate, text_order
from saltext.query.compare import text_key
from saltext.query.engine import Query
from saltext.query.text import parse

VALUES = [
    *(
        "24.10",
        "24.1",
        "24.04",
        "9.4",
        "15",
        "12",
        "007",
        "7",
        "4",
        "0",
        "10",
        "v2",
        "v10",
    ),
    *(
        "3006.9",
        "3006.10",
        "3007.0",
        "3007.0rc1",
        "3007.0~rc1",
        "1.1.1b",
        "1.1.1",
        "1.0a2",
    ),
    *(
        "5.4.0",
        "5.15",
        "5.15.0-91-generic",
        "Debian",
        "debian",
        "web2",
        "web10",
        "web02",
    ),
    *("true", "True", "false", "x1", "1x", "1.0-1", "1.0.1", "-3", "3.", ".5", "a b"),
]
OTHERS = [
    4,
    7,
    24.1,
    0,
    -3,
    10,
    1.5,
    True,
    False,
    3006,
    [4, "4"],
    ["24.10"],
    [True],
    {},
]
FIELDS = [f"grain.f{number}" for number in range(4)]


def _filter(rand, levels):
    """
    Return a filter as a tree and as a text.
    """
    kind = rand.random()
    if levels and kind < 0.45:
        if kind < 0.12:
            tree, text = _filter(rand, levels - 1)
            return ("not", tree), f"not ({text})"
        word = rand.choice(("and", "or"))
        parts = [_filter(rand, levels - 1) for _ in range(rand.randint(2, 3))]
        return (word, *[tree for tree, _ in parts]), f" {word} ".join(
            f"({text})" for _, text in parts
        )
    field = rand.choice(FIELDS)
    if kind < 0.55:
        return ("true", field), field
    if kind < 0.62:
        return ("missing", field), f"{field} is missing"
    value = rand.choice(VALUES)
    written = f'"{value}"' if " " in value or rand.random() < 0.3 else value
    if kind < 0.7:
        values = [rand.choice(VALUES) for _ in range(rand.randint(1, 3))]
        listed = ", ".join(f'"{one}"' for one in values)
        negated = rand.random() < 0.5
        tree = ("in", field, values)
        text = f"{field} {'not ' * negated}in ({listed})"
        return (("not", tree) if negated else tree), text
    if kind < 0.76:
        return ("has", field, value), f"{written} in {field}"
    word = rand.choice(("==", "!=", "<", "<=", ">", ">="))
    return (word, field, value), f"{field} {word} {written}"


class _Item:
    context = None

    def __init__(self, values):
        self.name = "web1"
        self.values = values

    def document(self, _bank, _name):
        return self.values


def _compare(seed, count):
    rand = random.Random(seed)
    itemtype = saltext.query.item_type({}, "node")
    differences = []
    seen = set()
    for _ in range(count):
        tree, text = _filter(rand, 3)
        query = Query(itemtype, [], parse(text, Query(itemtype, []).known))
        values = {
            field: rand.choice(VALUES if rand.random() < 0.7 else OTHERS)
            for field in FIELDS
            if rand.random() < 0.8
        }
        grains = {field.partition(".")[2]: value for field, value in values.items()}
        result = query.filter.holds(_Item(grains))
        seen.add(result)
        if result is not evaluate(tree, values):
            differences.append((text, values, result))
    assert seen == {True, False, None}
    return differences


def test_random_filters():
    assert _compare(1, 3000) == []


@pytest.mark.long
def test_many_random_filters():
    assert _compare(2, 50_000) == []


def test_the_order_is_the_same_for_sorting():
    rand = random.Random(3)
    texts = [
        *VALUES,
        *["".join(rand.choices("aAbB1209.~-v", k=6)) for _ in range(2000)],
    ]
    assert sorted(texts, key=text_key) == sorted(texts, key=text_order)
