"""
The request, the response and the fields query, by the examples of the specification.
"""

import gc
import json
import pathlib
import random

import field_pages
import pytest
import saltext.query
import saltext.query.compare
import saltext.query.context
import saltext.query.engine
from saltext.query.errors import QueryError
from saltext.query.field import Field, alias, table
from saltext.query.item import Item, ItemType, named
from saltext.query.kinds import KINDS, MISSING_NODATA, MISSING_OFFLINE, MISSING_UNAVAIL

import salt.utils.files

NODES = {
    "node1": {"mfree": 128, "mtotal": 4096, "nics": ["192.0.2.1", "192.0.2.2"]},
    "node2": {"mfree": 96, "mtotal": 5000, "nics": ["192.0.2.21", "192.0.2.39"]},
    "node3": {"nics": ["192.0.2.30"]},
}


def _value(key):
    return lambda item: NODES[item.name].get(key, MISSING_NODATA)


def _nic(number):
    def get(item):
        nics = NODES[item.name]["nics"]
        return nics[number] if number < len(nics) else MISSING_UNAVAIL

    return Field(f"nic{number}.ip", f"Nic.IP/{number}", "text", "Address", get)


@pytest.fixture
def example(monkeypatch):
    """
    The item type of the specification's examples.
    """
    itemtype = ItemType(
        "node",
        "Nodes of the examples",
        [
            Field("name", "Name", "text", "Name", lambda item: item.name, host=True),
            Field("mfree", "MemFree", "unit", "Free memory", _value("mfree")),
            Field("mtotal", "MemTotal", "unit", "Memory", _value("mtotal")),
            *[_nic(number) for number in range(4)],
        ],
        lambda context, names: (Item(context, name) for name in named(NODES)),
    )
    monkeypatch.setattr("saltext.query.api.item_type", lambda opts, what: itemtype)
    return itemtype


def test_data_query_of_the_specification(example):
    """
    The example response, but for its third cell with a value that is not available: a
    status other than normal has no value.
    """
    names = ["name", "mfree", "xyz", "mtotal", "nic0.ip", "nic1.ip", "nic2.ip"]
    ret = saltext.query.items({}, "node", names)
    assert set(ret) == {"fields", "data"}
    assert [(one["name"], one["title"], one["kind"]) for one in ret["fields"]] == [
        ("name", "Name", "text"),
        ("mfree", "MemFree", "unit"),
        ("xyz", None, "unknown"),
        ("mtotal", "MemTotal", "unit"),
        ("nic0.ip", "Nic.IP/0", "text"),
        ("nic1.ip", "Nic.IP/1", "text"),
        ("nic2.ip", "Nic.IP/2", "text"),
    ]
    assert ret["data"] == [
        [
            (0, "node1"),
            (0, 128),
            (1, None),
            (0, 4096),
            (0, "192.0.2.1"),
            (0, "192.0.2.2"),
            (3, None),
        ],
        [
            (0, "node2"),
            (0, 96),
            (1, None),
            (0, 5000),
            (0, "192.0.2.21"),
            (0, "192.0.2.39"),
            (3, None),
        ],
        [
            (0, "node3"),
            (2, None),
            (1, None),
            (2, None),
            (0, "192.0.2.30"),
            (3, None),
            (3, None),
        ],
    ]


def test_request_of_the_specification(example):
    """
    A request is a dictionary, whose filter names items, with the inner part repeated.
    """
    rule = ["|", ["=", "name", "node2"], ["=", "name", "node1"]]
    ret = saltext.query.items({}, "node", ["name"], rule)
    assert ret["data"] == [[(0, "node2")], [(0, "node1")]]


def test_empty_filter_means_all(example):
    assert len(saltext.query.items({}, "node", ["name"], None)["data"]) == 3
    with pytest.raises(QueryError, match="leave it out"):
        saltext.query.items({}, "node", ["name"], " ")


@pytest.mark.parametrize(
    "query",
    (
        {"what": "node", "fields": "name"},
        {"what": "node", "fields": [1]},
        {"what": "node", "fields": ["name"] * 1001},
        {"what": "node", "fields": ["name"], "limit": -1},
        {"what": "node", "fields": ["name"], "limit": True},
        {"what": "node", "fields": ["name"], "limit": "1"},
        {"what": "node", "fields": ["name"], "offset": None},
    ),
)
def test_wrong_requests(example, query):
    with pytest.raises(QueryError):
        saltext.query.items({}, **query)


