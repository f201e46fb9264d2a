import pytest
import saltext.query.output.query as outputter
from saltext.query import render

RESPONSE = {
    "fields": [
        {"name": "name", "title": "Name", "kind": "text", "doc": "Name"},
        {"name": "mtotal", "title": "MTotal", "kind": "unit", "doc": "Memory"},
        {"name": "online", "title": "Online", "kind": "bool", "doc": "Online"},
        {"name": "nope", "title": None, "kind": "unknown", "doc": None},
        {"name": "roles", "title": "Roles", "kind": "other", "doc": "Roles"},
    ],
    "data": [
        [(0, "web1"), (0, 4608), (0, True), (1, None), (0, ["a", "b"])],
        [(0, "web2.example.com"), (2, None), (4, None), (1, None), (3, None)],
    ],
}


def lines(*args, **kwargs):
    return list(render.lines(*args, **kwargs))


def test_table():
    """
    Columns are one blank apart, numbers to the right, and the last one is not padded.
    """
    assert lines(RESPONSE) == [
        "Name             MTotal Online nope Roles",
        "web1               4.5G Y      ??   a,b",
        "web2.example.com      ? *      ??   -",
    ]


def test_table_with_a_number_at_its_end():
    response = {
        "fields": RESPONSE["fields"][:2],
        "data": [row[:2] for row in RESPONSE["data"]],
    }
    assert lines(response, verbose=True) == [
        "Name               MTotal",
        "web1                 4.5G",
        "web2.example.com (nodata)",
    ]


def test_separator():
    """
    Nothing is padded, and sizes stay in mebibytes.
    """
    assert lines(RESPONSE, separator="|", headers=False) == [
        "web1|4608|Y|??|a,b",
        "web2.example.com|?|*|??|-",
    ]


def test_verbose():
    assert lines(RESPONSE, separator=" ", verbose=True)[2] == (
        "web2.example.com (nodata) (offline) (unknown) (unavail)"
    )


def test_colours():
    """
    What is missing has a colour, and the columns stay where they are.
    """
    colours = {"LIGHT_RED": "<", "YELLOW": "<", "DARK_GRAY": "<", "ENDC": ">"}
    assert lines(RESPONSE, colours=colours)[2] == (
        "web2.example.com      <?> <*>      <??>   <->"
    )


def test_narrow():
    """
    In a table that is wider than the terminal the values of the widest columns are cut.
    None gets narrower than twelve characters.
    """
    assert lines(RESPONSE, width=41)[0].startswith("Name ")
    assert lines(RESPONSE, width=38) == [
        "Name          MTotal Online nope Roles",
        "web1            4.5G Y      ??   a,b",
        "web2.example…      ? *      ??   -",
    ]
    assert lines(RESPONSE, width=30)[2] == "web2.exampl…      ? *      ??   -"


def test_unknown_columns_are_hidden():
    response, names = render.known(RESPONSE)
    assert names == ["nope"]
    assert lines(response, separator=" ") == [
        "Name MTotal Online Roles",
        "web1 4608 Y a,b",
        "web2.example.com ? * -",
    ]


def test_nothing():
    assert not lines({"fields": [], "data": [[], []]})
    assert lines({"fields": RESPONSE["fields"][:1], "data": []}) == ["Name"]


@pytest.mark.parametrize(
    "kind,found,text",
    (
        ("text", "a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ("bool", False, "N"),
        ("number", -3, "-3"),
        ("float", 0.5, "0.5"),
        ("unit", 0, "0M"),
        ("unit", 1023, "1023M"),
        ("unit", 1024, "1.0G"),
        ("unit", 1536 * 1024, "1.5T"),
        ("timestamp", 10**30, str(10**30)),
        ("other", {"b": [1], "a": None}, '{"a": null, "b": [1]}'),
        ("other", [1, "a"], '[1, "a"]'),
        ("other", "a", "a"),
        ("colour of tomorrow", ["a"], "a"),
    ),
)
def test_values(kind, found, text):
    assert render.value(kind, (0, found)) == text


def test_times():
    assert render.value("timestamp", (0, 86400.5), plain=True) == "86400.5"
    assert len(render.value("timestamp", (0, 86400))) == len("1970-01-02 00:00:00")


def test_statuses_of_tomorrow():
    assert render.value("text", (7, None)) == "(7)"


def test_outputter(monkeypatch):
    monkeypatch.setattr(outputter, "__opts__", {"color": False}, raising=False)
    assert outputter.output(RESPONSE).splitlines()[1].startswith("web1 ")
    found = outputter.output({"fields": RESPONSE["fields"][3:4]})
    assert found.splitlines()[1] == "nope unknown -     -"


#: What a terminal obeys, and how it is shown.
OBEYED = {
    "\x1b[2J": "\\x1b[2J",
    "\x9b31m": "\\x9b31m",
    "\x07": "\\x07",
    "\x7f": "\\x7f",
    "a\r\nb\t": "a\\r\\nb\\t",
    "\u202eabc": "\\u202eabc",
    "\u2028": "\\u2028",
    "\udc9b": "\\udc9b",
}


@pytest.mark.parametrize("separator,width", ((None, None), (None, 80), ("|", None)))
@pytest.mark.parametrize("kind", ("text", "other", "of tomorrow"))
@pytest.mark.parametrize("text", OBEYED)
def test_nothing_in_a_cell_is_obeyed(kind, text, separator, width):
    fields = [{"name": text, "title": None, "kind": kind, "doc": None}]
    value = text if kind == "text" else [text]
    response = {"fields": fields, "data": [[(0, value)]]}
    found = lines(response, separator=separator, width=width)
    assert found == [OBEYED[text], OBEYED[text]]


def test_notes_are_not_obeyed_either(monkeypatch, capsys):
    """
    Reasons come with events.
    """
    monkeypatch.setattr(outputter, "__opts__", {"color": False}, raising=False)
    live = {"answered": 0, "offline": 0, "not_asked": 1, "cached": 0}
    live["reasons"] = {"left out\x1b[2J\nx": 1}
    printed = outputter.output({**RESPONSE, "live": live})
    assert printed.splitlines()[-1] == "(no answer, 1: left out\\x1b[2J\\nx)"
    assert "\x1b" not in capsys.readouterr().err
