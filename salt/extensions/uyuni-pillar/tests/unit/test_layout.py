"""
Tests of which rows Uyuni's files make
"""

from types import SimpleNamespace

import pytest
import saltext.uyuni_pillar.layout as uyuni

import salt.utils.json

MINIONS = {
    "web": {1, 2},
    "web_1": {2},
    "web_custom_info": set(),
    "db1.example.com": set(),
}


@pytest.fixture
def folders(tmp_path):
    names = ("pillar", "static", "formulas")
    return {option: str(tmp_path / name) for option, name in zip(uyuni.DEFAULTS, names)}


@pytest.fixture
def write(tmp_path):
    def write(path, text):
        path = tmp_path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(
                text if isinstance(text, str) else salt.utils.json.dumps(text)
            )
        return str(path)

    return write


@pytest.fixture
def source(folders):
    fleet = SimpleNamespace(minions=MINIONS, groups=[1, 2], organizations=[1])
    return uyuni.Source(folders, fleet)


def rows_of(source):
    """
    Return the pillars by level, owner and category
    """
    return {(row.level, row.owner, row.category): row.pillar for row in source.rows()}


@pytest.mark.parametrize(
    "path,expected",
    [
        ("static/gpgkeys.yml", (0, None, "gpgkeys")),
        ("pillar/mgr_conf.yml", (0, None, "mgr_conf")),
        ("pillar/images/kiwi.sls", (0, None, "images/kiwi")),
        ("pillar/images/org1/kiwi.sls", (1, 1, "kiwi")),
        ("pillar/images/group2/kiwi.sls", (2, 2, "kiwi")),
        ("pillar/pillar_web.yml", (3, "web", "general")),
        ("pillar/pillar_web_1.yml", (3, "web_1", "general")),
        ("pillar/pillar_web_1_custom_info.yml", (3, "web_1", "custom_info")),
        ("pillar/pillar_db1.example.com.yml", (3, "db1.example.com", "general")),
    ],
)
def test_file_is_the_row_of_its_name(write, source, path, expected):
    pillar = {"a": {"b": 1}, **({"org_id": 1} if expected[2] == "general" else {})}
    write(path, pillar)
    assert rows_of(source) == {expected: pillar}
    assert (source.bad, source.ignored) == ({}, [])


def test_formulas_are_those_of_the_minion_and_of_its_groups(write, source):
    write("formulas/group_formulas.json", {"1": ["users"], "2": ["ntp", "empty"]})
    write("formulas/minion_formulas.json", {"web": ["own", "late"]})
    write("formulas/formula_order.json", ["ntp", "users", "own", "empty"])
    write("formulas/group_pillar/1_users.json", {"users": 1})
    write("formulas/pillar/web_users.json", {"users": 2})
    assert rows_of(source) == {
        (2, 1, "formula-users"): {"users": 1},
        # assigned without data
        (2, 2, "formula-ntp"): {},
        (2, 2, "formula-empty"): {},
        (3, "web", "formula-own"): {},
        (3, "web", "formula-late"): {},
        (3, "web", "formula-users"): {"users": 2},
        (0, None, "formula_order"): {"formula_order": ["ntp", "users", "own", "empty"]},
    }


def test_formula_without_data_never_replaces_data(write, source):
    write("formulas/group_formulas.json", {"1": ["users", "gone"]})
    write("formulas/minion_formulas.json", {"web": ["own"]})
    found = {row.category: row.fallback for row in source.rows() if not row.pillar}
    assert found == {"formula-users": True, "formula-gone": True, "formula-own": True}


def test_empty_data_of_a_formula_replace_data(write, source):
    write("formulas/group_formulas.json", {"1": ["users"]})
    write("formulas/group_pillar/1_users.json", {})
    assert [row.fallback for row in source.rows() if row.level == 2] == [False]


def test_data_of_a_formula_that_is_not_assigned_are_ignored(write, source):
    path = write("formulas/pillar/web_users.json", {"users": 2})
    assert rows_of(source) == {}
    assert source.ignored == [path]


