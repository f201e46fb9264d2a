"""
What the runner refuses before it asks PostgreSQL, and how it tells that
"""

import contextlib
import multiprocessing
from types import SimpleNamespace

import pytest
import saltext.package_states.master.answers as answers
import saltext.package_states.master.authors as authors
import saltext.package_states.master.edit as edit
import saltext.package_states.master.sets as sets
import saltext.package_states.runners.package_states as package_states
import saltext.package_states.status.page as page
from saltext.package_states.errors import InvalidInput, PackageStateError

import salt.loader

pytest.importorskip("psycopg2")


@pytest.fixture
def configure_loader_modules(master_opts):
    # nobody listens there
    master_opts["postgres"] = {"host": "127.0.0.1", "port": 1}
    return {package_states: {"__opts__": master_opts}}


REFUSED = (
    ("set", {"name": "../x"}, "'../x' is no state name; "),
    ("set", {"name": "a", "package": "{{ x }}", "wanted": "latest"}, "'{{ x }}' is no"),
    (
        "set",
        {"name": "a", "package": "vim", "wanted": "there"},
        "vim: wanted='there' is no such word; ",
    ),
    ("set", {"name": "a", "package": 5, "wanted": "latest"}, "Give a package, or "),
    ("set", {"name": "a", "package": [{"x": 1}]}, "An entry has the fields package"),
    ("set", {"name": ["a"], "package": []}, "['a'] is no state name; "),
    ("set", {"name": "a", "rename": "b c"}, "'b c' is no state name; "),
    ("unset", {"name": "a", "package": [["vim"]]}, "Give a package, or several"),
    ("unset", {"name": "a"}, "Give a package, or several"),
    (
        "assign",
        {"name": "a", "kind": "group", "target": "b", "priority": 1.5},
        "The priority must be a whole number; ",
    ),
    (
        "set",
        {"name": "a", "package": "*", "wanted": "upgrade", "version": "1.5"},
        "An upgrade takes no version; ",
    ),
    # as the command line reads version=1.5
    (
        "set",
        {"name": "a", "package": "vim", "wanted": "installed", "version": 1.5},
        "1.5 is a number here",
    ),
    ("load", {"path": 5}, "5 is no path; give that of a file"),
    ("load", {"path": "/nope/x"}, "'/nope/x' can't be read: "),
    ("show", {}, "PostgreSQL says: "),
)


@pytest.mark.parametrize("function, kwargs, message", REFUSED)
def test_what_is_refused(configure_loader_modules, function, kwargs, message):
    """
    One sentence, which the commands of Salt show
    """
    alias = {one: name for name, one in package_states.__func_alias__.items()}
    with pytest.raises(PackageStateError) as told:
        getattr(package_states, alias.get(function, function))(**kwargs)
    assert str(told.value).startswith(message)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("path", ("folder", "nope/file", "nul\0"))
def test_export_to_what_cannot_be_written(tmp_path, path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="can't be written: .*; give the path"):
        sets.write(str(tmp_path / path), "")


@pytest.mark.parametrize(
    "user, within, author",
    (
        ("ann", False, "ann for bob"),
        ("ann", True, "ann for bob"),
        ("root", False, "root for bob"),
        ("root", True, "UNKNOWN for bob"),
        ("sudo_ann", False, "sudo_ann for bob"),
        ("sudo_ann", True, "UNKNOWN for bob"),
        ("UNKNOWN", True, "UNKNOWN for bob"),
        ("Reactor", True, "Reactor for bob"),
    ),
)
def test_nobody_within_the_master_is_a_person(
    configure_loader_modules, monkeypatch, user, within, author
):
    """
    Its processes are called by the name of the user who runs it, whoever makes them call
    """
    monkeypatch.setattr(package_states, "__user__", user, raising=False)
    parent = SimpleNamespace() if within else None
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    # pylint: disable=protected-access
    assert package_states._save("bob", "", None, False).author == author


FILES = (
    ("export", {}, "path"),
    ("load", {}, "path"),
    ("load", {"text": "package_states: 1"}, "seen"),
)


@pytest.fixture
def remote(monkeypatch):
    """
    Let all be called in a process of the master
    """
    monkeypatch.setattr(multiprocessing, "parent_process", SimpleNamespace)


@pytest.mark.parametrize("function, kwargs, name", FILES)
def test_only_salt_run_on_the_master_names_any_file(
    configure_loader_modules, remote, tmp_path, monkeypatch, function, kwargs, name
):
    call = getattr(package_states, function)
    touched = []
    monkeypatch.setattr(sets, "read", touched.append)
    monkeypatch.setattr(sets, "write", touched.append)
    for place in ("/etc/shadow", "x.yaml", str(tmp_path / "x.yaml"), 5, ["x"], "a\0"):
        with pytest.raises(InvalidInput, match="Only salt-run on the master"):
            call(**kwargs, **{name: place})
    assert touched == []


def test_others_give_the_text(configure_loader_modules, remote, monkeypatch):
    """
    What was exported before a change may be a text as well
    """
    given = []
    monkeypatch.setattr(
        package_states.sets, "apply", lambda *arguments: given.append(arguments)
    )
    monkeypatch.setattr(package_states, "_service", lambda: None)
    package_states.load(text="new", seen="package_states: 1\n")
    assert (given[0][1], given[0][-1]) == ("new", "package_states: 1\n")


def test_salt_run_on_the_master_names_any_file(configure_loader_modules, monkeypatch):
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    # pylint: disable-next=protected-access
    assert package_states._path("/root/x.yaml") == "/root/x.yaml"