def test_fields_query_of_the_specification(example):
    """
    Without names, all fields in natural order.
    """
    ret = saltext.query.fields({}, "node")
    assert [one["name"] for one in ret["fields"]] == [
        "mfree",
        "mtotal",
        "name",
        "nic0.ip",
        "nic1.ip",
        "nic2.ip",
        "nic3.ip",
    ]
    assert ret["fields"][0] == {
        "name": "mfree",
        "title": "MemFree",
        "kind": "unit",
        "doc": "Free memory",
    }


def test_fields_query_of_names(example):
    """
    Given names come back in their order, also twice, and unknown ones as such.
    """
    ret = saltext.query.fields({}, "node", ["name", "xyz", "mfree", "name"])
    assert [(one["name"], one["kind"]) for one in ret["fields"]] == [
        ("name", "text"),
        ("xyz", "unknown"),
        ("mfree", "unit"),
        ("name", "text"),
    ]


def test_field_that_is_named_twice(example):
    ret = saltext.query.items({}, "node", ["name", "name"], limit=1)
    assert ret["data"] == [[(0, "node1"), (0, "node1")]]


def test_old_format(example):
    """
    Values alone, with None for what is missing.
    """
    ret = saltext.query.old_format(saltext.query.items({}, "node", ["name", "mfree"]))
    assert ret == [["node1", 128], ["node2", 96], ["node3", None]]


def test_old_format_fails_for_unknown_fields(example):
    """
    The example of the specification's "current state", which is to fail and to name the
    field.
    """
    response = saltext.query.items({}, "node", ["name", "UnknownField"])
    with pytest.raises(QueryError, match="UnknownField"):
        saltext.query.old_format(response)


@pytest.mark.parametrize(
    "limit,offset,names,following",
    (
        (0, 0, [], None),
        (2, 0, ["node1", "node2"], "node2"),
        (2, 2, ["node3"], None),
        (3, 0, ["node1", "node2", "node3"], None),
        (None, 1, ["node2", "node3"], None),
        (5, 7, [], None),
        (1, "node1", ["node2"], "node2"),
        # it is gone meanwhile
        (2, "node1a", ["node2", "node3"], None),
        (None, "node3", [], None),
    ),
)
def test_paging(example, limit, offset, names, following):
    ret = saltext.query.items({}, "node", ["name"], None, limit, offset)
    assert [row[0][1] for row in ret["data"]] == names
    assert (ret["total"], ret["offset"], ret["next"]) == (3, offset, following)


@pytest.mark.parametrize("limit", (1, None))
def test_a_name_is_no_place_in_what_is_sorted(example, limit):
    with pytest.raises(QueryError, match="'next' of the page before"):
        saltext.query.items({}, "node", ["name"], None, limit, "node1", sort="-name")


def test_paging_by_names(example):
    rule = ["|", *[["=", "name", name] for name in ("node3", "node2", "node1")]]
    ret = saltext.query.items({}, "node", ["name"], rule, 1, 1)
    assert ret["data"] == [[(0, "node2")]]
    assert ret["total"] == 3


@pytest.mark.parametrize("is_frozen", [False, True])
def test_collector_leaves_alone_what_was_there_before(example, monkeypatch, is_frozen):
    """
    Python's collector looks only at what the query makes, and is then as it was.
    """
    seen = []

    def get(item):
        seen.append(gc.get_freeze_count() > 0)
        raise QueryError("Wrong.")

    monkeypatch.setattr(example.fields["mfree"], "get", get)
    try:
        if is_frozen:
            gc.freeze()
        with pytest.raises(QueryError):
            saltext.query.items({}, "node", ["mfree"])
        assert seen == [True]
        assert (gc.get_freeze_count() > 0) == is_frozen
    finally:
        gc.unfreeze()


def test_names_and_filters_agree(example):
    """
    What the way for names finds is what the general way finds.
    """
    rand = random.Random(7)
    pool = ["node1", "NODE2", "node", "node3", "nope", "node3.example.com"]
    for _ in range(200):
        chosen = [rand.choice(pool) for _ in range(rand.randint(0, 4))]
        rule = ["|", *[["=", "name", name] for name in chosen]]
        quick = saltext.query.items({}, "node", ["name"], rule)
        general = saltext.query.items({}, "node", ["name"], ["&", rule])
        assert sorted(quick["data"]) == general["data"]


