import os
from unittest.mock import MagicMock, patch  # pylint: disable=blacklisted-module

import pytest
import saltext.query
import saltext.query.documents
import saltext.query.output.query as outputter
from saltext.query.errors import QueryError
from saltext.query.runners import query

import salt.config
import salt.payload
import salt.runner
import salt.utils.files


@pytest.fixture(autouse=True)
def opts(master, monkeypatch):
    master.opts["max_event_size"] = 1048576
    monkeypatch.setattr(query, "__opts__", master.opts, raising=False)
    return master.opts


def plain(data):
    """
    Return what arrives at the other end of the bus.
    """
    return salt.payload.loads(salt.payload.dumps(data))


def test_items(master):
    master.minion("web1", os="Debian")
    assert query.items("node", "name,os", 'os == "Debian"') == saltext.query.items(
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
    assert rows == plain(saltext.query.items(master.opts, "node", fields)["data"])


def test_a_table_that_is_cut_says_so(master, capsys, monkeypatch):
    """
    20,081 nodes are more than fit: the outputter names what is missing, below the table
    and for whoever reads only the table.
    """
    for number in range(20081):
        master.key(f"web{20261121000000000000 + number}")
    ret = plain(query.items("node", ["name", "key_state", "name", "xyz"]))
    monkeypatch.setattr(outputter, "__opts__", {}, raising=False)
    lines = outputter.output(ret).splitlines()
    shown = len(ret["data"])
    assert shown < 20081
    last = ret["data"][-1][0][1]
    note = f"{shown} of 20081 items; go on with offset {last}"
    assert len(lines) == 1 + shown + 1
    assert lines[-1] == f"({note})"
    assert note in capsys.readouterr().err


def test_a_page_is_not_built_before_it_is_cut(master, monkeypatch):
    """
    What is not sent is counted and not read.
    """
    master.opts["max_event_size"] = 20000
    for number in range(500):
        master.minion(f"web{number}", roles=["x" * 500])
    read = []
    fetch = saltext.query.documents.Documents.fetch
    monkeypatch.setattr(
        saltext.query.documents.Documents,
        "fetch",
        lambda self, *args: (read.append(1), fetch(self, *args))[1],
    )
    ret = query.items("node", "name, roles")
    assert len(read) == len(ret["data"]) + 1 < 40
    assert (ret["total"], ret["next"]) == (500, f"web{len(ret['data']) - 1}")


def test_count(master):
    for number in range(3):
        master.minion(f"web{number}", os="Debian")
    ret = query.count("node", "os")
    assert ret["data"] == [[(0, "Debian"), (0, 3)]]
    assert ret["counted"] == 3


def test_what_fits_is_not_paged(master):
    master.key("web1")
    assert set(query.items("node", ["name"])) == {"fields", "data"}


def test_limit(master):
    for number in range(5):
        master.key(f"web{number}")
    ret = query.items("node", ["name"], limit=2, offset=1)
    assert ret["data"] == [[(0, "web1")], [(0, "web2")]]
    assert (ret["total"], ret["offset"], ret["next"]) == (5, 1, "web2")


def test_a_row_that_is_too_large(master):
    """
    The largest values of an item that no event has room for are not available.
    """
    master.opts["max_event_size"] = 2000
    for number in range(3):
        master.minion(f"web{number}", roles=["x" * 3000] if number else [])
    ret = query.items("node", ["name", "roles"])
    assert (ret["data"], ret["next"]) == ([[(0, "web0"), (0, [])]], "web0")
    ret = query.items("node", ["name", "roles"], offset="web0")
    assert ret["data"] == [[(0, "web1"), (3, None)]]


def test_the_request_takes_room_as_well(master):
    """
    What is asked is in the event of the answer.
    """
    names = [f"web{number:05}" for number in range(20000)]
    for name in names:
        master.key(name)
    for count in (20000, 25000):
        rule = ["|", *(["=", "name", name] for name in names[:count])]
        rule += [["=", "name", "x" * 100]] * (count - 20000)
        request = ["node", ["name"] * 5, rule]
        if count > 20000:
            with pytest.raises(QueryError, match="shorter filter"):
                query.items(*request)
            continue
        ret = query.items(*request)
        assert ret["next"]
        event = {"fun_args": request, "return": ret}
        assert len(salt.payload.dumps(event)) < master.opts["max_event_size"]


def test_fields():
    assert query.fields("node", "name,xyz") == saltext.query.fields(
        {}, "node", ["name", "xyz"]
    )
    assert query.fields("os") == saltext.query.fields({}, "os")


def test_wrong_requests():
    with pytest.raises(QueryError):
        query.items("nodes", ["name"])
    with pytest.raises(QueryError):
        query.items("node", ["name"], "name =")


@pytest.fixture
def client(master):
    """
    A client of runners that finds this one as a master does.
    """
    opts = salt.config.master_config(None)
    opts.update(master.opts, root_dir="/", conf_file="/etc/salt/master")
    os.makedirs(os.path.join(opts["cachedir"], "proc"))
    with (
        patch("salt.utils.event.get_event", MagicMock()),
        patch("salt.utils.job.store_job"),
        patch("salt.client.mixins.SyncClientMixin.mminion", None),
    ):
        ret = salt.runner.RunnerClient(opts)
        yield ret
    if hasattr(ret, "destroy"):
        # since 3008
        ret.destroy()


def test_salt_run(client, master):
    """
    The runner is found, and its answer is no failure: Salt's own check of what it takes
    for states says so in the event only, unless the topic query-api is there.
    """
    master.key("web1")
    ret = client.cmd(
        "query.items", ["node", "name"], print_event=False, full_return=True
    )
    assert ret["return"]["data"] == [[(0, "web1")]]
    assert not ret.get("retcode")


def test_salt_run_tells_what_is_wrong(client):
    """
    One sentence, and the exit code 1
    """
    ret = client.cmd(
        "query.items", ["nodes", "name"], print_event=False, full_return=True
    )
    with pytest.raises(QueryError) as exc:
        query.items("nodes", "name")
    # a Salt without the topic runner-errors adds a traceback
    assert str(exc.value) in ret["return"]
    assert (ret["success"], ret["retcode"]) == (False, 1)
