"""
Each format is read back by a reader of it, whatever minions have sent.
"""

import csv
import io
import itertools
import json
import shutil
import subprocess

import pytest
from saltext.query import render

HOSTILE = [
    "Debian;evil",
    'a,"b"',
    "two\nlines",
    "\r\n",
    "tab\there",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "\u200f",
    " blanks ",
    '"',
    "'",
    "\\n",
    "=1+1",
    "\u4e2d\u6587",
    "e\u0301",
    "a|b",
    "null",
    "\x00",
    "\u2028",
]

FIELDS = [
    {"name": "name", "title": "Name", "kind": "text", "doc": "Name"},
    {"name": "grain./3b", "title": "grain.;", "kind": "other", "doc": "Value"},
    {"name": "size", "title": "Size", "kind": "unit", "doc": "Size"},
    {"name": "up", "title": "Up", "kind": "bool", "doc": "Up"},
]


def response():
    rows = [
        [(0, text), (0, [text, {"a": text}]), (0, 4096), (0, True)] for text in HOSTILE
    ]
    rows.append([(2, None), (3, None), (4, None), (0, False)])
    return {"fields": FIELDS, "data": rows}


def test_csv():
    """
    In a pipe the values are as they are.
    """
    text = "".join(line + "\n" for line in render.csv(response(), str))
    reader = csv.DictReader(io.StringIO(text, newline=""))
    rows = list(reader)
    assert reader.fieldnames == [one["name"] for one in FIELDS]
    assert [row["name"] for row in rows] == [*HOSTILE, ""]
    for text, row in zip(HOSTILE, rows):
        assert json.loads(row["grain./3b"]) == [text, {"a": text}]
        assert (row["size"], row["up"]) == ("4096", "true")
    assert list(rows[-1].values()) == ["", "", "", "false"]


def test_csv_of_one_column():
    """
    What is missing there is a row and no empty line.
    """
    found = {"fields": FIELDS[:1], "data": [[(2, None)], [(0, "x")]]}
    text = "".join(line + "\n" for line in render.csv(found, str))
    assert list(csv.reader(io.StringIO(text))) == [["name"], [""], ["x"]]


def test_json():
    line = json.dumps(response())
    assert line.isascii() and line.isprintable()
    found = json.loads(line)
    assert [row[0] for row in found["data"]] == [
        *[[0, text] for text in HOSTILE],
        [2, None],
    ]


def test_json_lines():
    """
    One item on each line, whatever is in it.
    """
    text = "".join(line + "\n" for line in render.json_lines(response()))
    found = [json.loads(line) for line in text.splitlines()]
    assert [one["name"] for one in found] == [*HOSTILE, None]
    assert found[0] == {
        "name": HOSTILE[0],
        "grain./3b": [HOSTILE[0], {"a": HOSTILE[0]}],
        "size": 4096,
        "up": True,
    }
    assert found[-1] == {
        "name": None,
        "grain./3b": None,
        "size": None,
        "up": False,
        "_missing": {"name": "nodata", "grain./3b": "unavail", "size": "offline"},
    }


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize(
    "format_,program",
    (
        (render.json_lines, '[.name, .["grain./3b"], .size, .up, ._missing]'),
        (lambda found: [json.dumps(found)], ".data[] | map(.[1]) + [null]"),
    ),
)
def test_jq(format_, program):
    """
    A reader that is not Python's finds the same values.
    """
    text = "".join(line + "\n" for line in format_(response()))
    done = subprocess.run(
        ["jq", "--compact-output", program],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    # not splitlines(): jq escapes no line ends of other scripts
    found = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert [row[:4] for row in found] == [
        *[[text, [text, {"a": text}], 4096, True] for text in HOSTILE],
        [None, None, None, False],
    ]
    if format_ is render.json_lines:
        missing = {"name": "nodata", "grain./3b": "unavail", "size": "offline"}
        assert [row[4] for row in found] == [*[None] * len(HOSTILE), missing]


@pytest.mark.parametrize("separator", (";", ",", "|", "\t", "e"))
def test_separator(separator):
    """
    A value with the separator does not move the columns; what a terminal would obey is
    escaped there in any case.
    """
    text = "".join(
        line + "\n" for line in render.lines(response(), separator=separator)
    )
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    assert {len(row) for row in rows} == {4}
    assert [row[0] for row in rows[1:]] == [*map(render.shown, HOSTILE), "?"]
    assert text.replace("\n", "").replace("\t", "").isprintable()


def test_on_a_terminal_nothing_is_obeyed():
    for width, colours in itertools.product((None, 200, 40, 20), (None, {})):
        for line in render.lines(response(), width=width, colours=colours):
            assert line.isprintable()
    for line in render.csv(response(), render.shown):
        assert line.isprintable()


def test_titles_are_escaped():
    fields = [{"name": "x\x1b[2J", "title": None, "kind": "unknown", "doc": None}]
    assert "".join(render.lines({"fields": fields, "data": []})).isprintable()


@pytest.mark.parametrize(
    "units,text", (("h", "4.0G"), ("m", "4096"), ("g", "4.0"), ("t", "0.0"))
)
def test_units(units, text):
    assert render.value("unit", (0, 4096), units=units) == text


def test_counts_have_a_total():
    found = {"fields": FIELDS[:1], "data": [[(0, "a")], [(0, "b")]], "counted": 7}
    assert list(render.lines(found))[-1] == "7 items in 2 groups"
    found = {"fields": FIELDS[:1], "data": [[(0, "a")]], "counted": 1}
    assert list(render.lines(found))[-1] == "1 item in 1 group"


def test_job_ids_are_whole_on_a_terminal():
    """
    Other values give way, however narrow the terminal is.
    """
    jid = "20261129093000123456"
    found = {
        "fields": [FIELDS[0], {**FIELDS[0], "name": "other", "title": "Other"}],
        "data": [[(0, jid), (0, "x" * 30)], [(0, f"{jid}_4711"), (0, "y" * 30)]],
    }
    rows = list(render.lines(found, width=20))
    assert [row.split()[0] for row in rows] == ["Name", jid, f"{jid}_4711"]
    assert [len(row.split()[1]) for row in rows[1:]] == [12, 12]
    rows = list(render.lines(found, width=42))
    assert [len(row) for row in rows[1:]] == [42, 42]


def test_notes():
    """
    What is not shown is told.
    """
    live = {
        "fields": ["alive"],
        "answered": 8,
        "offline": 1,
        "not_asked": 2,
        "cached": 3,
        "age": 4,
        "reasons": {"The queue is paused": 2},
    }
    found = {"data": [1] * 5, "total": 20, "offset": 5, "next": "web9", "live": live}
    assert list(render.notes({**found, "damaged": 1})) == [
        "5 of 20 items; go on with offset web9",
        "8 minions answered, 1 offline, of 2 there is no answer, 3 asked up to 4 s ago",
        "no answer, 2: The queue is paused",
        "1 damaged document in the cache, shown as no data: see the log",
    ]
    assert list(render.notes({"data": [], "untold": 1, "undecided": 2})) == [
        "2 items not judged, as the master lacks the data; 'FIELD is missing' shows them",
        "1 minion without the data in the mine: add the function that sends it, such as"
        " pkg.list_pkgs, to mine_functions",
    ]
    live.update(answered=1, offline=0, not_asked=0, cached=0, reasons={})
    assert list(render.notes({"data": [], "live": live})) == ["1 minion answered"]
    assert not list(render.notes({"data": []}))