def test_wrong_type_of_items():
    known = saltext.query.item_types({})
    assert {"instance", "job", "lock", "node", "os"}.issubset(known)
    with pytest.raises(QueryError, match=f"one of {', '.join(known)}, not"):
        saltext.query.items({}, "nodes", ["name"])
    with pytest.raises(QueryError):
        saltext.query.fields({}, ["node"])


@pytest.mark.parametrize("what", saltext.query.item_types({}))
def test_definitions_of_all_types(what):
    """
    Each type has fields. That they keep the rules is seen when they are made, here it
    is that they reach clients.
    """
    itemtype = saltext.query.item_type({}, what)
    assert itemtype.name == what
    ret = saltext.query.fields({}, what)["fields"]
    assert ret
    json.dumps(ret)
    titles = [
        field.title.lower()
        for field in itemtype.fields.values()
        if field.alias_of is None
    ]
    assert len(set(titles)) == len(titles)
    assert all(one["kind"] in KINDS and one["kind"] != "unknown" for one in ret)


@pytest.mark.parametrize(
    "name,title,kind,doc",
    (
        ("Name", "Name", "text", "Name"),
        ("name\n", "Name", "text", "Name"),
        ("", "Name", "text", "Name"),
        ("a-b", "Name", "text", "Name"),
        ("name", "The Name", "text", "Name"),
        ("name", "Name\n", "text", "Name"),
        ("name", "", "text", "Name"),
        ("name", "Name", "text", "name"),
        ("name", "Name", "text", "Name."),
        ("name", "Name", "text", "Name?"),
        ("name", "Name", "text", "Name\nand more"),
        ("name", "Name", "text", "Name\n"),
        ("name", "Name", "text", ""),
    ),
)
def test_wrong_definitions(name, title, kind, doc):
    """
    A definition that breaks a rule can't be made.
    """
    with pytest.raises(ValueError):
        table(Field(name, title, kind, doc, str))


def test_wrong_kind():
    with pytest.raises(KeyError):
        Field("name", "Name", "string", "Name", str)


def test_titles_are_unique_but_of_aliases():
    first = Field("name", "Name", "text", "Name", str)
    assert list(table(first, alias("id", first))) == ["name", "id"]
    with pytest.raises(ValueError, match="title"):
        table(first, Field("id", "NAME", "text", "Identifier", str))
    with pytest.raises(ValueError, match="two fields"):
        table(first, first)


NAN = float("nan")

CELLS = [
    # kind, value, whether it is of the kind
    ("text", "a", True),
    ("text", "", True),
    ("text", 1, False),
    ("text", None, False),
    ("text", b"a", False),
    ("bool", True, True),
    ("bool", 1, False),
    ("number", 1, True),
    ("number", True, False),
    ("number", 1.0, False),
    ("number", 2**63, False),
    ("unit", 1, True),
    ("unit", 1.5, False),
    ("float", 1.5, True),
    ("float", 1, True),
    ("float", False, False),
    ("float", NAN, False),
    ("float", float("inf"), False),
    ("timestamp", 1.5, True),
    ("timestamp", "1", False),
    ("other", {"a": [1, None, "b"]}, True),
    ("other", {1: 2}, False),
    ("other", [b"a"], False),
    ("other", [NAN], False),
    ("other", object(), False),
]


@pytest.mark.parametrize("kind,value,right", CELLS)
def test_cells_keep_their_kind(kind, value, right):
    """
    What is not of the field's kind is not passed on.
    """
    field = Field("a", "A", kind, "A", lambda item: value)
    assert field.cell(None) == ((0, value) if right else (3, None))


def test_deep_values_are_no_endless_work():
    value = []
    for _ in range(10000):
        value = [value]
    assert Field("a", "A", "other", "A", lambda item: value).cell(None) == (3, None)


@pytest.mark.parametrize(
    "missing,cell",
    (
        (MISSING_NODATA, (2, None)),
        (MISSING_UNAVAIL, (3, None)),
        (MISSING_OFFLINE, (4, None)),
    ),
)
def test_missing_cells_have_no_value(missing, cell):
    assert Field("a", "A", "text", "A", lambda item: missing).cell(None) == cell


