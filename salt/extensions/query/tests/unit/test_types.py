"""
The item types, over a master's folders.
"""

import os
from unittest.mock import patch  # pylint: disable=blacklisted-module

import pytest
import saltext.query
import saltext.query.context
import saltext.query.sources.queue
from fleet import answering
from saltext.query.kinds import is_kind

import salt.payload
import salt.utils.files
import salt.utils.jid

GRAINS = {
    "os": "Debian",
    "os_family": "Debian",
    "osfinger": "Debian-12",
    "osmajorrelease": 12,
    "osrelease": "12.5",
    "kernel": "Linux",
    "mem_total": 4096,
    "num_cpus": 4,
    "ipv4": ["127.0.0.1", "10.0.0.1"],
    "ip4_interfaces": {
        "lo": ["127.0.0.1"],
        "eth10": ["10.0.0.10"],
        "eth2": ["10.0.0.1"],
    },
}

JID = "20261121093000000000"
START = 1795253400.0


def ask(master, what, fields, filter_=None, **more):
    """
    Ask, and check that each cell is of its column's kind.
    """
    ret = saltext.query.items(master.opts, what, fields, filter_, **more)
    for row in ret["data"]:
        assert len(row) == len(ret["fields"])
        for field, (status, value) in zip(ret["fields"], row):
            if status:
                assert status in (1, 2, 3, 4) and value is None
            else:
                assert is_kind(field["kind"], value)
    return ret["data"]


@pytest.fixture
def connected():
    with patch("salt.utils.network.local_port_tcp", return_value={"10.0.0.1"}):
        yield


# ----------------------------------------------------------------------
# Nodes
# ----------------------------------------------------------------------


def test_node_statuses(master, connected):
    master.minion("web1", **GRAINS)
    master.minion("web2", os="Debian", ipv4=["10.0.0.2"], mem_total="much")
    master.key("web3")
    master.key("web10", "pending")
    fields = ["name", "key_state", "online", "os", "mtotal", "nic0.ip", "nic1.ip"]
    assert ask(master, "node", [*fields, "nic2.ip"]) == [
        [
            (0, "web1"),
            (0, "accepted"),
            (0, True),
            (0, "Debian"),
            (0, 4096),
            (0, "10.0.0.1"),
            (0, "10.0.0.10"),
            (3, None),
        ],
        [
            *[(0, "web2"), (0, "accepted"), (2, None), (0, "Debian")],
            *[(3, None)] * 4,
        ],
        [(0, "web3"), (0, "accepted"), *[(2, None)] * 6],
        [(0, "web10"), (0, "pending"), *[(2, None)] * 6],
    ]


def test_node_online_where_it_cannot_be_told(master):
    """
    Somebody is connected from an address that no minion has told: it may be that of any
    of those whose own address is not.
    """
    master.minion("web1", ipv4=["127.0.0.1", "10.0.0.1"])
    master.minion("web2", ipv4=["10.0.0.2"])
    seen = {"10.0.0.1", "192.0.2.1"}
    with patch("salt.utils.network.local_port_tcp", return_value=seen):
        assert ask(master, "node", ["online"]) == [[(0, True)], [(2, None)]]
        assert ask(master, "node", ["name"], ["!", ["=", "online", True]]) == []
    with patch("salt.utils.network.local_port_tcp", return_value={"10.0.0.1"}):
        # it may be a router, which is a minion itself
        assert ask(master, "node", ["online"]) == [[(0, True)], [(2, None)]]
    with patch("salt.utils.network.local_port_tcp", return_value={"127.0.0.1"}):
        assert ask(master, "node", ["online"]) == [[(2, None)], [(2, None)]]
    with patch("salt.utils.network.local_port_tcp", return_value=set()):
        assert ask(master, "node", ["online"]) == [[(0, False)], [(0, False)]]


def test_node_online_where_grains_are_old(master):
    """A master that keeps no grains may still have some of before."""
    master.minion("web1", ipv4=["10.0.0.1"])
    master.opts["minion_data_cache"] = False
    for seen in ({"10.0.0.1"}, {"10.0.0.2"}, set()):
        with patch("salt.utils.network.local_port_tcp", return_value=seen):
            assert ask(master, "node", ["online"]) == [[(2, None)]]


