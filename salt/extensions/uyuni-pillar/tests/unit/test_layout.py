"""
Tests of which rows Uyuni's files make, and which files rows make
"""

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
    return uyuni.Folders(
        *(str(tmp_path / name) for name in ("pillar", "static", "formulas"))
    )


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
    return uyuni.Source(folders, MINIONS, [1, 2], [1], ["net_work"])


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
        ("pillar/pillar_web_net_work.yml", (3, "web", "net_work")),
        ("pillar/pillar_db1.example.com.yml", (3, "db1.example.com", "general")),
    ],
)
def test_file_is_the_row_of_its_name(write, source, path, expected):
    write(path, "a: {b: 1}")
    assert rows_of(source) == {expected: {"a": {"b": 1}}}
    assert (source.bad, source.ignored) == ({}, {})


@pytest.mark.parametrize(
    "path",
    [
        "static/gpgkeys.yml",
        "pillar/mgr_conf.yml",
        "pillar/images/kiwi.sls",
        "pillar/images/org1/kiwi.sls",
        "pillar/images/group2/kiwi.sls",
        "pillar/pillar_web.yml",
        "pillar/pillar_web_1_custom_info.yml",
    ],
)
def test_row_is_written_where_it_was_read(tmp_path, folders, write, source, path):
    write(path, "a: 1")
    (row,) = source.rows()
    found = uyuni.path_of(folders, row.level, row.owner, row.category)
    assert found == str(tmp_path / path)


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
        (3, "web", "formulas"): {"formulas": ["ntp", "users", "own", "empty", "late"]},
        (3, "web_1", "formulas"): {"formulas": ["ntp", "empty"]},
    }
    assert source.order == ["ntp", "users", "own", "empty"]


def test_formula_without_data_never_replaces_data(write, source):
    write("formulas/group_formulas.json", {"1": ["users", "gone"]})
    write("formulas/minion_formulas.json", {"web": ["own"]})
    write("formulas/group_pillar/1_users.json", "broken")
    found = {row.category: row.fallback for row in source.rows() if not row.pillar}
    assert found == {"formula-users": True, "formula-gone": True, "formula-own": True}


def test_empty_data_of_a_formula_replace_data(write, source):
    write("formulas/group_formulas.json", {"1": ["users"]})
    write("formulas/group_pillar/1_users.json", {})
    assert [row.fallback for row in source.rows() if row.level == 2] == [False]


@pytest.mark.parametrize(
    "name,formula",
    [("group_formulas.json", "users"), ("minion_formulas.json", "own")],
)
def test_bad_assignments_make_no_list_of_formulas(write, source, name, formula):
    write("formulas/group_formulas.json", {"1": ["users"]})
    write("formulas/minion_formulas.json", {"web": ["own"]})
    bad = write(f"formulas/{name}", "broken")
    data = write(f"formulas/pillar/web_{formula}.json", {"a": 1})
    rows = rows_of(source)
    assert list(source.bad) == [bad]
    assert rows
    assert not any(category == "formulas" for _, _, category in rows)
    # the bad file may assign it
    expected = "it is of no assigned formula, as far as it can be known with bad"
    assert source.ignored[data].startswith(expected)


def test_bad_order_of_formulas_replaces_no_list(write, source):
    write("formulas/minion_formulas.json", {"web": ["own"]})
    write("formulas/formula_order.json", "broken")
    assert {row.category: row.fallback for row in source.rows()} == {
        "formulas": True,
        "formula-own": True,
    }
    assert source.order is None


def test_data_of_a_formula_that_is_not_assigned_are_ignored(write, source):
    path = write("formulas/pillar/web_users.json", {"users": 2})
    assert rows_of(source) == {}
    assert source.ignored == {path: "it is of no assigned formula"}


@pytest.mark.parametrize(
    "path,expected",
    [
        ("pillar/pillar_gone.yml", "it belongs to no known minion and category"),
        ("pillar/images/org7/kiwi.sls", "there is no organization 7"),
        ("pillar/images/group7/kiwi.sls", "there is no group 7"),
    ],
)
def test_file_of_an_unknown_owner_is_ignored(write, source, path, expected):
    path = write(path, "a: 1")
    assert rows_of(source) == {}
    assert source.ignored == {path: expected}


