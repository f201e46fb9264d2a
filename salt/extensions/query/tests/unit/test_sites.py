"""
What sites have: grains, mine entries and pillars of their own; targets, order and counts.
"""

import copy
import random
from unittest.mock import patch  # pylint: disable=blacklisted-module

import pytest
import saltext.query
import saltext.query.documents
import saltext.query.dynamic
from saltext.query.errors import QueryError
from saltext.query.field import table

import salt.config
import salt.payload
import salt.utils.files


def ask(master, fields, rule=None, **more):
    ret = saltext.query.items(master.opts, "node", fields, rule, **more)
    return [one["kind"] for one in ret["fields"]], ret["data"]


def put_pillar(master, minion, pillar):
    """
    Store a pillar as the master does.
    """
    if not saltext.query.documents.BANK_FOR_EACH:
        master.put("pillar", minion, pillar)
        return
    path = master.minion(minion)
    with salt.utils.files.fopen(path, "rb") as handle:
        document = salt.payload.loads(handle.read())
    document["pillar"] = pillar
    with salt.utils.files.fopen(path, "wb") as handle:
        handle.write(salt.payload.dumps(document))


@pytest.fixture
def site(master):
    master.minion(
        "web1",
        **{
            "os": "Debian",
            "mem_total": 2048,
            "ec2": {"region": "eu-1", "tags": ["a", "b"]},
            "flat.key": 5,
            "Foo-Bar": True,
            "mixed": 1,
        },
    )
    master.minion(
        "web2", os="SLES", mem_total=8192, ec2={"region": "us-1"}, mixed="x", rack=7
    )
    master.key("web3")
    master.put("mine", "web1", {"network.ip_addrs": ["10.0.0.1"], "x": {"y": 1.5}})
    wrapped = {"__data__": ["10.0.0.2"], "__saltmine_acl__": 1, "allow_tgt": "x"}
    master.put("mine", "web2", {"network.ip_addrs": wrapped})
    return master


def test_grains(site):
    """
    Paths lead into mappings and lists; a key may have dots itself.
    """
    fields = ["grain.ec2.region", "grain.ec2.tags.1", "grain.flat.key", "grain.rack"]
    kinds, rows = ask(site, fields)
    assert kinds == ["text", "text", "number", "number"]
    assert rows == [
        [(0, "eu-1"), (0, "b"), (0, 5), (3, None)],
        [(0, "us-1"), (3, None), (3, None), (0, 7)],
        [(2, None)] * 4,
    ]


def test_kinds(site):
    """
    The kind is that of the values; where they differ, it is that of anything. A site may
    say it.
    """
    fields = ["grain.Foo-Bar", "grain.mixed", "grain.ec2", "grain.nope"]
    assert ask(site, fields)[0] == ["bool", "other", "other", "other"]
    assert ask(site, ["grain.mixed"], ["=", "name", "web1"])[0] == ["number"]
    site.opts["query"] = {"kinds": {"grain.mixed": "text", "grain.Foo-Bar": "bool"}}
    kinds, rows = ask(site, ["grain.mixed", "grain.Foo-Bar"])
    assert kinds == ["text", "bool"]
    assert rows[:2] == [[(3, None), (0, True)], [(0, "x"), (3, None)]]
    site.opts["query"] = {"kinds": {"grain.mixed": "nope"}}
    with pytest.raises(QueryError, match="kinds"):
        ask(site, ["name"])


def test_mine(site):
    kinds, rows = ask(site, ["mine.network.ip_addrs.0", "mine.x.y"])
    assert kinds == ["text", "float"]
    assert rows == [
        [(0, "10.0.0.1"), (0, 1.5)],
        [(0, "10.0.0.2"), (3, None)],
        [(2, None)] * 2,
    ]


def test_pillar(site):
    put_pillar(site, "web1", {"role": "db", "users": {"bob": {"uid": 5}}})
    kinds, rows = ask(site, ["pillar.role", "pillar.users.bob.uid"])
    assert kinds == ["text", "number"]
    assert rows[0] == [(0, "db"), (0, 5)]


def test_names_of_fields_are_as_the_specification_has_them(site):
    """
    What a key has besides letters is escaped, and understood either way.
    """
    for name in ("grain.Foo-Bar", "grain./46oo/2d/42ar"):
        ret = saltext.query.items(site.opts, "node", [name], ["=", "name", "web1"])
        assert ret["data"] == [[(0, True)]]
        assert ret["fields"][0]["name"] == "grain./46oo/2d/42ar"
    rand = random.Random(4)
    for _ in range(300):
        key = "".join(rand.choices("aZ0_-:/ é\u202e\n", k=rand.randint(1, 8)))
        field = saltext.query.dynamic.find(
            f"grain.{saltext.query.dynamic.escaped(key)}", {}
        )
        assert field.needs == (f"grains:{key}",)
        assert saltext.query.dynamic.find(f"grain.a\0{key}", {}) is not None
        # which keeps the rules for names, titles and docs
        assert table(field)