def test_usual_fields_of_jobs_read_no_returns(master, opened):
    """
    However many minions have returned, a page of jobs takes three files of each.
    """
    for number in range(4):
        folder = job(master, f"2026112109300000000{number}", web1=0, web2=0)
    usual = saltext.query.item_type({}, "job").usual
    opened(folder)
    rows = ask(master, "job", usual, sort="-id", limit=2)
    assert [row[0] for row in rows] == [
        (0, "20261121093000000003"),
        (0, "20261121093000000002"),
    ]
    assert opened(folder) == [".load.p", ".minions.p", "jid"]


def test_node_all_fields(master, connected):
    master.minion("web1", **GRAINS)
    names = list(saltext.query.item_type({}, "node").fields)
    names.remove("alive")
    with answering({}):
        ask(master, "node", names)


def test_node_by_name(master):
    for name in ("web1.example.com", "web2.example.com", "web21.example.com"):
        master.key(name)
    rule = ["|", *[["=", "name", name] for name in ("WEB2", "web1", "web2", "db")]]
    assert ask(master, "node", ["name"], rule) == [
        [(0, "web2.example.com")],
        [(0, "web1.example.com")],
    ]


def test_node_only_what_is_needed_is_read(master, opened):
    """
    The names take no document, one node takes one, and what a filter leaves out or is
    not on the page takes no more than the filter needs.
    """
    for number in range(4):
        master.minion(f"web{number}", **GRAINS)
    cache = master.opts["cachedir"]
    opened(cache)
    ask(master, "node", ["name", "key_state", "nope"])
    assert opened(cache) == []
    ask(master, "node", ["name", "os"], ["=", "name", "web2"])
    assert opened(cache) == [master.place("grains", "web2")]
    ask(master, "node", ["name", "os", "kernel"], limit=1, offset=1)
    assert opened(cache) == [master.place("grains", "web1")]
    ask(master, "node", ["os"], ["&", ["=~", "name", "3$"], ["=", "os", "x"]])
    assert opened(cache) == [master.place("grains", "web3")]
    ask(master, "node", ["os", "kernel"], ["=", "os", "Debian"])
    assert opened(cache) == [
        master.place("grains", f"web{number}") for number in range(4)
    ]
    with pytest.raises(saltext.query.QueryError):
        ask(master, "node", ["os"], ["=", "os", 1])
    assert opened(cache) == []


def test_node_of_the_document_only_what_is_needed(master):
    """
    Of the grains, only those are ever made that a field needs.
    """
    master.minion("web1", **GRAINS)
    context = saltext.query.context.Context(master.opts, ["grains:os"], 0)
    assert context.read("grains", "web1") == {"os": "Debian"}


def test_node_live_fields(master):
    """
    Minions are asked once and only those that are on the page and accepted. One that
    does not answer is offline; one that says nothing of memory has none.
    """
    for number in range(5):
        master.minion(f"web{number}", os="Debian")
    master.key("web9", "pending")
    info = {"MemAvailable": {"value": "2097152", "unit": "kB"}}
    answers = {
        "web1": {
            "status.meminfo": info,
            "saltutil.running": [{"jid": "1"}, {"jid": "2"}],
        },
        "web3": {"status.meminfo": "'status.meminfo' is not available."},
    }

    fields = ["name", "alive", "mfree", "job_cnt"]
    with answering(answers) as fleet:
        assert ask(master, "node", fields, limit=5, offset=1) == [
            [(0, "web1"), (0, True), (0, 2048), (0, 1)],
            [(0, "web2"), (0, False), (4, None), (4, None)],
            [(0, "web3"), (0, True), (3, None), (3, None)],
            [(0, "web4"), (0, False), (4, None), (4, None)],
            [(0, "web9"), (3, None), (3, None), (3, None)],
        ]
        assert fleet.asked == [
            (["web1", "web2", "web3", "web4"], ["status.meminfo", "saltutil.running"]),
            # whoever is silent is pinged: it may be slow
            (["web2", "web4"], ["test.ping"]),
        ]
    with answering(answers) as fleet:
        master.opts["query"] = {"live_cache": 0}
        rule = ["&", ["!", ["?", "alive"]], [">", "name", "web2"]]
        assert ask(master, "node", ["name"], rule) == [[(0, "web4")]]
        # once more, as an answer may have been lost
        assert fleet.asked == [
            (["web3", "web4"], ["test.ping"]),
            (["web4"], ["test.ping"]),
        ]