@pytest.mark.parametrize(
    "name,expected",
    [
        ("web_other", "it may be other of web: name it with categories=other, or"),
        ("web_1_other", "it may be other of web_1: name it with categories=other, or"),
    ],
)
def test_unknown_category_of_a_known_minion_is_bad(write, source, name, expected):
    path = write(f"pillar/pillar_{name}.yml", "a: 1")
    assert rows_of(source) == {}
    assert list(source.bad) == [path]
    assert source.bad[path].startswith(expected)
    assert source.ignored == {}


def test_general_file_of_an_unknown_minion_is_no_category_of_another(write, source):
    path = write("pillar/pillar_web_1_custom_info.yml", "org_id: 1")
    assert rows_of(source) == {}
    assert source.bad == {
        path: "it has org_id, as the file of a minion web_1_custom_info would: move it"
        " away if there is no such minion"
    }


def test_category_of_an_unknown_minion_is_no_general_file(folders, write):
    source = uyuni.Source(folders, {"old_custom_info": set()}, [], [])
    path = write("pillar/pillar_old_custom_info.yml", "custom_info: {}")
    assert rows_of(source) == {}
    assert source.bad == {
        path: "it has no org_id, as the custom_info of a minion old would: move it"
        " away if there is no such minion"
    }
    write("pillar/pillar_old_custom_info.yml", "org_id: 1")
    source = uyuni.Source(folders, {"old_custom_info": set()}, [], [])
    assert rows_of(source) == {(3, "old_custom_info", "general"): {"org_id": 1}}


@pytest.mark.parametrize("category", ["general", "formulas", "formula-ntp"])
def test_reserved_category_is_an_error(folders, category):
    with pytest.raises(ValueError, match="is the name of another kind of file"):
        uyuni.Source(folders, MINIONS, [], [], [category])


def test_assignments_of_unknown_owners_are_told(write, source):
    path = write("formulas/minion_formulas.json", {"gone": ["ntp"], "web": ["ntp"]})
    assert (3, "web", "formula-ntp") in rows_of(source)
    assert source.ignored == {path: "these are not known: gone"}


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
        ("1: a", "the key 1 is not a text"),
        ("a: {b: {1: c}}", "the key 1 at a:b is not a text"),
        ('a: ["x\\0"]', "the text at a:0 has characters that JSON cannot hold"),
        ("a: .nan", "the number nan at a would come back as another"),
        ("a: .inf", "the number inf at a would come back as another"),
        ("a: 1.0e+30", "the number 1e+30 at a would come back as another"),
        ("a: -0.0", "the number -0.0 at a would come back as another"),
        ("a: !!set {b}", "JSON has no set at a"),
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
        ("formula_order.json", [1], "it is no list of names"),
        ("group_formulas.json", [], "it holds no dict"),
        ("group_formulas.json", {"1": "ntp"}, "the formulas of 1 are no list of names"),
        ("minion_formulas.json", {"web": [1]}, "the formulas of web are no list"),
    ],
)
def test_assignments_that_are_none_are_bad(write, source, name, value, expected):
    path = write(f"formulas/{name}", value)
    assert rows_of(source) == {}
    assert source.bad[path].startswith(expected)


def test_two_files_of_one_category_are_bad(write, source):
    write("static/gpgkeys.yml", "a: 1")
    path = write("pillar/gpgkeys.yml", "a: 2")
    assert len(source.rows()) == 1
    assert list(source.bad) == [path]


@pytest.mark.parametrize(
    "level,owner,category",
    [
        (0, None, "../mgr_conf"),
        (0, None, "images/../../x"),
        (0, None, "pillar_web"),
        (1, 1, "a/b"),
        (2, 1, "formula-../x"),
        (3, "web", "/etc/shadow"),
    ],
)
def test_category_that_cannot_be_a_name_has_no_file(folders, level, owner, category):
    with pytest.raises(uyuni.BadFile):
        uyuni.path_of(folders, level, owner, category)


def test_formulas_without_a_place_come_last():
    assert uyuni.in_order({"z", "b", "a"}, ["z", "y"]) == ["z", "a", "b"]
