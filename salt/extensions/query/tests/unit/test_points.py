"""
What administrators meet: each question has the answer that they expect.
"""

import os

import pytest
import saltext.query
import saltext.query.documents
import saltext.query.render
import saltext.query.search
import saltext.query.target
from saltext.query.compare import version_order
from saltext.query.errors import QueryError
from saltext.query.locks.hold import split
from saltext.query.sources import last_jobs

import salt.cache
import salt.payload
import salt.utils.files
import salt.utils.jid
from salt.exceptions import SaltCacheError


def names(master, rule, **more):
    found = saltext.query.items(master.opts, "node", ["name"], rule, **more)
    return [row[0][1] for row in found["data"]]


def job(master, jid, fun, expected, args=(), metadata=None, **retcodes):
    folder = salt.utils.jid.jid_dir(
        jid, os.path.join(master.opts["cachedir"], "jobs"), "sha256"
    )
    os.makedirs(folder)
    load = {"jid": jid, "fun": fun, "arg": list(args), "kwargs": {}}
    if metadata is not None:
        load["kwargs"]["metadata"] = metadata
    files = {
        "jid": jid.encode(),
        ".load.p": salt.payload.dumps(load),
        ".minions.p": salt.payload.dumps(expected),
    }
    for minion, code in retcodes.items():
        os.makedirs(os.path.join(folder, minion))
        done = salt.payload.dumps({"retcode": code, "success": code == 0})
        files[f"{minion}/return.p"] = done
    for name, content in files.items():
        with salt.utils.files.fopen(os.path.join(folder, name), "wb") as handle:
            handle.write(content)


@pytest.mark.parametrize(
    "value,rule,found",
    (
        ("24.10", "grain.v == 24.10", True),
        ("24.10", "grain.v != 24.10", False),
        ("24.1", "grain.v == 24.10", False),
        (24.1, "grain.v == 24.10", True),
        ("007", "grain.v == 007", True),
        ("7", "grain.v == 007", False),
        (4, 'grain.v == "4"', True),
        (4, "grain.v in (3, 4)", True),
        (True, "grain.v == true", True),
        ("true", "grain.v == true", True),
        (True, "grain.v == 1", False),
        ([24, "24.10"], "24.10 in grain.v", True),
        ([4], '"4" in grain.v', True),
        (9, "grain.v < 10", True),
        ("9", "grain.v < 10", True),
    ),
)
def test_numbers_keep_their_text(master, value, rule, found):
    master.minion("web1", v=value)
    assert names(master, rule) == (["web1"] if found else [])


@pytest.mark.parametrize(
    "grain,values,rule,found",
    (
        ("osrelease", ("9.4", "12", "15"), "os_release < 15", ["web0", "web1"]),
        ("kernelrelease", ("5.4.0", "5.15.0"), "kernel_release < 5.15", ["web0"]),
        ("saltversion", ("3006.9", "3006.10"), "salt_version < 3006.10", ["web0"]),
        ("saltversion", ("3007.0rc1", "3007.0"), "salt_version < 3007.0", ["web0"]),
        ("x", ("1.0~rc1", "1.0", "1.0.1"), "grain.x <= 1.0", ["web0", "web1"]),
    ),
)
def test_one_order(master, grain, values, rule, found):
    for number, value in enumerate(values):
        master.minion(f"web{number}", **{grain: value})
    assert names(master, rule) == found
    field = rule.split()[0]
    assert names(master, None, sort=field) == [
        f"web{one}" for one in range(len(values))
    ]


@pytest.mark.parametrize(
    "field", ("alive", "online", "uuid", "grain.x", "mine.x", "pillar.x")
)
def test_what_nobody_knows_is_neither_true_nor_false(master, field, monkeypatch):
    """
    Also under not, and both ways to write it agree.
    """
    master.key("web1", "pending" if field == "alive" else "accepted")
    monkeypatch.setattr("salt.utils.network.local_port_tcp", lambda port: {"192.0.2.1"})
    for rule in (f"not {field}", f"{field} == false", field, f"{field} != true"):
        if field != "uuid" or ("==" not in rule and "!=" not in rule):
            assert names(master, rule) == []
    assert names(master, f"{field} is missing") == ["web1"]


