"""
Which minions, groups and organizations there are
"""

import pytest
import saltext.package_states.compile.fleet as fleets
import saltext.package_states.compile.registry as registry
import saltext.package_states.model.resolver as resolver
import saltext.package_states.store.tables as store
from saltext.package_states.errors import InvalidInput, PackageStateError

import salt.cache
import salt.utils.files


class Keys:
    """
    A master with accepted keys and grains
    """

    def __init__(self, opts, folder):
        self.opts = opts
        self.folder = folder

    def accept(self, minion, **grains):
        """
        Accept a key, and keep grains if there are any
        """
        place = self.folder / "minions"
        place.mkdir(parents=True, exist_ok=True)
        with salt.utils.files.fopen(str(place / minion), "w") as handle:
            handle.write("key")
        if grains:
            cache = salt.cache.factory(self.opts)
            if fleets.BANK_FOR_EACH:
                document = {"grains": grains, "pillar": {}}
                cache.store(f"minions/{minion}", "data", document)
            else:
                cache.store("grains", minion, grains)


@pytest.fixture
def master(master_opts, tmp_path):
    master_opts["nodegroups"] = {
        "front": "L@web1,web2",
        "debian": "G@os:Debian and not web2",
        "both": ["N@front", "or", "N@debian"],
        "broken": "N@nowhere",
    }
    made = Keys(master_opts, tmp_path / "pki")
    made.accept("web1", os="Debian")
    made.accept("web2", os="Debian")
    made.accept("db1", os="SLES")
    made.accept("new")
    return made


def test_minions_are_the_accepted_keys(master, tmp_path):
    (tmp_path / "pki" / "minions_pre").mkdir()
    (tmp_path / "pki" / "minions_pre" / "guest").write_text("key")
    found = registry.get(master.opts, None)
    assert found.minions() == ["db1", "new", "web1", "web2"]
    assert found.minions(["web1", "guest", "gone", "*"]) == ["web1"]


def test_some_groups_are_decided_by_grains(master):
    """
    Or by what else a minion tells, also in a group of groups
    """
    master.opts["nodegroups"].update(
        deep="N@both and web*", ip="S@10.0.0.0/8", paren=["(I@a:b", "or", "web1)"]
    )
    found = registry.get(master.opts, None)
    groups = [*master.opts["nodegroups"], "gone"]
    groups.remove("broken")
    wanted = ["debian", "both", "deep", "ip", "paren"]
    assert [one for one in groups if found.by_grains(one)] == wanted
    with pytest.raises(InvalidInput, match="can't be read"):
        found.by_grains("broken")


@pytest.mark.parametrize(
    "group, wanted",
    (
        ("front", ["web1", "web2"]),
        # nobody is taken for a Debian whose grains are not known
        ("debian", ["web1"]),
        ("both", ["web1", "web2"]),
        ("none", []),
    ),
)
def test_groups_are_nodegroups(master, group, wanted):
    found = registry.get(master.opts, None)
    there = [one for one in found.minions() if found.belongs(one, "group", group)]
    assert there == wanted


@pytest.mark.parametrize("wrong", (None, 5, {"L@web1": 1}, ["L@web1", 3], "N@wrong"))
def test_a_group_that_can_not_be_read_is_not_an_empty_one(master, wrong):
    master.opts["nodegroups"]["wrong"] = wrong
    for group in ("wrong", "broken"):
        with pytest.raises(InvalidInput, match=f"nodegroup '{group}' can't be read"):
            registry.get(master.opts, None).belongs("web1", "group", group)
    assert registry.get(master.opts, None).belongs("web1", "group", "both")
    master.opts["nodegroups"]["nobody"] = []
    assert not registry.get(master.opts, None).belongs("web1", "group", "nobody")


def test_all_is_the_organization(master):
    found = registry.get(master.opts, None)
    assert found.belongs("new", resolver.ORGANIZATION, registry.ALL)
    assert not found.belongs("new", resolver.ORGANIZATION, "1")
    assert found.target("organization", "all") == "all"


@pytest.mark.parametrize(
    "kind, name, message",
    (
        ("organization", "one", "use all, which is every minion"),
        ("group", "gone", "use one of the master's nodegroups: '"),
        ("minion", "guest", "whose key is accepted"),
        ("grains", "Debian", "write it like os:Debian"),
        ("own", "web1", "There is no 'own' to assign to"),
        (["group"], "front", "to assign to"),
    ),
)
def test_what_is_not_there(master, kind, name, message):
    with pytest.raises(PackageStateError, match=message):
        registry.get(master.opts, None).target(kind, name)


@pytest.mark.parametrize("value", ("uyuni", 5, ["keys"], None))
def test_unknown_registries(master_opts, value):
    with pytest.raises(InvalidInput, match="use keys or database"):
        registry.get({**master_opts, "package_states": {"minions": value}}, None)


@pytest.fixture
def database(master_opts, monkeypatch):
    """
    Return a registry of a database with three minions in two organizations
    """
    minions = {
        "web1": ("1", ["3", "4"]),
        "web2": ("1", []),
        "web3": ("2", ["5"]),
    }
    targets = [
        ("group", "3", "front"),
        ("group", "4", "5"),
        ("group", "5", "front"),
        ("organization", "1", "one"),
        ("organization", "2", "two"),
    ]

    def ask(_, query, *values):
        if "target" in query:
            return targets
        return [
            (name, *found)
            for name, found in minions.items()
            if not values or name in values[0]
        ]

    monkeypatch.setattr(store, "ask", ask)
    opts = {**master_opts, "package_states": {"minions": "database"}}
    return registry.get(opts, None)


def test_groups_and_organizations_of_a_database(database):
    assert database.minions(["web1", "gone"]) == ["web1"]
    assert database.belongs("web1", "group", "4")
    assert not database.belongs("web1", "organization", "2")
    assert not database.belongs("gone", "group", "4")
    assert database.minions() == ["web1", "web2", "web3"]
    assert database.target("organization", "two") == "2"
    assert database.label("group", "3") == "front"
    assert database.label("group", "9") is None


@pytest.mark.parametrize("name", ("front", "5"))
def test_ambiguous_names_are_an_error(database, name):
    """
    Two organizations have a group of this name, and one group has the id of another one
    as its name
    """
    with pytest.raises(PackageStateError, match="more than one group"):
        database.target("group", name)


@pytest.mark.parametrize("option", ("keys.cache_driver", "cluster_id"))
def test_keys_that_are_no_files_of_this_master_are_asked_for(
    master_opts, tmp_path, monkeypatch, option
):
    """
    Where they are files, their names are what Salt says
    """
    folder = tmp_path / "pki" / "minions"
    folder.mkdir(parents=True)
    for name in ("web1", "db.example.com", ".key_cache"):
        (folder / name).write_text("key")
    master_opts["pki_dir"] = str(tmp_path / "pki")
    found = registry.Keys(master_opts, None)
    told = found._check(".*", "pcre")["minions"]  # pylint: disable=protected-access
    assert found.minions() == sorted(told) == ["db.example.com", "web1"]
    found = registry.Keys({**master_opts, option: "other"}, None)
    monkeypatch.setattr(found, "_check", lambda *_: {"minions": ["b", "a"]})
    assert (found.minions(), found.minions(["a", "c"])) == (["a", "b"], ["a"])
