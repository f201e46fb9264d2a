"""
Tests of the files of JSON and YAML that pillars are made of
"""

import pytest
import saltext.uyuni_pillar.document as document


@pytest.mark.parametrize("suffix", ["yml", "json"])
def test_what_is_written_is_read_again(tmp_path, suffix):
    path = str(tmp_path / f"folder/file.{suffix}")
    value = {
        "texts": ["on", "1.0", "2020-01-01", "12:30", "", " x ", "é\u2028🧂", "a: b"],
        "text in lines": "one\n\n two\n",
        "numbers": [0, -1, 1.5, 1e-07, 10**30],
        "others": [True, False, None, {}, []],
        "{{ jinja }}": "%",
    }
    document.write(path, value)
    assert document.read(path) == value
    assert (tmp_path / "folder").stat().st_mode & 0o077 == 0


def test_read_once_gives_each_caller_its_own(tmp_path):
    path = tmp_path / "a.yml"
    path.write_text("a: {b: 1}")
    document.read_once(str(path))["a"]["b"] = 2
    path.write_text("a: {b: 3}")
    assert document.read_once(str(path)) == {"a": {"b": 1}}
    document.forget()
    assert document.read_once(str(path)) == {"a": {"b": 3}}
    document.forget()


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "file.json").symlink_to(tmp_path / "victim")
    document.write(str(tmp_path / "file.json"), {"a": 1})
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "file.json").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.json", "victim"]


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        document.write(str(tmp_path / "file.json"), {"a": object()})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("levels", (101, 500, 100000))
def test_what_is_nested_too_deeply_is_a_bad_file(tmp_path, levels):
    path = tmp_path / "a.json"
    path.write_text('{"a":' + "[" * levels + "]" * levels + "}")
    with pytest.raises(document.BadFile, match="nested more than 100 levels"):
        document.check(document.read(str(path)))


def test_what_is_nested_in_a_sane_way_is_not(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a":' + "[" * 99 + "]" * 99 + "}")
    document.check(document.read(str(path)))