def test_what_could_not_be_judged_is_told(master):
    master.minion("web1", os="Debian")
    master.key("web2")
    found = saltext.query.items(master.opts, "node", ["name"], 'os == "Debian"')
    assert (len(found["data"]), found["undecided"]) == (1, 1)
    assert "undecided" not in saltext.query.items(master.opts, "node", ["os"])


def test_evil_patterns_end_and_ordinary_ones_do_not(master, monkeypatch):
    monkeypatch.setattr(saltext.query.search, "MAX_SECONDS", 0.5)
    for number in range(200):
        master.minion(f"web{number}", os="a" * 40 + "b")
    with pytest.raises(QueryError, match="too much time"):
        names(master, "os =~ m/(a+)+$/")
    assert len(names(master, 'name =* "web*"')) == 200


def test_a_minion_that_was_not_expected(master):
    jid = "20261121093000000001"
    job(master, jid, "test.ping", ["web1", "web2"], web1=0, web9=0)
    fields = ["exp_cnt", "ret_cnt", "extra_list", "missing_list"]
    found = saltext.query.items(master.opts, "job", fields)["data"]
    assert found == [[(0, 2), (0, 1), (0, ["web9"]), (0, ["web2"])]]


@pytest.mark.parametrize(
    "text,expected",
    (
        ("vim-enhanced-2:8.0.1763-19.el8.*", ("vim-enhanced", "2:8.0.1763-19.el8")),
        ("2:vim-enhanced-7.4.629-5.el6.*", ("vim-enhanced", "2:7.4.629-5.el6")),
        ("0:vim-minimal-7.4.160-5.el7.*", ("vim-minimal", "7.4.160-5.el7")),
        ("nano-7.2-1.x86_64", ("nano", "7.2-1")),
        ("python3-pip", ("python3-pip", None)),
        ("vim", ("vim", None)),
    ),
)
def test_names_of_held_packages(text, expected):
    assert split(text) == expected


def test_holds_of_each_manager(master):
    for name in ("deb", "suse"):
        master.minion(name)
    master.put(
        "mine", "deb", {"pkg.get_selections": {"hold": ["vim"], "install": ["a"]}}
    )
    listed = {"pkg.list_holds": ["vim-9.1-1"], "pkg.list_locks": {"vim": {"type": "p"}}}
    master.put("mine", "suse", listed)
    fields = ["node", "package", "version"]
    found = saltext.query.items(master.opts, "lock", fields, "type == hold")["data"]
    assert found == [
        [(0, "deb"), (0, "vim"), (3, None)],
        [(0, "suse"), (0, "vim"), (0, "9.1-1")],
    ]


@pytest.mark.parametrize("master", [False], indirect=True)
def test_ids_that_a_driver_cuts(master):
    if saltext.query.documents.salt.version.__saltstack_version__.info[0] < 3008:
        pytest.skip("it has no mmap_cache")
    master.opts["cache"] = "mmap_cache"
    cache = salt.cache.Cache(master.opts, driver="mmap_cache")
    ids = ["x" * 64 + letter for letter in "ab"]
    for minion in ids:
        master.key(minion)
        for bank, found in (("grains", {"id": minion}), ("pillar", {}), ("mine", {})):
            cache.store(bank, minion, {**found, "role": minion})
    fields = ["grain.role", "pillar.role", "mine.role"]
    rows = saltext.query.items(master.opts, "node", ["name", *fields])["data"]
    for (_, name), *cells in rows:
        assert all(value in (None, name) for _, value in cells)


@pytest.mark.parametrize(
    "tgt_type,tgt",
    (
        ("compound", "G@os:Debian and"),
        ("compound", "web1 web2"),
        ("compound", "(web1"),
        ("compound", "or web1"),
        ("compound", "X@foo"),
        ("compound", "N@nope"),
        ("glob", "web1 web2"),
        ("ipcidr", "10.0.0.0/99"),
        ("grain_pcre", "os:("),
        ("pcre", "("),
        ("compound", "E@( and *"),
    ),
)
def test_a_broken_target_is_no_empty_table(master, tgt_type, tgt):
    master.minion("web1", os="Debian")
    with pytest.raises(QueryError):
        names(master, None, tgt=tgt, tgt_type=tgt_type)