def test_node_hostile_documents(master, tmp_path):
    """
    Whatever a minion sends, nothing of it is more than a missing value.
    """
    master.minion("web1", os=["Debian"], mem_total=True, num_cpus=2**70, uuid=b"\xff")
    with salt.utils.files.fopen(master.minion("web2"), "wb") as handle:
        handle.write(b"\xc1 broken")
    with salt.utils.files.fopen(master.minion("web3"), "wb") as handle:
        handle.write(b"\x91" * 100000)
    master.put("grains", "web4", ["no", "mapping"])
    master.key("web4")
    fields = ["name", "os", "mtotal", "ctotal"]
    assert ask(master, "node", fields) == [
        [(0, "web1"), (3, None), (3, None), (3, None)],
        *[[(0, name), *[(2, None)] * 3] for name in ("web2", "web3", "web4")],
    ]


def test_node_live_hostile_answers(master):
    """
    No amount of memory is infinite.
    """
    master.minion("web1")
    meminfo = {"MemAvailable": {"value": float("inf")}, "MemFree": {"value": "2048"}}
    with answering({"web1": {"status.meminfo": meminfo}}):
        assert ask(master, "node", ["mfree"]) == [[(0, 2)]]


def test_os_hostile_documents(master):
    master.minion("web1", **{**GRAINS, "osmajorrelease": "1" * 5000})
    # none of these is a name
    for number, wrong in enumerate(([["x"] * 500], "x" * 200_000, {"a": 1})):
        master.minion(f"zz{number}", os=wrong, osfinger=wrong if number else None)
    assert ask(master, "os", ["name", "major"]) == [[(0, "Debian-12"), (3, None)]]


def test_node_names_lead_nowhere_else(master, tmp_path, opened):
    master.minion("web1", os="Debian")
    secret = tmp_path / "secret.p"
    secret.write_bytes(salt.payload.dumps({"os": "secret"}))
    for name in ("../../secret", str(tmp_path / "secret"), "web1/../../../secret"):
        assert ask(master, "node", ["os"], ["=", "name", name]) == []
        context = saltext.query.context.Context(master.opts, ["grains:os"], 0)
        assert context.read("grains", name) is None
    assert str(secret) not in opened(tmp_path)


@pytest.mark.parametrize("master", [False], indirect=True)
def test_node_cache_that_cuts_keys(master):
    """
    Two ids that are the same for 64 bytes are one key to mmap_cache. One minion must
    not get the other's grains.
    """
    pytest.importorskip("salt.cache.mmap_cache")
    master.opts["cache"] = "mmap_cache"
    master.opts["mmap_cache_size"] = 1024
    names = ["w" * 64 + "1", "w" * 64 + "2", "web1"]
    cache = salt.cache.Cache(master.opts, driver="mmap_cache")
    for name in names:
        master.key(name)
        cache.store("grains", name, {"id": name, "os": name[-1]})
    rows = {row[0][1]: row[1] for row in ask(master, "node", ["name", "os"])}
    assert rows["web1"] == (0, "1")
    found = {name: rows[name] for name in names[:2] if rows[name][0] == 0}
    assert all(cell == (0, name[-1]) for name, cell in found.items())
    assert len(found) < 2


# ----------------------------------------------------------------------
# Operating systems
# ----------------------------------------------------------------------


