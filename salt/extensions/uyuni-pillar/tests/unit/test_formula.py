"""
Tests of the formulas of a minion
"""

import logging

import pytest
import saltext.uyuni_pillar.formula as formula

import salt.utils.json

FORM = {"ntp": {"$type": "namespace", "server": {"$default": "d"}, "port": {}}}


@pytest.fixture
def write(tmp_path):
    def write(name, form=None, folder="one", **metadata):
        if form is not None:
            _write(tmp_path / folder / name / "form.yml", form)
        if metadata:
            _write(tmp_path / folder / name / "metadata.yml", metadata)

    return write


@pytest.fixture
def formulas(tmp_path):
    return [str(tmp_path / "one"), str(tmp_path / "two")]


def test_values_of_group_and_minion_are_merged_over_the_form(write, formulas):
    write("ntp", FORM)
    by_group = {"ntp": {"ntp": {"server": "g", "port": 1}}}
    by_minion = {"ntp": {"ntp": {"server": "m"}}}
    expected = {"ntp": {"server": "m", "port": 1}, "formulas": ["ntp"]}
    assert formula.pillar(formulas, by_group, by_minion, []) == expected


def test_formula_without_values_has_its_defaults(write, formulas):
    write("ntp", FORM)
    expected = {"ntp": {"server": "d", "port": ""}, "formulas": ["ntp"]}
    assert formula.pillar(formulas, {}, {"ntp": {}}, []) == expected


def test_formulas_are_merged_and_listed_in_order(write, formulas):
    for name in ("a", "b", "c"):
        write(name, {"all": {"$type": "group", name: {}, "last": {"$default": name}}})
    by_group, by_minion = {"c": {}, "b": {}}, {"a": {}, "b": {}}
    found = formula.pillar(formulas, by_group, by_minion, [])
    assert found["formulas"] == ["c", "b", "a"]
    assert found["all"] == {"a": "", "b": "", "c": "", "last": "a"}
    found = formula.pillar(formulas, by_group, by_minion, ["a", "x", "b", "c"])
    assert found["formulas"] == ["a", "b", "c"]


def test_formula_without_states_is_not_listed(write, formulas):
    write("ntp", FORM, pillar_only=True)
    by_group = {"ntp": {"ntp": {"port": 1}}}
    assert formula.pillar(formulas, by_group, {}, []) == {
        "ntp": {"server": "d", "port": 1},
        "formulas": [],
    }
    # as in Uyuni, it is filled in for the minion alone afterwards
    by_minion = {"ntp": {"ntp": {"server": "m"}}}
    assert formula.pillar(formulas, by_group, by_minion, [])["ntp"] == {
        "server": "m",
        "port": "",
    }


def test_first_folder_counts(write, formulas):
    write("ntp", {"a": {"$default": 2}}, folder="two")
    assert formula.pillar(formulas, {}, {"ntp": {}}, [])["a"] == 2
    write("ntp", {"a": {"$default": 1}}, folder="one")
    assert formula.pillar(formulas, {}, {"ntp": {}}, [])["a"] == 1


def test_another_version_of_a_formula_is_seen(write, formulas):
    write("ntp", {"a": {"$default": 1}})
    assert formula.pillar(formulas, {}, {"ntp": {}}, [])["a"] == 1
    write("ntp", {"a": {"$default": "changed"}})
    assert formula.pillar(formulas, {}, {"ntp": {}}, [])["a"] == "changed"


def test_missing_formula_is_an_error(write, formulas, caplog):
    write("ntp", FORM)
    wanted = {"gone": {}, "ntp": {}}
    with pytest.raises(formula.MissingFormula, match="^The formula gone has no form"):
        formula.pillar(formulas, {}, wanted, [])
    with caplog.at_level(logging.ERROR):
        found = formula.pillar(formulas, {}, wanted, [], lenient=True)
    assert found == {
        "ntp": {"server": "d", "port": ""},
        "formulas": ["gone", "ntp"],
    }
    assert "The formula gone has no form.yml" in caplog.text


def test_form_that_cannot_be_filled_in_is_an_error(write, formulas, tmp_path):
    write("ntp", FORM)
    with pytest.raises(formula.MissingFormula, match="^The formula ntp cannot be fil"):
        formula.pillar(formulas, {"ntp": {"ntp": 1}}, {}, [])
    (tmp_path / "one" / "ntp" / "form.yml").write_text("a: [")
    with pytest.raises(formula.MissingFormula, match="form.yml cannot be used"):
        formula.pillar(formulas, {"ntp": {}}, {}, [])


@pytest.mark.parametrize("name", ["", ".", "..", "../two/ntp", "/etc", "a/b"])
def test_names_do_not_leave_the_folders(formulas, name):
    with pytest.raises(formula.MissingFormula, match="is not the name of a formula"):
        formula.pillar(formulas, {}, {name: {}}, [])
    # its other formulas are there
    assert formula.pillar(formulas, {}, {name: {}}, [], lenient=True) == {
        "formulas": []
    }


def test_empty_metadata_is_a_formula_with_states(write, formulas, tmp_path):
    write("ntp", FORM)
    (tmp_path / "one" / "ntp" / "metadata.yml").write_text("")
    assert formula.pillar(formulas, {}, {"ntp": {}}, [])["formulas"] == ["ntp"]


def _write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    # JSON is YAML
    path.write_text(salt.utils.json.dumps(value))
