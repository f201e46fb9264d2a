"""
Files of Salt's own drivers are read directly, which is several times as fast. What is found
is what Salt's interfaces give.
"""

import copy
import os
import types

import pytest
import saltext.query
import saltext.query.documents
from saltext.query.sources import job_cache, keys

import salt.config
import salt.payload
import salt.utils.files
import salt.utils.jid
import salt.version

SINCE_3008 = salt.version.__saltstack_version__.info[0] >= 3008

GRAINS = {
    "os": "Debian",
    "osrelease": "12.5",
    "mem_total": 4096,
    "ipv4": ["127.0.0.1", "10.0.0.1"],
    "ec2": {"region": "west", "tags": ["a", "b"]},
    "nothing": None,
    "text": "e\u0301\u202e\x1b[31m;\n",
    "bytes": b"\xff\xfe",
    "number": 1.5,
    "roles": [],
    7: "number as a key",
}
FIELDS = ["name", "os", "os_release", "mtotal", "ip4_list", "grain.ec2.region"]
FIELDS += ["grain.ec2", "grain.text", "grain.bytes", "grain.number", "grain.roles"]
FIELDS += ["grain.nothing", "grain.gone", "mine.network.ip_addrs", "pillar.role"]


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with salt.utils.files.fopen(path, "wb") as handle:
        handle.write(content)


@pytest.fixture
def through_salt(monkeypatch):
    """
    A function after which everything is read through Salt's interfaces.
    """

    def switch():
        monkeypatch.setattr(saltext.query.documents, "_DIRECT", ())

    return switch


def test_documents(master, through_salt):
    """
    Whole ones, damaged ones, and what is no mapping.
    """
    master.key("whole")
    master.put("grains", "whole", {"id": "whole", **GRAINS})
    master.put("mine", "whole", {"network.ip_addrs": ["10.0.0.1"]})
    if SINCE_3008 and not saltext.query.documents.BANK_FOR_EACH:
        master.put("pillar", "whole", {"role": "web", "secret": "x"})
    master.minion("empty")
    master.key("none")
    for name, content in (
        ("cut", salt.payload.dumps({"id": "cut", **GRAINS})[:40]),
        ("garbage", b"\xc1\xc1\xc1"),
    ):
        master.key(name)
        place = master.place("grains", name)
        write(os.path.join(master.opts["cachedir"], place), content)

    def ask():
        ret = saltext.query.items(master.opts, "node", FIELDS)
        times = saltext.query.items(master.opts, "node", ["name", "seen_ts"])
        return ret["data"], ret.get("damaged"), times["data"]

    direct = ask()
    assert any(status == 0 for row in direct[0] for status, _ in row[1:])
    assert direct[1]
    through_salt()
    found = ask()
    for mine, theirs in zip(direct[0], found[0]):
        assert mine == theirs
    assert found == direct


@pytest.mark.skipif(not SINCE_3008, reason="keys are in no cache before 3008")
def test_keys(master):
    """
    Of each state, and what lies beside keys.
    """
    for number, state in enumerate(("accepted", "pending", "rejected", "denied") * 2):
        master.key(f"web{number}.example.com", state)
    # denied beside another key
    master.key("web0.example.com", "denied")
    folder = os.path.join(master.opts["pki_dir"], "minions")
    master.key(".hidden")
    master.key("back\\slash")
    os.mkdir(os.path.join(folder, "folder"))
    os.symlink("web0.example.com", os.path.join(folder, "link"))
    found = keys.source(types.SimpleNamespace(opts=master.opts))
    assert len(found) == 8
    opts = copy.deepcopy(salt.config.DEFAULT_MASTER_OPTS)
    opts.update(master.opts, id="master_master")
    assert found == keys.of_driver(opts, "localfs_key")


def test_jobs(master):
    """
    With and without returns.
    """
    root = os.path.join(master.opts["cachedir"], "jobs")
    jids = [f"2026112109300000000{number}" for number in range(3)]
    for number, jid in enumerate(jids):
        folder = salt.utils.jid.jid_dir(jid, root, "sha256")
        load = {"jid": jid, "fun": "test.ping", "tgt": "*", "user": "root", "arg": []}
        write(f"{folder}/jid", jid.encode())
        write(f"{folder}/.load.p", salt.payload.dumps(load))
        write(f"{folder}/.minions.p", salt.payload.dumps(["web2", "web1"]))
        for minion in ("web1", "web2")[:number]:
            returned = {
                "return": True,
                "retcode": number,
                "success": True,
                "id": minion,
            }
            write(f"{folder}/{minion}/return.p", salt.payload.dumps(returned))
    direct = job_cache.LocalJobs(
        master.opts, saltext.query.documents.Documents(master.opts).files
    )
    returner = job_cache.ReturnerJobs({**master.opts, "id": "master"})
    returner.returners.pack["__opts__"].update(master.opts)
    assert sorted(direct.ids()) == sorted(returner.ids()) == jids
    for jid in jids:
        assert direct.has(jid) and returner.has(jid)
        wanted = {"fun", "tgt", "user"}
        loads = [one.load(jid, wanted) for one in (direct, returner)]
        for load in loads:
            load.pop("jid", None)
        assert loads[0] == loads[1] == {"fun": "test.ping", "tgt": "*", "user": "root"}
        assert direct.minions(jid) == returner.minions(jid)
        assert direct.returned(jid) == returner.returned(jid)
        results = [
            {
                minion: {key: one[key] for key in ("retcode", "success") if key in one}
                for minion, one in found.results(jid).items()
            }
            for found in (direct, returner)
        ]
        assert results[0].keys() == results[1].keys()
        # the local job cache gives no success of a job's returns
        for mine, theirs in zip(results[0].values(), results[1].values()):
            assert {key: mine[key] for key in theirs} == theirs
