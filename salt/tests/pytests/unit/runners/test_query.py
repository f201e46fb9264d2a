import pytest

import salt.payload
import salt.query
import salt.runners.query as query
from salt.query.errors import QueryError
from tests.pytests.unit.query.conftest import Master


@pytest.fixture
def master(tmp_path):
    return Master(tmp_path)


@pytest.fixture
def configure_loader_modules(master):
    master.opts["max_event_size"] = 1048576
    return {query: {"__opts__": master.opts}}


def plain(data):
    """
    Return what arrives at the other end of the bus.
    """
    return salt.payload.loads(salt.payload.dumps(data))


def test_items(master):
    master.minion("web1", os="Debian")
    assert query.items("node", "name,os", 'os == "Debian"') == salt.query.items(
        master.opts, "node", ["name", "os"]
    )


def test_20000_rows_arrive_whole(master):
    """
    Each page is small enough for the bus, and all of them are what Python gets.
    """
    for number in range(20000):
        job = f"{20261121000000000000 + number}"
        master.key(f"web{job}")
    fields = ["name", "key_state", "name", "xyz"]
    rows, offset, pages = [], 0, 0
    while offset is not None:
        ret = query.items("node", fields, offset=offset)
        assert len(salt.payload.dumps(ret)) < master.opts["max_event_size"]
        assert ret["total"] == 20000
        rows += plain(ret)["data"]
        offset = ret["next"]
        pages += 1
    assert pages > 1
    assert rows == plain(salt.query.items(master.opts, "node", fields)["data"])


def test_what_fits_is_not_paged(master):
    master.key("web1")
    assert set(query.items("node", ["name"])) == {"fields", "data"}


def test_limit(master):
    for number in range(5):
        master.key(f"web{number}")
    ret = query.items("node", ["name"], limit=2, offset=1)
    assert ret["data"] == [[(0, "web1")], [(0, "web2")]]
    assert (ret["total"], ret["offset"], ret["next"]) == (5, 1, 3)


def test_a_row_that_is_too_large_still_counts(master):
    """
    No page is empty, or whoever follows them would never come to an end.
    """
    master.opts["max_event_size"] = 2000
    for number in range(3):
        master.minion(f"web{number}", roles=["x" * 3000])
    ret = query.items("node", ["roles"])
    assert (len(ret["data"]), ret["next"]) == (1, 1)


def test_fields():
    assert query.fields("node", "name,xyz") == salt.query.fields(
        "node", ["name", "xyz"]
    )
    assert query.fields("os") == salt.query.fields("os")


def test_wrong_requests():
    with pytest.raises(QueryError):
        query.items("nodes", ["name"])
    with pytest.raises(QueryError):
        query.items("node", ["name"], "name =")