def test_natural_order():
    names = ["web10", "web2", "Web1", "db", "web2a", "web02", "10", "9", "1" * 5000]
    assert sorted(names, key=saltext.query.compare.text_key)[:8] == [
        "9",
        "10",
        "1" * 5000,
        "db",
        "Web1",
        "web02",
        "web2",
        "web2a",
    ]


@pytest.mark.parametrize(
    "name,wanted,same",
    (
        ("web2", "web2", True),
        ("web2.example.com", "web2", True),
        ("web2.example.com", "WEB2.Example", True),
        ("web21.example.com", "web2", False),
        ("web2", "web2.example.com", False),
        ("web2.example.com", "example", False),
    ),
)
def test_hosts(name, wanted, same):
    assert (wanted.lower() in saltext.query.compare.leading(name)) is same


@pytest.mark.parametrize("what", saltext.query.item_types({}))
def test_documentation_is_made_of_the_definitions(what):
    """
    If this fails, run ``python tests/unit/field_pages.py docs``.
    """
    page = pathlib.Path(__file__).parents[2] / "docs" / f"{what}.rst"
    with salt.utils.files.fopen(page) as handle:
        assert handle.read() == field_pages.rst(what)


def test_a_field_that_fails_costs_a_cell(example, monkeypatch):
    """
    Neither the other cells nor a filter by it are lost.
    """
    field = Field("odd", "Odd", "number", "Odd one", lambda item: 1 / (item.name < "b"))
    example.fields["odd"] = field
    ret = saltext.query.items({}, "node", ["name", "odd"])
    assert ret["data"] == [[(0, name), (3, None)] for name in NODES]
    assert saltext.query.items({}, "node", ["name"], ["<", "odd", 5])["data"] == []


@pytest.mark.parametrize(
    "text,expected",
    [
        ("import nonesuch_module\n", "role.py: No module named 'nonesuch_module'."),
        ("def item_type(:\n", "role.py: invalid syntax"),
        ("import sys\nsys.exit(3)\n", "role.py: 3."),
        ("x = 1\n", "role.py: it has no item_type()"),
        (
            "def item_type():\n    raise ValueError('no name')\n",
            "Correct the item type role: ValueError: no name.",
        ),
        (
            "def item_type():\n    return Item\n",
            "Correct the item type role: NameError: name 'Item' is not defined.",
        ),
        (
            "def item_type():\n    pass\n",
            "Correct the item type role: its item_type() returns no ItemType.",
        ),
    ],
)
def test_an_item_type_of_a_site_that_is_broken(tmp_path, text, expected):
    """
    It is not called missing, and the others work.
    """
    folder = tmp_path / "query_types"
    folder.mkdir()
    (folder / "role.py").write_text(text)
    opts = {"module_dirs": [str(tmp_path)]}
    with pytest.raises(QueryError) as told:
        saltext.query.items(opts, "role", ["name"])
    assert expected in str(told.value)
    assert saltext.query.item_type(opts, "lock").name == "lock"


def test_an_item_type_of_a_site_that_refuses_itself(tmp_path):
    folder = tmp_path / "query_types"
    folder.mkdir()
    (folder / "licensed.py").write_text(
        "def __virtual__():\n    return False, 'no license'\n"
    )
    with pytest.raises(QueryError, match="licensed.py: .* refuses to be loaded"):
        saltext.query.item_type({"module_dirs": [str(tmp_path)]}, "licensed")


@pytest.mark.parametrize(
    "text,expected",
    [
        ("import nonesuch_module\n", "rack.py: No module named 'nonesuch_module'."),
        ("x = 1\n", "rack.py: it has no source()"),
        (None, "Add a module 'rack' to query_sources"),
    ],
)
def test_a_source_of_a_site_that_is_broken(tmp_path, text, expected):
    folder = tmp_path / "query_sources"
    folder.mkdir()
    if text is not None:
        (folder / "rack.py").write_text(text)
    context = saltext.query.context.Context({"module_dirs": [str(tmp_path)]}, (), 0)
    with pytest.raises(QueryError) as told:
        context.source("rack")
    assert expected in str(told.value)