@pytest.mark.parametrize(
    "path",
    [
        "pillar/pillar_gone.yml",
        "pillar/pillar_web_other.yml",
        "pillar/images/org7/kiwi.sls",
        "pillar/images/group7/kiwi.sls",
    ],
)
def test_file_of_an_unknown_owner_is_ignored(write, source, path):
    path = write(path, "a: 1")
    assert rows_of(source) == {}
    assert source.ignored == [path]


def test_general_file_of_an_unknown_minion_is_no_category_of_another(write, source):
    path = write("pillar/pillar_web_1_custom_info.yml", "org_id: 1")
    assert rows_of(source) == {}
    assert source.bad == {
        path: "it has org_id, so it is not custom_info of web_1: move it away"
    }


def test_category_of_an_unknown_minion_is_no_general_file(folders, write):
    minions = {"old_custom_info": set()}
    fleet = SimpleNamespace(minions=minions, groups=[], organizations=[])
    source = uyuni.Source(folders, fleet)
    path = write("pillar/pillar_old_custom_info.yml", "custom_info: {}")
    assert rows_of(source) == {}
    assert source.bad == {
        path: "it has no org_id, so it is not general of old_custom_info: move it away"
    }
    write("pillar/pillar_old_custom_info.yml", "org_id: 1")
    source = uyuni.Source(folders, fleet)
    assert rows_of(source) == {(3, "old_custom_info", "general"): {"org_id": 1}}


def test_assignments_of_unknown_owners_are_left_out(write, source):
    write("formulas/minion_formulas.json", {"gone": ["ntp"], "web": ["ntp"]})
    assert list(rows_of(source)) == [(3, "web", "formula-ntp")]


def test_name_that_two_minions_may_have_is_bad(write, source):
    path = write("pillar/pillar_web_custom_info.yml", "a: 1")
    assert rows_of(source) == {}
    assert source.bad == {
        path: "its name may mean custom_info of web or general of web_custom_info"
    }


@pytest.mark.parametrize(
    "text,expected",
    [
        ("a: [", "it cannot be parsed: "),
        ("{% if 1 %}a: 1", "it cannot be parsed: "),
        (b"a: \xff", "it cannot be parsed: "),
        ("", "it holds no mapping, but NoneType"),
        ("[1]", "it holds no mapping, but list"),
        ("5", "it holds no mapping, but int"),
        ("1: a", "JSON cannot hold it: it has a key that is no text"),
        ("a: {b: {1: c}}", "JSON cannot hold it: it has a key that is no text"),
        ('a: ["x\\0"]', "JSON cannot hold it: "),
        ("a: .nan", "JSON cannot hold it: "),
        ("a: .inf", "JSON cannot hold it: "),
        ("a: 1.0e+30", "JSON cannot hold it: the number 1e+30 would come back as"),
        ("a: -0.0", "JSON cannot hold it: the number -0.0 would come back as"),
        ("a: !!set {b}", "JSON cannot hold it: "),
    ],
)
def test_file_that_cannot_be_a_row_is_bad(write, source, text, expected):
    path = write("pillar/pillar_web.yml", text)
    assert rows_of(source) == {}
    assert list(source.bad) == [path]
    assert source.bad[path].startswith(expected)


@pytest.mark.parametrize(
    "name,value,expected",
    [
        ("formula_order.json", {"a": 1}, "it holds no list"),
        ("formula_order.json", [1], "[1] is no list of names"),
        ("group_formulas.json", [], "it holds no mapping"),
        ("group_formulas.json", {"1": "ntp"}, "ntp is no list of names"),
        ("minion_formulas.json", {"web": [1]}, "[1] is no list of names"),
    ],
)
def test_assignments_that_are_none_are_bad(write, source, name, value, expected):
    path = write(f"formulas/{name}", value)
    assert rows_of(source) == {}
    assert source.bad[path].startswith(expected)


def test_two_files_of_one_category_are_bad(write, source):
    path = write("static/gpgkeys.yml", "a: 1")
    other = write("pillar/gpgkeys.yml", "a: 2")
    assert [row.path for row in source.rows()] == [other]
    assert list(source.bad) == [path]