@pytest.mark.parametrize(
    "tgt",
    ("web1", "not web2", "( web1 or web3 ) and not web2", "G@os:Debian", "E@web[13]"),
)
def test_a_whole_target(tgt):
    assert not saltext.query.target.Target(tgt, "compound").reads_pillars()


def test_a_list_names_who_is_not_there(master, monkeypatch):
    master.key("web1")
    found = {"minions": ["web1"], "missing": [], "ssh_minions": False}
    monkeypatch.setattr(
        "salt.utils.minions.CkMinions.check_minions", lambda *args, **kwargs: found
    )
    found = saltext.query.items(
        master.opts, "node", ["name"], tgt="web1,nope", tgt_type="list"
    )
    assert (len(found["data"]), found["absent"]) == (1, ["nope"])


@pytest.mark.parametrize("master", [False], indirect=True)
def test_hostile_minions(master):
    """
    Their documents are huge, deep or no documents; everybody else's answers stay the same.
    """
    for number in range(30):
        master.minion(f"web{number}", os="Debian", roles=["a"])
    fields = ["name", "os", "roles", "grain.roles"]
    before = saltext.query.items(master.opts, "node", fields)["data"]
    deep = []
    for _ in range(300):
        deep = [deep]
    many = {f"grain{number}": number for number in range(20000)}
    master.minion("zz1", os="x" * 5_000_000, roles=["y" * 5_000_000])
    master.minion("zz2", os=deep, roles=deep)
    master.minion("zz3", **many)
    master.minion("zz4", os={"\x1b[2J": "\x1b"}, roles=list(range(500_000)))
    found = saltext.query.items(master.opts, "node", fields)
    assert found["data"][: len(before)] == before
    assert len(salt.payload.dumps(found["data"])) < 2 * len(salt.payload.dumps(before))
    assert found["too_large"] >= 4
    listed = saltext.query.fields(master.opts, "node")
    assert "grain.roles" in [one["name"] for one in listed["fields"]]
    assert len(salt.payload.dumps(listed)) < 800_000


_TYPE = (
    "from saltext.query.field import Field\n"
    "from saltext.query.item import Item, ItemType\n"
    "def _items(context, names):\n    {}\n"
    "def item_type():\n"
    "    field = Field('name', 'N', 'text', 'Name', lambda one: one.name)\n"
    "    return ItemType('site', 'Doc', [field], _items)\n"
).format("return None")


@pytest.mark.parametrize(
    "kind,text",
    (
        ("query_types", "def item_type():\n    raise KeyError('x')\n"),
        ("query_types", "def item_type():\n    return None\n"),
        ("query_types", _TYPE),
        ("query_types", _TYPE.replace("return None", "yield 'text'")),
        ("query_types", _TYPE.replace("return None", "yield context.source('site')")),
        ("query_locks", "def locks(context):\n    return None\n"),
        ("query_locks", "def locks(context):\n    yield {'no': 1}\n"),
        ("query_locks", "def locks(context):\n    raise OSError('gone')\n"),
    ),
)
def test_modules_of_a_site_that_are_wrong(master, kind, text):
    master.extend(kind, "site", text)
    what = "lock" if kind == "query_locks" else "site"
    with pytest.raises(QueryError, match="Correct the|Add a module"):
        saltext.query.items(master.opts, what, ["name"])


def test_a_type_of_a_site_that_ignores_names(master):
    text = _TYPE.replace("return None", "yield from [Item(context, x) for x in 'ab']")
    master.extend("query_types", "site", text)
    found = saltext.query.items(master.opts, "site", ["name"], ["=", "name", "b"])
    assert found["data"] == [[(0, "b")]]


def test_damaged_jobs_are_counted(master):
    job(master, "20261121093000000001", "test.ping", ["web1"], web1=0)
    for folder, _, files in os.walk(os.path.join(master.opts["cachedir"], "jobs")):
        if ".load.p" in files:
            with salt.utils.files.fopen(
                os.path.join(folder, ".load.p"), "wb"
            ) as handle:
                handle.write(b"\xc1")
    found = saltext.query.items(master.opts, "job", ["id", "fun"])
    assert (len(found["data"]), found["damaged"]) == (1, 1)