@pytest.mark.parametrize(
    "name", ("grain", "grain.", "grain..a", "grains.a", "pillar.", "x.y", "grain.a..b")
)
def test_what_is_none_of_these_stays_unknown(site, name):
    assert ask(site, [name], ["=", "name", "web1"]) == (["unknown"], [[(1, None)]])


@pytest.mark.parametrize(
    "rule,names",
    (
        (["=", "grain.ec2.region", "eu-1"], ["web1"]),
        (["!=", "grain.ec2.region", "eu-1"], ["web2"]),
        (["=~", "grain.ec2.region", "^us"], ["web2"]),
        (["=", "grain.mixed", 1], ["web1"]),
        ([">", "grain.mixed", 0], ["web1"]),
        ([">", "grain.mixed", "a"], ["web2"]),
        (["=[]", "grain.ec2.tags", "a"], ["web1"]),
        (["?", "grain.rack"], ["web2"]),
        (["!", ["?", "grain.rack"]], []),
        (["=[]", "mine.network.ip_addrs", "10.0.0.2"], ["web2"]),
        ('grain.ec2.region == "eu-1" and mtotal < 4G', ["web1"]),
        ("grain.rack == 7", ["web2"]),
        ('"a" in grain.ec2.tags', ["web1"]),
    ),
)
def test_filters(site, rule, names):
    assert [row[0][1] for row in ask(site, ["name"], rule)[1]] == names


def test_fields_are_listed(site):
    """
    Those that minions have, with the kinds of their values.
    """
    put_pillar(site, "web3", {"role": "db"})
    found = saltext.query.fields(site.opts, "node")["fields"]
    kinds = {one["name"]: one["kind"] for one in found}
    assert kinds["grain.ec2.region"] == "text"
    assert kinds["grain.ec2"] == "other"
    assert kinds["grain./46oo/2d/42ar"] == "bool"
    assert kinds["grain.mixed"] == "other"
    assert kinds["mine.network.ip_addrs"] == "other"
    assert kinds["pillar.role"] == "text"
    assert len({one["title"].lower() for one in found}) >= len(found) - 20
    one = saltext.query.fields(site.opts, "node", ["grain.rack", "os", "nope"])
    assert [field["kind"] for field in one["fields"]] == ["number", "text", "unknown"]


def test_large_values_are_looked_at_once(site, monkeypatch):
    """
    To list fields: what is a mapping or a list in one minion needs no second look.
    """
    seen = []
    cell = saltext.query.dynamic.DynamicField.cell

    def counted(self, item):
        seen.append((self.name, item.name))
        return cell(self, item)

    monkeypatch.setattr(saltext.query.dynamic.DynamicField, "cell", counted)
    names = ["grain.ec2", "grain.ec2.region"]
    found = saltext.query.fields(site.opts, "node", names)["fields"]
    assert [one["kind"] for one in found] == ["other", "text"]
    assert seen.count(("grain.ec2", "web1")) == 1
    assert ("grain.ec2", "web2") not in seen
    assert ("grain.ec2.region", "web2") in seen


# ----------------------------------------------------------------------
# Order
# ----------------------------------------------------------------------


def order(master, sort, **more):
    return [row[0][1] for row in ask(master, ["name"], sort=sort, **more)[1]]


def test_sort(site):
    """
    What is missing comes last, either way; equal ones stay as they are.
    """
    assert order(site, "-name") == ["web3", "web2", "web1"]
    assert order(site, "mtotal") == ["web1", "web2", "web3"]
    assert order(site, ["-mtotal"]) == ["web2", "web1", "web3"]
    assert order(site, "-os, name") == ["web2", "web1", "web3"]
    assert order(site, "key_state,-grain.rack") == ["web2", "web1", "web3"]
    assert order(site, "-mtotal", limit=1, offset=1) == ["web1"]


def test_sort_is_that_of_python(master):
    rand = random.Random(8)
    values = {}
    for number in range(40):
        values[f"n{number}"] = rand.choice([1, 2, 3, None])
        more = {} if values[f"n{number}"] is None else {"x": values[f"n{number}"]}
        master.minion(f"n{number}", **more)
    expected = sorted(
        values,
        key=lambda name: (
            values[name] is None,
            -(values[name] or 0),
            int(name[1:]),
        ),
    )
    assert order(master, "-grain.x,name") == expected


@pytest.mark.parametrize("sort", ("nope", ["name", 1], 5, "-", ["name"] * 21))
def test_wrong_sorts(site, sort):
    with pytest.raises(QueryError, match="ort"):
        order(site, sort)


