import pytest
from saltext.query import http
from saltext.query.errors import QueryError


def test_posted():
    assert http.posted({}, "node", {"fields": ["name"], "filter": ["?", "os"]}) == {
        "client": "runner",
        "fun": "query.items",
        "what": "node",
        "fields": ["name"],
        "filter": ["?", "os"],
        "limit": None,
        "offset": 0,
    }


@pytest.mark.parametrize("body", (None, [], {}, [{}]))
def test_without_fields_it_asks_for_them(body):
    assert http.posted({}, "os", body) == {
        "client": "runner",
        "fun": "query.fields",
        "what": "os",
    }


def test_nothing_is_read_before_the_rights_are_checked(monkeypatch):
    """
    Whoever has signed in may ask; the runner decides who gets an answer.
    """
    monkeypatch.setattr("saltext.query.dynamic.names", lambda *args: 1 / 0)
    assert http.posted({"cachedir": "/srv"}, "node", None)["fun"] == "query.fields"
    assert http.posted({"cachedir": "/srv"}, "node", {"fields": ["name"]})


def test_given():
    low = http.given({}, "job", "20261121093000000000", "id,fun", {"limit": "5"})
    assert low["fields"] == ["id", "fun"]
    assert low["filter"] == ["=", "id", "20261121093000000000"]
    assert (low["limit"], low["offset"]) == (5, 0)


@pytest.mark.parametrize(
    "what,body",
    (
        ("nodes", None),
        ("nodes", {"fields": ["name"]}),
        ("node", "name"),
        ("node", {"fields": ["name"], "fun": "cmd.run"}),
        ("node", {"fields": ["name"], "client": "local"}),
        ("node", {"filter": ["?", "os"]}),
        ("node", {"fields": ["name"], "filter": ["?", "nope"]}),
        ("node", {"fields": ["name"], "filter": "name ="}),
        ("node", {"fields": ["name"], "limit": -1}),
        ("node", {"fields": ["name"], "limit": "1e3"}),
        ("node", {"fields": ["name"], "offset": True}),
        ("node", {"fields": 5}),
    ),
)
def test_wrong_requests(what, body):
    """
    They are found before anything is run, and nothing but a query can be run.
    """
    with pytest.raises(QueryError):
        http.posted({}, what, body)


def test_either_a_name_or_a_filter():
    with pytest.raises(QueryError):
        http.given({}, "node", "web1", "name", {"filter": "os"})