def test_os(master, connected):
    master.minion("web1", **GRAINS)
    master.minion("web10", **{**GRAINS, "osrelease": "12.10"})
    master.minion("web2", **{**GRAINS, "os_family": "Other", "ipv4": ["10.0.0.2"]})
    master.minion("db1", os="SLES", osrelease="15")
    master.minion("db2", noos=True)
    master.key("db3")
    fields = ["name", "family", "major", "releases", "node_cnt", "node_list"]
    fields += ["online_cnt", "mtotal", "valid"]
    assert ask(master, "os", fields) == [
        [
            (0, "Debian-12"),
            (3, None),
            (0, 12),
            (0, ["12.5", "12.10"]),
            (0, 3),
            (0, ["web1", "web2", "web10"]),
            (2, None),
            (0, 3 * 4096),
            (0, False),
        ],
        [
            (0, "SLES-15"),
            (3, None),
            (3, None),
            (0, ["15"]),
            (0, 1),
            (0, ["db1"]),
            (2, None),
            (2, None),
            (0, False),
        ],
    ]
    assert ask(master, "os", ["name"], [">", "node_cnt", 1]) == [[(0, "Debian-12")]]
    ask(master, "os", list(saltext.query.item_type({}, "os").fields))


def test_os_only_what_is_needed_is_read(master, opened):
    """
    The grains of each accepted minion are read once, whatever the fields, and nothing else.
    """
    for number in range(3):
        master.minion(f"web{number}", **GRAINS)
        master.put("mine", f"web{number}", {"test.ping": True})
    master.key("web3", "pending")
    master.put("grains", "web3", GRAINS)
    cache = master.opts["cachedir"]
    opened(cache)
    needed = [master.place("grains", f"web{number}") for number in range(3)]
    for names in (["name"], ["name", "node_cnt", "family", "releases", "mtotal"]):
        ask(master, "os", names)
        assert opened(cache) == needed
    with pytest.raises(saltext.query.QueryError):
        ask(master, "os", ["name"], ["=", "node_cnt", "x"])
    assert opened(cache) == []


# ----------------------------------------------------------------------
# Jobs
# ----------------------------------------------------------------------


def job(master, jid=JID, minions=("web1", "web2"), load=(), **returns):
    """
    Add a job as the local job cache does.
    """
    root = os.path.join(master.opts["cachedir"], "jobs")
    folder = salt.utils.jid.jid_dir(jid, root, "sha256")
    os.makedirs(folder)
    documents = {
        ".load.p": {"jid": jid, "fun": "test.ping", "arg": [], **dict(load)},
        ".minions.p": list(minions),
    }
    for minion, retcode in returns.items():
        os.makedirs(os.path.join(folder, minion))
        documents[os.path.join(minion, "return.p")] = {
            "return": True,
            "retcode": retcode,
            "success": (
                {name: code == 0 for name, code in retcode.items()}
                if isinstance(retcode, dict)
                else retcode == 0
            ),
        }
    for name, document in documents.items():
        with salt.utils.files.fopen(os.path.join(folder, name), "wb") as handle:
            handle.write(salt.payload.dumps(document))
    with salt.utils.files.fopen(os.path.join(folder, "jid"), "w") as handle:
        handle.write(jid)
    return folder


def test_job(master):
    load = {"tgt": "web*", "tgt_type": "glob", "user": "root", "ret": ""}
    job(master, load={**load, "kwargs": {"metadata": {"a": 1}}}, web1=0, web2=0)
    job(master, "20261121093000000001", web1=0, web2=1)
    job(master, "20261121093000000002", web1=0)
    job(master, "20261121093000000003", load={"fun": ["test.ping", "grains.items"]})
    fields = ["id", "status", "success", "fun", "ret_cnt", "exp_cnt", "missing_list"]
    assert [row[1:] for row in ask(master, "job", fields)] == [
        [(0, "success"), (0, True), (0, "test.ping"), (0, 2), (0, 2), (0, [])],
        [(0, "failed"), (0, False), (0, "test.ping"), (0, 2), (0, 2), (0, [])],
        [(0, "published"), (2, None), (0, "test.ping"), (0, 1), (0, 2), (0, ["web2"])],
        [
            *[(0, "published"), (2, None), (0, "test.ping,grains.items")],
            *[(0, 0), (0, 2), (0, ["web1", "web2"])],
        ],
    ]
    fields = [
        "start_ts",
        "end_ts",
        "user",
        "ret",
        "metadata",
        "retcodes",
        "queue_place",
    ]
    assert ask(master, "job", fields, ["=", "id", JID]) == [
        [
            (0, START),
            (3, None),
            (0, "root"),
            (3, None),
            (0, {"a": 1}),
            (0, {"web1": 0, "web2": 0}),
            (3, None),
        ]
    ]
    ask(master, "job", list(saltext.query.item_type({}, "job").fields))


