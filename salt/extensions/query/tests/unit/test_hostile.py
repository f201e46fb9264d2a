"""
Twenty minions that send whatever harms in a fleet of a thousand: queries of all others
answer as before, and output stays small.
"""

import json

import pytest
import saltext.query
import saltext.query.render

import salt.utils.files

COUNT, HOSTILE = 980, 20

GROUPS = ["os", "sum(mtotal)"]
SYSTEMS = ["name", "node_cnt", "releases"]

QUERIES = {
    "fields": ("node", ["name", "os", "mtotal", "roles", "grain.roles", "seen_ts"]),
    "pillars": ("node", ["name", "pillar.role", "pillar.db.port"]),
    "mine": ("node", ["name", "mine.network.ip_addrs.0", "vinst_cnt", "nic0.ip"]),
    "filter": ("node", ["name"], 'os == "Debian" and mtotal > 1G and roles is missing'),
    "search": ("node", ["name"], "name =~ m/7$/ or os =~ m/(a|b)+$/"),
    "sort": ("node", ["name", "os"], None, None, 0, "-os,mtotal,name"),
    "pillar": ("node", ["name"], "pillar.db.port > 5000"),
    "packages": ("package", ["node", "name", "version", "held"], "name == vim"),
    "locks": ("lock", ["node", "type", "object"]),
    "instances": ("instance", ["pnode", "name", "vcpus", "disk0.size", "nic0.mac"]),
}


def _deep(levels):
    ret = []
    for _ in range(levels):
        ret = [ret]
    return ret


def _hostile(number):
    """
    Return the grains, the mine and the pillar of a minion.
    """
    huge, many = "x" * 3_000_000, {f"key{one}": one for one in range(20_000)}
    escapes = "\x1b[2J\x1b]0;owned\x07\r\n\u202e,\"'"
    wrong = ({"a": 1}, 1.5, True, [], float("nan"), 2**63, b"\xff\xfe", None)
    mine = {"pkg.list_pkgs": many, "virt.vm_info": many, "network.ip_addrs": [huge]}
    return (
        ({"os": huge, "roles": [huge] * 3}, mine, {"role": huge}),
        ({"os": _deep(400), "roles": _deep(400)}, _deep(400), {"role": _deep(400)}),
        (many, many, many),
        (
            {"os": escapes, escapes: escapes, "osfinger": escapes},
            {"pkg.list_pkgs": {escapes: escapes}, "pkg.list_holds": [escapes]},
            {"role": escapes},
        ),
        (
            dict.fromkeys(
                ("os", "roles", "mem_total", "osfinger", "ipv4", "ip4_interfaces"),
                wrong[number % len(wrong)],
            ),
            {"virt.vm_info": {"vm": wrong}, "pkg.list_pkgs": wrong},
            {"db": wrong},
        ),
    )[number % 5]


def _answers(opts):
    ret = {
        name: saltext.query.items(opts, *request) for name, request in QUERIES.items()
    }
    ret["count"] = saltext.query.count(opts, "node", GROUPS, 'name !* "zz*"')
    ret["os"] = saltext.query.items(
        opts, "os", SYSTEMS, 'name in ("Debian-12", SLES-15)'
    )
    return ret


def _groups(opts):
    """
    Return groups of all nodes, also of those that are hostile.
    """
    return (
        saltext.query.count(opts, "node", GROUPS)["data"],
        saltext.query.items(opts, "os", SYSTEMS)["data"],
    )


def _others(answer):
    """
    Return the rows that no hostile minion has made.
    """
    return [row for row in answer["data"] if not str(row[0][1]).startswith("zz")]


def _size(answer):
    """
    Return how many characters a table and JSON have.
    """
    known, _ = saltext.query.render.known(answer)
    table = sum(map(len, saltext.query.render.lines(known)))
    return table, len(json.dumps(answer["data"]))


@pytest.mark.long
@pytest.mark.parametrize("master", [False], indirect=True)
def test_a_thousand_minions_with_twenty_that_are_hostile(master):
    for number in range(COUNT):
        name = f"web{number}"
        master.minion(
            name,
            os=("Debian", "SUSE")[number % 2],
            osfinger=("Debian-12", "SLES-15")[number % 2],
            osrelease="12",
            mem_total=1000 + number,
            ip4_interfaces={"eth0": [f"10.0.{number // 250}.{number % 250}"]},
        )
        master.put("pillar", name, {"role": "web", "db": {"port": 5000 + number % 2}})
        mine = {"pkg.list_pkgs": {"vim": "9.0-1"}, "pkg.list_holds": ["vim"]}
        mine["network.ip_addrs"] = ["10.0.0.1"]
        if number % 10 == 0:
            disk = {"virtual size": 2**30}
            info = {"cpu": 2, "disks": {"vda": disk}, "nics": {"00:01": {}}}
            mine["virt.vm_info"] = {"vm": info}
        master.put("mine", name, mine)
    before = _answers(master.opts)
    groups = _groups(master.opts)
    for number in range(HOSTILE):
        name = f"zz{number}"
        grains, mine, pillar = _hostile(number)
        master.minion(name, **grains)
        master.put("mine", name, mine)
        path = master.put("pillar", name, pillar)
        if number == 0:
            with salt.utils.files.fopen(path, "wb") as handle:
                # a mapping with one text of 100 MB
                handle.write(b"\x81\xa4role\xdb" + (10**8).to_bytes(4, "big"))
                handle.write(b"x" * 10**8)
    after = _answers(master.opts)
    for name, answer in before.items():
        known = [row for row in _others(after[name]) if row in answer["data"]]
        assert known == answer["data"], name
        for ours, theirs in zip(_size(answer), _size(after[name])):
            assert theirs <= 2 * ours, name
    # groups of others are as before; those of minions that are hostile are few and short
    for theirs, ours in zip(_groups(master.opts), groups):
        more = [row for row in theirs if row not in ours]
        assert [row for row in theirs if row in ours] == ours
        assert len(more) <= 5 and all(len(json.dumps(row)) <= 120 for row in more), more
    assert after["fields"]["too_large"] >= 4
    assert after["pillars"]["damaged"] >= 1
    listed = saltext.query.fields(master.opts, "node")
    names = [one["name"] for one in listed["fields"]]
    assert {"pillar.role", "mine.network.ip_addrs"}.issubset(names)
    assert len(json.dumps(listed)) < 800_000
    page = saltext.query.items(master.opts, "node", ["name", "os"], None, 5, "web979")
    assert [row[0][1] for row in page["data"]] == [f"zz{one}" for one in range(5)]