def test_pages_by_name_lose_nobody(master):
    for number in range(6):
        master.minion(f"web{number}", os="b" if number % 2 else "a")
    for sort in (None, "-os", "os,-name"):
        wanted = names(master, None, sort=sort)
        seen, offset = [], 0
        for _ in range(6):
            page = saltext.query.items(
                master.opts, "node", ["name"], limit=2, offset=offset, sort=sort
            )
            seen += [row[0][1] for row in page["data"]]
            offset = page["next"]
            if offset is None:
                break
            os.remove(os.path.join(master.opts["pki_dir"], "minions", seen[-1]))
        assert seen == wanted
        for name in wanted:
            master.key(name)


def test_the_last_highstate(master):
    for name in ("ok", "bad", "late", "new"):
        master.minion(name)
    old, new = "20261121093000000001", "20261122093000000001"
    job(master, old, "state.highstate", ["ok", "bad", "late"], ok=2, bad=0, late=0)
    job(master, new, "state.apply", ["ok", "bad", "late"], ok=0, bad=2)
    job(master, "20261123093000000001", "state.apply", ["ok"], [{"test": True}], ok=1)
    job(master, "20261124093000000001", "state.apply", ["ok"], ["web"], ok=1)
    fields = ["name", "highstate", "highstate_job", "last_fun"]
    assert saltext.query.items(master.opts, "node", fields)["data"] == [
        [(0, "bad"), (0, "failed"), (0, new), (0, "state.apply")],
        [(0, "late"), (0, "missing"), (0, new), (0, "state.apply")],
        [(0, "new"), (0, "never"), (3, None), (3, None)],
        [(0, "ok"), (0, "success"), (0, new), (0, "state.apply")],
    ]
    assert names(master, "highstate != success") == ["bad", "late", "new"]


def test_packages(master):
    versions = {"deb": "3.0.2-0ubuntu1", "old": "1:3.0.11~rc1-1", "new": "3.1"}
    for name, version in versions.items():
        master.minion(name, os_family="Debian")
        master.put("mine", name, {"pkg.list_pkgs": {"openssl": version, "vim": "9"}})
    master.minion("silent")
    rule = "name == openssl and version < 3.0.11"
    found = saltext.query.items(master.opts, "package", ["node", "version"], rule)
    assert [row[0][1] for row in found["data"]] == ["deb", "old"]
    assert found["untold"] == 1


@pytest.mark.parametrize(
    "manager,one,other,sign",
    (
        ("dpkg", "1.0~rc1", "1.0", -1),
        ("dpkg", "1.0-1", "1.0-1ubuntu1", -1),
        ("dpkg", "1:0.5", "0:0.6", 1),
        ("dpkg", "1.0", "1.0-0", 0),
        ("dpkg", "1.0a", "1.0+b", -1),
        ("rpm", "1.0-1.el8", "1.0-1.el9", -1),
        ("rpm", "1.0~rc1-1", "1.0-1", -1),
        ("rpm", "1.0^a-1", "1.0-1", 1),
        ("rpm", "3.0.7-27.el9", "3.0.7", 0),
        ("rpm", "1:3.0.7", "0:3.0.8", 1),
        ("rpm", "10", "9a", 1),
        (None, "9", "10", -1),
    ),
)
def test_versions(manager, one, other, sign):
    assert version_order(manager, one, other) == sign
    assert version_order(manager, other, one) == -sign


@pytest.mark.parametrize("manager", ("dpkg", "rpm"))
@pytest.mark.parametrize(
    "found,wanted,sign",
    (
        ("1:1.1.1k-7", "3.0.2", -1),
        ("1:3.0.7-27", "3.0.2", 1),
        ("1:1.1.1k-7", "0:3.0.2", 1),
        ("3.0.7-27", "1:1.1.1k", -1),
    ),
)
def test_a_version_without_an_epoch(manager, found, wanted, sign):
    assert version_order(manager, found, wanted) == sign


def test_sums(master):
    for number in range(3):
        master.minion(f"web{number}", os="Debian", mem_total=1024 * (number + 1))
    master.minion("db", os="SLES")
    fields = ["os", "sum(mtotal)", "min(mtotal)", "max(mtotal)", "avg(mtotal)"]
    found = saltext.query.count(master.opts, "node", fields, sort="os")
    assert found["data"] == [
        [(0, "Debian"), (0, 3), (0, 6144), (0, 1024), (0, 3072), (0, 2048.0)],
        [(0, "SLES"), (0, 1), *[(2, None)] * 4],
    ]
    for wrong in (["sum(os)"], ["sum(nope)"]):
        with pytest.raises(QueryError):
            saltext.query.count(master.opts, "node", ["os", *wrong])