def test_job_end(master):
    folder = job(master)
    with salt.utils.files.fopen(os.path.join(folder, "endtime"), "w") as handle:
        handle.write("2026, Nov 21 09:30:01.500000")
    assert ask(master, "job", ["end_ts"]) == [[(0, START + 1.5)]]


def test_job_of_several_functions(master):
    """
    Its retcodes are a dictionary; it has failed if one of them says so
    """
    one = ("web1",)
    job(master, minions=one, web1={"test.ping": 0, "status.meminfo": 0})
    later = "20261121093000000001"
    job(master, later, minions=one, web1={"test.ping": 0, "test.false": 1})
    assert ask(master, "job", ["status", "success", "fail_cnt"]) == [
        [(0, "success"), (0, True), (0, 0)],
        [(0, "failed"), (0, False), (0, 1)],
    ]


def test_job_only_what_is_needed_is_read(master, opened):
    """
    The ids take the file that has them, one job by its id takes not even that.
    """
    folder = job(master, web1=0)
    job(master, "20261121093000000001", web1=0)
    opened(folder)
    ask(master, "job", ["id", "start_ts"], ["&"])
    assert len(opened(master.opts["cachedir"])) == 2
    # whether it is one of a runner is with what was published
    ask(master, "job", ["id", "start_ts"])
    assert len(opened(master.opts["cachedir"])) == 4
    ask(master, "job", ["id", "user"], ["=", "id", JID])
    assert opened(folder) == [".load.p"]
    ask(master, "job", ["ret_cnt"], ["=", "jid", JID])
    assert opened(folder) == [".minions.p"]


def test_job_of_no_such_id(master):
    job(master)
    for name in ("20261121093000000009", "../..", "x"):
        assert ask(master, "job", ["id"], ["=", "id", name]) == []


def test_job_hostile_documents(master):
    job(master, load={"arg": 5})
    assert ask(master, "job", ["id", "metadata"]) == [[(0, JID), (3, None)]]
    assert ask(master, "job", ["id"], ["=", "id", "\ud800"]) == []


def test_job_returns_that_cannot_be_read(master):
    """
    They are neither successes nor failures, and a folder alone is no return.
    """
    fields = ["status", "success", "ret_list", "fail_cnt", "retcodes"]
    folder = job(master, web1=0, web2=0)
    path = os.path.join(folder, "web2", "return.p")
    os.truncate(path, 5)
    web1 = {"web1": 0}
    assert ask(master, "job", fields) == [
        [(2, None), (2, None), (0, ["web1", "web2"]), (0, 0), (0, web1)]
    ]
    os.remove(path)
    assert ask(master, "job", fields) == [
        [(0, "published"), (2, None), (0, ["web1"]), (0, 0), (0, web1)]
    ]


class Handler:
    """
    A job handler's runner, which says what it was asked in a file.
    """

    answers = {
        "list": [
            {
                "jid": JID,
                "position": 1,
                "reason": "the master is full",
                "waiting": 2,
                "sent": 0,
                "waited": 1.5,
            },
            {
                "jid": "20261121093000000001",
                "position": 2,
                "reason": "other jobs are before it",
                "waiting": 1,
                "sent": 1,
                "waited": 0.5,
            },
        ],
        "show": {"running_on": ["web2"]},
    }

    def __init__(self, master, failing=""):
        self.log = os.path.join(master.opts["cachedir"], "asked")
        os.makedirs(master.opts["cachedir"])
        master.opts["rate_limiting"] = {"criteria": "capacity"}
        master.extend(
            "runners",
            "job_handler",
            f"""
import salt.utils.files
from salt.exceptions import CommandExecutionError

__func_alias__ = {{"list_": "list"}}


def _answer(name):
    with salt.utils.files.fopen({self.log!r}, "a") as handle:
        handle.write(name + "\\n")
    {failing}
    return {self.answers!r}[name]


def list_(limit=100):
    assert limit is None
    return _answer("list")


def show(jid):
    return _answer("show")

""",
        )

    @property
    def asked(self):
        """
        The functions that were called.
        """
        with salt.utils.files.fopen(self.log) as handle:
            return handle.read().split()