@pytest.mark.parametrize("name", ("package_states", "pkgset"))
@pytest.mark.parametrize("more", ({}, {"async": True}))
def test_a_minion_calls_nothing(master_opts, name, more):
    """
    The master runs with its own rights what peer_run lets a minion call, whatever its
    configuration has besides
    """
    master_opts.update(more, __cli="salt-master")
    load = {
        "id": "web1",
        "fun": f"{name}.x",
        "arg": [],
        "doc": False,
        "conf_file": master_opts["conf_file"],
    }
    functions = salt.loader.runner({**master_opts, **load})
    assert not [one for one in functions if one.startswith(f"{name}.")]
    assert authors.REFUSED in functions.missing_fun_string(f"{name}.refresh")
    # salt-run, Thorium, and a caller whom the master has authenticated
    command = {**master_opts, **load, "async": False, "__cli": "salt-run"}
    thorium = {**master_opts, "fun": f"{name}.x", "arg": [], "kwarg": {}, "async": True}
    for opts in (command, thorium, master_opts):
        assert f"{name}.refresh" in salt.loader.runner(opts)


def test_there_are_sixteen_commands(master_opts):
    found = salt.loader.runner(master_opts)
    names = {one[15:] for one in found if one.startswith("package_states.")}
    assert sorted(names) == [
        "assign",
        "available",
        "dry_run",
        "export",
        "history",
        "import",
        "load",
        "refresh",
        "restore",
        "set",
        "setup",
        "show",
        "status",
        "unassign",
        "unset",
        "where",
    ]


def test_a_page_says_how_to_see_others():
    found = {
        "counts": {"minions": 2, "drifting": 1},
        "security": 0,
        "minions": [{"minion": "web1", "verdict": "drifting"}],
        "page": 1,
        "pages": 2,
    }
    assert "Page 1 of 2; page=2 shows more, only=drifting some." in page.table(found)
    assert page.table({**found, "pages": 1}).endswith("Page 1 of 1.")


def test_who_lacks_the_extension_is_told_so(monkeypatch):
    """
    And if nobody has an answer, that is an error
    """
    names = ["web1", "web2"]
    fleet = SimpleNamespace(
        registry=SimpleNamespace(minions=lambda: names),
        minions=lambda _: dict.fromkeys(names),
        sources=lambda _: dict.fromkeys(names, ()),
        possible=lambda *_: ((), {}),
    )
    missing = {"return": "'package_state.plan' is not available.", "retcode": 254}
    monkeypatch.setattr(answers, "Fleet", lambda *_: fleet)
    monkeypatch.setattr(answers.store, "reading", contextlib.nullcontext)
    given = {"web1": missing, "web2": {"return": {}}}
    monkeypatch.setattr(answers, "_asked", lambda *_: given)
    service = SimpleNamespace(opts={}, compiler=SimpleNamespace(protected=()))
    names.append("web3")
    given["web3"] = {"return": {"vim": {"action": "install"}}}
    found = answers.plan(service)
    assert found["counts"] == {"minions": 3, "to change": 1, "no answer": 1}
    assert set(found["minions"]) == {"web3"}
    # who has no grains is not asked, as with no entries it would tell that all locks go
    unclear = {"": PackageStateError("grains not known")}
    with monkeypatch.context() as patched:
        patched.setattr(fleet, "possible", lambda *_: ((), unclear))
        patched.setattr(answers, "_asked", lambda *asked: {} if not asked[2] else None)
        patched.setattr(fleet, "minion", lambda name: name, raising=False)
        patched.setattr(fleet, "sources", lambda some: dict.fromkeys(some, ()))
        refusal = {"action": "refused", "reason": "grains not known"}
        assert answers.plan(service, "web1") == {"": refusal}
        assert answers.plan(service)["counts"]["no answer"] == 0
    # a sentence for all that it is said of
    given["web2"] = missing
    found = answers.plan(service)
    ((why, who),) = found["errors"].items()
    assert who == "web1, web2" and found["counts"]["no answer"] == 2
    assert why.startswith("did not answer package_state.plan: 'package_state.plan' is ")
    assert "see what runs there, and that it has saltext-package-states" in why
    given["web2"] = given["web3"] = missing
    with pytest.raises(PackageStateError, match="None of 3 minions answered; web1 did"):
        answers.plan(service)


def test_an_import_names_its_packages():
    """
    Without them it froze all that is installed
    """
    with pytest.raises(InvalidInput, match="say which, as in packages='nginx"):
        edit.installed(None, "web1", None, None, None)


def test_a_page_is_in_the_order_of_names(monkeypatch):
    rows = [
        ("a", "2026", 1.0, 2, 0, "", 0, None),
        ("b", "2026", 1.0, 2, 1, "x is in conflict", 0, None),
        ("c", None, None, None, None, None, None, None),
    ]
    monkeypatch.setattr(page.store, "reading", contextlib.nullcontext)
    monkeypatch.setattr(
        page.store, "quiet", lambda _: contextlib.nullcontext(enter_result=False)
    )
    monkeypatch.setattr(page, "Fleet", lambda *_: None)
    monkeypatch.setattr(page, "members", lambda *_: ["a", "b", "c"])
    monkeypatch.setattr(page.refresh, "statuses", lambda *_: rows)
    found = page.page({})
    assert [row["minion"] for row in found["minions"]] == ["a", "b", "c"]
    assert found["minions"][1]["error"] == "x is in conflict"
    assert "pending" not in found["minions"][1]
    empty = page.table(page.page({}, number=99))
    assert empty.endswith("Page 99 of 1 has no minion.")