def test_a_misspelt_field(master):
    for name, meant in (
        ("mtotl", "mtotal"),
        ("MTotal", "mtotal"),
        ("OS", "os"),
        ("KeyState", "key_state"),
        ("Node", "name"),
        ("last_seen", "seen_ts"),
    ):
        with pytest.raises(QueryError, match=f"did you mean {meant!r}"):
            names(master, f"{name} == 1")
    # none is like these: a title is no name, unless it is one in all letters
    for name in ("zzz", "nope"):
        with pytest.raises(QueryError, match="--list-fields shows"):
            names(master, f"{name} == 1")
    with pytest.raises(QueryError, match="did you mean 'grain.roles'"):
        names(master, "grian.roles == web")


def test_a_misspelt_field_of_a_site(master):
    """
    Any grain is a field, so one that nothing has is no error; but an empty table says why.
    """
    master.minion("web1", os="Debian", roles=["web"])
    master.minion("web2", os="Debian")
    master.put("mine", "web1", {"network.ip_addrs": ["10.0.0.1"]})

    def ask(fields, rule=None, **more):
        found = saltext.query.items(master.opts, "node", fields, rule, **more)
        return found.get("valueless")

    assert ask(["name"], "grain.rolse == web") == {"grain.rolse": "grain.roles"}
    assert ask(["mine.network.ip_adrs"]) == {
        "mine.network.ip_adrs": "mine.network.ip_addrs"
    }
    assert ask(["grain.zzzzzzzzzzzz"], sort="name") == {"grain.zzzzzzzzzzzz": None}
    # one that others have, and one that nobody has looked at
    assert ask(["grain.roles"], ["=", "name", "web2"]) is None
    assert ask(["grain.roles"], limit=1, offset=1) is None
    assert ask(["name"], "name == db and grain.rolse == web") is None
    note = list(saltext.query.render.notes({"valueless": {"grain.a": "grain.b"}}))
    assert note == ["nothing that is looked at has grain.a; did you mean 'grain.b'?"]


def test_jobs_of_runners_are_left_out(master):
    """
    A job whose document is damaged is not: nobody knows whose it is.
    """
    for number, fun in enumerate(("test.ping", "runner.jobs.active", "wheel.key.list")):
        job(master, f"2026112109300000000{number}", fun, ["web1"])
    found = saltext.query.items(master.opts, "job", ["fun"])
    assert (found["data"], found["left_out"]) == ([[(0, "test.ping")]], 2)
    found = saltext.query.count(master.opts, "job", ["user"])
    assert (found["counted"], found["left_out"]) == (1, 2)
    for rule in (["&"], ["|", ["!=", "fun", "x"]], 'id > "1"'):
        found = saltext.query.items(master.opts, "job", ["fun"], rule)
        assert (len(found["data"]), found.get("left_out")) == (3, None)
    for jid, fun in (("1", "runner.jobs.active"), ("2", "wheel.key.list")):
        rule = ["=", "id", f"2026112109300000000{jid}"]
        found = saltext.query.items(master.opts, "job", ["fun"], rule)
        assert found["data"] == [[(0, fun)]]


#: What nobody sent to minions, and what somebody did.
_INTERNAL = [
    ("saltutil.find_job", None),
    ("saltutil.running", None),
    (["saltutil.running", "saltutil.find_job"], None),
    ("test.ping", {"query": "live"}),
    (["status.meminfo", "status.loadavg"], {"query": "live"}),
    ("runner.jobs.active", None),
]
_SENT = [
    ("saltutil.sync_all", None),
    (["test.ping", "saltutil.running"], None),
    ("test.ping", {"query": "mine"}),
    # whoever may publish chooses the metadata
    ("state.apply", {"query": "live"}),
]