@pytest.fixture
def handler(master):
    return Handler(master)


def test_job_handler(master, handler):
    """
    Jobs that wait, that go out in waves, that run, and that have come back.
    """
    job(master)
    job(master, "20261121093000000001", web1=0)
    job(master, "20261121093000000002", web1=0)
    job(master, "20261121093000000003", web1=0, web2=0)
    fields = ["status", "queue_place", "wait_cnt", "sent_cnt", "waited"]
    assert ask(master, "job", fields) == [
        [(0, "queued"), (0, 1), (0, 2), (0, 0), (0, 1.5)],
        [(0, "publishing"), (0, 2), (0, 1), (0, 1), (0, 0.5)],
        [(0, "running"), *[(3, None)] * 4],
        [(0, "success"), *[(3, None)] * 4],
    ]
    fields = ["queue_reason", "running_list"]
    assert ask(master, "job", fields, limit=1) == [
        [(0, "the master is full"), (0, ["web2"])]
    ]
    # once per query, and for each job that may run
    assert handler.asked == ["list", "show", "list", "show"]


def test_no_job_handler_on_this_salt(master):
    """
    What it is told in the configuration counts for nothing then.
    """
    master.opts["rate_limiting"] = {"criteria": "capacity"}
    job(master, web1=0)
    fields = ["status", "queue_place", "running_list"]
    with patch("salt.loader.runner", return_value={}):
        assert ask(master, "job", fields) == [[(0, "published"), *[(3, None)] * 2]]


@pytest.mark.parametrize("cause,count", (("OSError()", 1), ("None", 4)))
def test_job_handler_that_is_silent_is_asked_once(master, cause, count):
    """
    Each question to it takes ten seconds. An error is the answer to one question.
    """
    error = f"raise CommandExecutionError() from {cause}"
    handler = Handler(master, error)
    for number in range(3):
        job(master, f"2026112109300000000{number}", web1=0)
    fields = ["status", "queue_place", "running_list"]
    assert ask(master, "job", ["status"]) == [[(0, "published")]] * 3
    assert len(handler.asked) == count
    assert ask(master, "job", fields, limit=1) == [[(0, "published"), *[(2, None)] * 2]]


# ----------------------------------------------------------------------
# Locks
# ----------------------------------------------------------------------


@pytest.fixture
def locks(master):
    master.minion("web1", state_runs_disabled=["highstate", "apache"])
    master.minion("web2")
    master.key("web3", "pending")
    master.put("mine", "web1", {"pkg.list_holds": ["vim", 1]})
    inventory = {"packages": {"nano": {"held": True, "versions": ["7.2"]}, "vi": {}}}
    wrapped = {"__data__": inventory, "__saltmine_acl__": 1, "allow_tgt": "x"}
    master.put("mine", "web2", {"package_state.inventory": wrapped, "other": 1})
    master.put("mine", "web3", {"pkg.list_holds": ["vim"]})
    folder = os.path.join(master.opts["cachedir"], "gitfs", "work", "abc", "_")
    os.makedirs(folder)
    for name, content in (("update.lk", str(os.getpid())), ("checkout.lk", "4194999")):
        with salt.utils.files.fopen(os.path.join(folder, name), "w") as handle:
            handle.write(content)
    return folder


def test_lock(master, locks):
    fields = ["name", "type", "mode", "node", "package", "version", "alive"]
    none = (3, None)
    assert ask(master, "lock", fields) == [
        [
            *[(0, "file/master/gitfs/work/abc/_/checkout.lk"), (0, "file")],
            *[(0, "exclusive"), none, none, none, (0, False)],
        ],
        [
            *[(0, "file/master/gitfs/work/abc/_/update.lk"), (0, "file")],
            *[(0, "exclusive"), none, none, none, (0, True)],
        ],
        [
            *[(0, "hold/web1/vim"), (0, "hold"), (0, "hold"), (0, "web1")],
            *[(0, "vim"), none, none],
        ],
        [
            *[(0, "hold/web2/nano"), (0, "hold"), (0, "hold"), (0, "web2")],
            *[(0, "nano"), (0, "7.2"), none],
        ],
        [
            *[(0, "state/web1/apache"), (0, "state"), (0, "disabled"), (0, "web1")],
            *[none] * 3,
        ],
        [
            *[(0, "state/web1/highstate"), (0, "state"), (0, "disabled")],
            *[(0, "web1"), none, none, none],
        ],
    ]
    ask(master, "lock", list(saltext.query.item_type({}, "lock").fields))


