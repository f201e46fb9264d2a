"""
Tests of pillars out of Uyuni's files
"""

import pytest
import saltext.uyuni_pillar.document as document
import saltext.uyuni_pillar.pillar.uyuni_files as uyuni_files

import salt.exceptions


@pytest.fixture
def write(tmp_path):
    def write(path, value):
        document.write(str(tmp_path / path), value)

    write("pillar/pillar_web.yml", {"org_id": 1, "group_ids": [10, 9], "v": "minion"})
    return write


@pytest.fixture
def ask(tmp_path):
    def ask(minion_id="web", **kwargs):
        return uyuni_files.ext_pillar(
            minion_id,
            {},
            pillar_data=str(tmp_path / "pillar"),
            static_data=str(tmp_path / "static"),
            formula_data=str(tmp_path / "formulas"),
            **kwargs,
        )

    return ask


def test_narrower_scopes_override_and_nested_keys_merge(write, ask):
    everyone = {"v": 0, "w": 0, "x": 0, "y": 0, "deep": {"everyone": 1, "v": 0}}
    write("static/gpgkeys.yml", everyone)
    write("pillar/images/org1/kiwi.sls", {"v": 1, "w": 1, "x": 1, "deep": {"v": 1}})
    write("pillar/images/group9/kiwi.sls", {"v": 2, "w": 2, "deep": {"v": 9}})
    write("pillar/images/group10/kiwi.sls", {"v": 2, "deep": {"v": 10}})
    assert ask() == {
        "org_id": 1,
        "group_ids": [10, 9],
        "v": "minion",
        "w": 2,
        "x": 1,
        "y": 0,
        # by id, not as a text
        "deep": {"everyone": 1, "v": 10},
    }


def test_groups_are_in_the_order_of_their_priorities(write, ask):
    write("pillar/images/group9/kiwi.sls", {"x": 9})
    write("pillar/images/group10/kiwi.sls", {"x": 10})
    assert ask()["x"] == 10
    assert ask(priorities={9: 1})["x"] == 9
    assert ask(priorities={"10": -1})["x"] == 9


def test_formulas_are_listed_in_order_and_their_data_merged(write, ask):
    write("formulas/group_formulas.json", {"9": ["ntp", "users"]})
    write("formulas/minion_formulas.json", {"web": ["own"]})
    write("formulas/formula_order.json", ["own", "users", "ntp"])
    write("formulas/group_pillar/9_ntp.json", {"ntp": {"server": "a", "port": 1}})
    write("formulas/pillar/web_ntp.json", {"ntp": {"server": "b"}})
    pillar = ask()
    assert pillar["formulas"] == ["own", "users", "ntp"]
    assert pillar["ntp"] == {"server": "b", "port": 1}


def test_files_of_other_minions_and_categories_are_not_read(write, ask):
    write("pillar/pillar_web_1.yml", {"other": 1})
    write("pillar/pillar_web_other.yml", {"other": 1})
    write("pillar/pillar_web_custom_info.yml", {"custom": 1})
    assert set(ask()) == {"org_id", "group_ids", "v", "custom"}
    assert set(ask(categories=["other"])) == {"org_id", "group_ids", "v", "other"}


def test_an_id_with_a_category_gets_nothing_of_another_minion(write, ask):
    """
    Whoever makes a key chooses its id
    """
    write("pillar/pillar_web_custom_info.yml", {"secret": 1})
    with pytest.raises(salt.exceptions.CommandExecutionError, match="another id"):
        ask("web_custom_info")
    assert ask()["secret"] == 1
    write("pillar/pillar_db_custom_info.yml", {"own": 1})
    assert ask("db_custom_info") == {"own": 1}


def test_unknown_minion_has_no_pillar(write, ask):
    write("static/gpgkeys.yml", {"a": 1})
    assert ask("nobody") == {}


def test_file_that_cannot_be_parsed_is_an_error(write, ask, tmp_path):
    (tmp_path / "pillar" / "mgr_conf.yml").write_text("a: [")
    with pytest.raises(salt.exceptions.CommandExecutionError, match="^mgr_conf.yml: "):
        ask()


def test_shared_files_may_be_kept(write, ask):
    document.forget()
    write("static/gpgkeys.yml", {"a": 1})
    assert ask(keep=True)["a"] == 1
    write("static/gpgkeys.yml", {"a": 2})
    assert (ask(keep=True)["a"], ask()["a"]) == (1, 2)
    document.forget()


def test_ids_and_formulas_are_no_paths(write, ask):
    """
    Also where there is a folder with the first part of the name
    """
    write("formulas/group_formulas.json", {"9": ["x/../../secret"]})
    write("formulas/group_pillar/9_x/y.json", {})
    write("formulas/secret.json", {"secret": 1})
    assert "secret" not in ask()
    write("pillar/pillar_x/y.yml", {})
    write("secret.yml", {"secret": 1})
    assert ask("x/../../secret") == {}