def test_internal_jobs(master):
    """
    They are in no list but that of all jobs, and a filter may leave them out.
    """
    for number, (fun, metadata) in enumerate([*_SENT, *_INTERNAL]):
        jid = f"2026112109300000000{number}"
        job(master, jid, fun, ["web1"], metadata=metadata)

    def ask(rule=None):
        found = saltext.query.items(master.opts, "job", ["id", "internal"], rule)
        return [row[1][1] for row in found["data"]], found.get("left_out")

    assert ask() == ([False] * 4, 6)
    assert ask("internal") == ([True] * 6, None)
    assert ask('id > "1" and not internal') == ([False] * 4, None)
    assert ask(["&"]) == ([False] * 4 + [True] * 6, None)


def test_internal_jobs_are_no_last_jobs(master, monkeypatch):
    """
    Nor do they count among the jobs that are looked at.
    """
    master.minion("web1")
    job(master, "20261121093000000000", "test.echo", ["web1"], web1=0)
    job(master, "20261121093000000001", "state.highstate", ["web1"], web1=2)
    job(master, "20261121093000000002", "state.apply", ["web1"], ["web"], web1=0)
    for number, (fun, metadata) in enumerate(_INTERNAL):
        jid = f"2026112109300000001{number}"
        job(master, jid, fun, ["web1"], metadata=metadata, web1=0)
    fields = ["last_fun", "last_job", "last_result", "highstate", "highstate_job"]
    found = saltext.query.items(master.opts, "node", fields)
    assert [value for _, value in found["data"][0]] == [
        *["state.apply", "20261121093000000002", "success"],
        *["failed", "20261121093000000001"],
    ]
    query = saltext.query.prepare(master.opts, "node", ["highstate"])
    for most, known in ((2, ["web1"]), (1, [])):
        # Salt's loader has a module of its own
        monkeypatch.setattr("saltext.query.sources.last_jobs.MAX_JOBS", most)
        found = last_jobs.source(query.context(master.opts))
        assert list(found["highstate"]) == known


def test_who_has_no_accepted_key_is_not_judged(master):
    """
    Nobody wants to know that the master lacks the data of such a minion.
    """
    master.minion("web1", os="Debian")
    master.key("web2")
    for state in ("pending", "rejected", "denied"):
        master.key(f"{state}1", state)
    found = saltext.query.items(master.opts, "node", ["name"], "os == Debian")
    assert ([row[0][1] for row in found["data"]], found["undecided"]) == (["web1"], 1)


@pytest.mark.parametrize(
    "mine,held",
    (
        ({}, (2, None)),
        ({"pkg.list_holds": "'pkg.list_holds' is not available."}, (2, None)),
        ({"pkg.list_holds": []}, (0, False)),
        ({"pkg.list_holds": ["vim"]}, (0, True)),
        ({"pkg.list_holds": ["vim:amd64"]}, (0, True)),
        ({"pkg.list_holds": ["vim:i386"]}, (0, False)),
        ({"pkg.list_locks": {"vim-2:9-1.*": {}}}, (0, True)),
        ({"pkg.list_locks": {"vi*": {}}}, (0, True)),
        ({"pkg.list_locks": {"kernel-*": {}}}, (0, False)),
        ({"pkg.get_selections": {"hold": ["vim"], "install": ["x"]}}, (0, True)),
        ({"pkg.get_selections": {"install": ["vim"]}}, (0, False)),
    ),
)
def test_a_held_package(master, mine, held):
    """
    The list of packages does not say it: it is known if the mine has the holds.
    """
    master.minion("web1", os_family="Debian", osarch="amd64")
    master.put("mine", "web1", {"pkg.list_pkgs": {"vim": "9-1"}, **mine})
    fields = ["name", "version", "held"]
    found = saltext.query.items(master.opts, "package", fields)["data"]
    assert found == [[(0, "vim"), (0, "9-1"), held]]


def test_damaged_documents_of_a_driver_are_counted(master, monkeypatch):
    pytest.importorskip("salt.utils.mmap_cache", reason="Salt has it since 3008")
    master.opts["cache"] = "mmap_cache"
    master.key("web1")

    def fetch(*_args):
        raise SaltCacheError("Failed to deserialise cache data for bank='grains'")

    monkeypatch.setattr("salt.cache.Cache.fetch", fetch)
    # as it is stored: a mapping that ends too early
    monkeypatch.setattr("salt.utils.mmap_cache.MmapCache.get", lambda *_: b"\x82")
    found = saltext.query.items(master.opts, "node", ["os"])
    assert (found["data"], found["damaged"]) == ([[(2, None)]], 1)