@pytest.mark.parametrize(
    "rule,count,read",
    (
        (["=", "type", "file"], 2, {"gitfs"}),
        (["=", "type", "hold"], 2, {"mine"}),
        (["=", "name", "state/web1/apache"], 1, {"grains"}),
        (["&", ["!", ["=", "type", "hold"]], ["?", "pid"]], 2, {"gitfs", "grains"}),
        (["=", "type", "none"], 0, set()),
        (["?", "package"], 2, {"gitfs", "grains", "mine"}),
        (["missing", "package"], 4, {"gitfs", "grains", "mine"}),
    ),
)
def test_lock_is_looked_for_where_it_may_be(master, locks, opened, rule, count, read):
    opened(locks)
    assert len(ask(master, "lock", ["name"], rule)) == count
    found = {path.split(os.sep)[0] for path in opened(master.opts["cachedir"])}
    wanted = {master.place(bank, "x").split(os.sep)[0] for bank in read}
    assert found == wanted


def test_a_lock_module_that_is_broken_is_missed(master, locks):
    """
    Its locks are not there, so what is there is not the whole answer, unless it could have
    none of what is asked for.
    """
    master.extend("query_locks", "cage", "import nonesuch_module\n")
    with pytest.raises(saltext.query.QueryError) as told:
        ask(master, "lock", ["name"])
    assert "cage.py: No module named 'nonesuch_module'; it finds locks." in str(
        told.value
    )
    assert ask(master, "lock", ["name"], ["=", "type", "none"]) == []
    names = [["=", "name", "state/web1/x"]]
    assert ask(master, "lock", ["name"], ["|", *names]) == []


def test_a_lock_module_that_refuses_itself_has_no_locks(master, locks):
    text = (
        "def __virtual__():\n    return False\n\ndef locks(context):\n    return []\n"
    )
    master.extend("query_locks", "cage", text)
    assert ask(master, "lock", ["name"])


def test_lock_and_instance_by_name(master, locks):
    names = [row[0][1] for row in ask(master, "lock", ["name"])]
    rule = ["|", *(["=", "name", name] for name in reversed(names))]
    assert ask(master, "lock", ["name"], rule) == [[(0, name)] for name in names[::-1]]
    info = {"vm1": {"state": "running"}, "vm2": {"state": "running"}}
    for minion in ("web1", "web2"):
        master.put("mine", minion, {"virt.vm_info": info})
    rule = ["|", *(["=", "name", f"virt:{name}"] for name in ("vm2", "no", "vm1"))]
    assert ask(master, "instance", ["id", "pnode"], rule) == [
        [(0, vm), (0, node)] for vm in ("vm2", "vm1") for node in ("web1", "web2")
    ]


# ----------------------------------------------------------------------
# Instances
# ----------------------------------------------------------------------