# ----------------------------------------------------------------------
# Counts
# ----------------------------------------------------------------------


def test_count(master):
    for number in range(6):
        master.minion(
            f"web{number}", os="SLES" if number > 3 else "Debian", osrelease="12"
        )
    master.key("new")
    ret = saltext.query.count(master.opts, "node", ["os", "osrelease"])
    assert ret["data"] == [
        [(0, "Debian"), (0, "12"), (0, 4)],
        [(0, "SLES"), (0, "12"), (0, 2)],
        [(2, None), (2, None), (0, 1)],
    ]
    assert ret["counted"] == 7
    assert [one["name"] for one in ret["fields"]] == ["os", "osrelease", "count"]
    assert "next" not in ret
    ret = saltext.query.count(master.opts, "node", ["os"], "os", limit=1)
    assert (ret["data"], ret["counted"]) == ([[(0, "Debian"), (0, 4)]], 6)
    assert (ret["total"], ret["next"]) == (2, 1)


# ----------------------------------------------------------------------
# Targets
# ----------------------------------------------------------------------


@pytest.fixture
def targets(site):
    site.opts.update(
        nodegroups={"webs": "web1 or G@os:SLES", "nobody": "x"},
        minion_data_cache_events=False,
        minion_data_cache=True,
        key_cache="",
    )
    return site


@pytest.mark.parametrize(
    "tgt_type,tgt,names",
    (
        ("glob", "web[12]", ["web1", "web2"]),
        ("list", "web1,web3", ["web1", "web3"]),
        ("list", ["web3", "nope"], ["web3"]),
        ("pcre", "web[^1]", ["web2", "web3"]),
        ("grain", "os:Debian", ["web1"]),
        ("grain", "ec2:region:us-1", ["web2"]),
        ("compound", "web* and not G@os:SLES", ["web1", "web3"]),
        ("compound", "L@web1,web2 and E@.*2", ["web2"]),
    ),
)
def test_targets(targets, tgt_type, tgt, names, monkeypatch):
    """
    The matchers are Salt's: this is that they are asked, and by their names.
    """
    monkeypatch.setattr(
        "saltext.query.documents.BANK_FOR_EACH", saltext.query.documents.BANK_FOR_EACH
    )
    told = {"minions": names, "ssh_minions": False}
    with patch("salt.utils.minions.CkMinions") as checks:
        checks.return_value.check_minions.return_value = told
        found = ask(targets, ["name"], tgt=tgt, tgt_type=tgt_type)[1]
    assert [row[0][1] for row in found] == names
    checks.return_value.check_minions.assert_called_once_with(
        tgt, tgt_type, greedy=False
    )


@pytest.mark.parametrize(
    "tgt_type,tgt,names",
    (
        ("glob", "web[12]", ["web1", "web2"]),
        ("list", "web1,web3", ["web1", "web3"]),
        ("pcre", "web[^1]", ["web2", "web3"]),
        ("compound", "web* and not web2", ["web1", "web3"]),
        ("compound", "L@web1,web2 and E@.*2", ["web2"]),
        ("nodegroup", "webs", ["web1"]),
    ),
)
def test_targets_of_the_real_matchers(targets, tgt_type, tgt, names):
    opts = copy.deepcopy(salt.config.DEFAULT_MASTER_OPTS)
    opts.update(targets.opts, id="master_master", user="root")
    opts["nodegroups"] = {"webs": "web1 or nope"}
    ret = saltext.query.items(opts, "node", ["name"], tgt=tgt, tgt_type=tgt_type)
    assert [row[0][1] for row in ret["data"]] == names


def test_a_target_that_cannot_be_read(targets):
    """
    Salt's matchers log it and find nobody.
    """
    with pytest.raises(QueryError, match="Correct the target"):
        ask(targets, ["name"], tgt="web[", tgt_type="pcre")


def test_targets_and_filters_and_names(targets):
    with patch("salt.utils.minions.CkMinions") as checks:
        checks.return_value.check_minions.return_value = {
            "minions": ["web1", "web2", "gone"],
            "ssh_minions": False,
        }
        for rule in (["=", "os", "SLES"], ["|", *[["=", "name", "web2"]] * 2]):
            found = ask(targets, ["name"], rule, tgt="x")[1]
            assert found == [[(0, "web2")]]


@pytest.mark.parametrize(
    "what,tgt,tgt_type",
    (
        ("node", "x", "nope"),
        ("node", 5, "glob"),
        ("node", ["a"], "glob"),
        ("node", "x", "nodegroup"),
        ("job", "x", "glob"),
    ),
)
def test_wrong_targets(targets, what, tgt, tgt_type):
    with pytest.raises(QueryError, match="Give"):
        saltext.query.items(targets.opts, what, ["name"], tgt=tgt, tgt_type=tgt_type)