def test_instance(master, connected):
    master.minion("kvm1", ipv4=["10.0.0.1"])
    master.minion("kvm2", ipv4=["10.0.0.2"])
    master.minion("vm1", **GRAINS)
    info = {
        "state": "running",
        "cpu": 2,
        "cputime": 1500000000,
        "mem": 2097152,
        "maxMem": 4194304,
        "uuid": "u",
        "disks": {"vdb": {"virtual size": 2**31}, "vda": {"virtual size": "8.0 GiB"}},
        "nics": {"52:54:00:00:00:01": {}},
    }
    master.put("mine", "kvm1", {"virt.vm_info": {"vm1": info, "bad": 1}})
    master.put("mine", "kvm2", {"virt.vm_info": {"vm2": {**info, "state": "shutdown"}}})
    fields = ["name", "pnode", "status", "oper_state", "oper_ram", "max_ram", "vcpus"]
    fields += ["cputime", "disk.count", "disk0.size", "disk1.size", "disk2.size"]
    fields += ["nic0.mac", "minion", "os", "nic0.ip"]
    assert ask(master, "instance", fields) == [
        [
            *[(0, "virt:vm1"), (0, "kvm1"), (0, "running"), (0, True), (0, 2048)],
            *[(0, 4096), (0, 2), (0, 1.5), (0, 2), (0, 8192), (0, 2048), (3, None)],
            *[(0, "52:54:00:00:00:01"), (0, "vm1"), (0, "Debian"), (0, "10.0.0.1")],
        ],
        [
            *[(0, "virt:vm2"), (0, "kvm2"), (0, "shutdown"), (0, False), (0, 2048)],
            *[(0, 4096), (0, 2), (0, 1.5), (0, 2), (0, 8192), (0, 2048), (3, None)],
            *[(0, "52:54:00:00:00:01"), (3, None), (2, None), (2, None)],
        ],
    ]
    ask(master, "instance", list(saltext.query.item_type({}, "instance").fields))
    assert ask(master, "node", ["vinst_cnt"], ["=", "name", "kvm1"]) == [[(0, 1)]]
    assert ask(master, "node", ["vinst_cnt"], ["=", "name", "vm1"]) == [[(2, None)]]


def test_instance_of_the_registry(master):
    """
    Resources that are no virtual machines have neither memory nor disks.
    """
    master.minion("proxy1")
    master.put("resource_grains", "dummy:d1", {"os": "Dummy"})

    class Registry:
        @staticmethod
        def get_resources_for_minion(minion):
            return {"dummy": ["d10", "d1"]}

    registry = pytest.importorskip("salt.utils.resource_registry")
    folder = os.path.join(master.opts["cachedir"], registry.PRIMARY_INDEX_SUBDIR)
    os.makedirs(folder)
    with salt.utils.files.fopen(
        os.path.join(folder, registry.PRIMARY_INDEX_FILENAME), "w"
    ) as handle:
        handle.write("")
    with patch("salt.utils.resource_registry.get_registry", return_value=Registry()):
        rows = ask(master, "instance", ["name", "type", "pnode", "vcpus", "os"])
    assert rows == [
        [(0, "dummy:d1"), (0, "dummy"), (0, "proxy1"), (3, None), (0, "Dummy")],
        [(0, "dummy:d10"), (0, "dummy"), (0, "proxy1"), (3, None), (2, None)],
    ]


def test_a_query_makes_no_files(master):
    """
    Not even the registry of resources, which is made by whoever opens it.
    """
    master.minion("web1", **GRAINS)
    before = sorted(os.walk(master.opts["cachedir"]))
    for what in saltext.query.item_types({}):
        ask(master, what, ["name"])
    ask(master, "node", ["vinst_cnt"])
    assert sorted(os.walk(master.opts["cachedir"])) == before


def test_instance_only_what_is_needed_is_read(master, opened):
    """
    What accepted minions have put into the mine says which instances there are; grains are
    read for the fields that come out of them, and only those of the instances meant.
    """
    master.minion("kvm1", ipv4=["10.0.0.1"])
    master.minion("vm1", **GRAINS)
    master.minion("vm2", **GRAINS)
    info = {"state": "running", "cpu": 2}
    master.put("mine", "kvm1", {"virt.vm_info": {"vm1": info, "vm2": info}})
    master.key("kvm2", "pending")
    master.put("mine", "kvm2", {"virt.vm_info": {"vm3": info}})
    cache = master.opts["cachedir"]
    mines = [master.place("mine", name) for name in ("kvm1", "vm1", "vm2")]
    opened(cache)
    ask(master, "instance", ["name", "pnode", "type", "nope"])
    assert opened(cache) == mines
    ask(master, "instance", ["name", "os"], ["=", "name", "virt:vm2"])
    assert opened(cache) == sorted([master.place("grains", "vm2"), *mines])
    ask(master, "instance", ["name", "os"], limit=1)
    assert opened(cache) == sorted([master.place("grains", "vm1"), *mines])
    with pytest.raises(saltext.query.QueryError):
        ask(master, "instance", ["os"], ["=", "os", 1])
    assert opened(cache) == []
