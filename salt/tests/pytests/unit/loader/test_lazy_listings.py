"""
Tests of what salt.loader.lazy remembers of directories of modules
"""

# pylint: disable=protected-access

import os
import time

import pytest

import salt.loader
import salt.loader.lazy
from tests.support.mock import patch


@pytest.fixture(autouse=True)
def nothing_remembered():
    with patch("salt.loader.lazy._file_mappings", {}), patch(
        "salt.loader.lazy._own_listings", {}
    ):
        yield


@pytest.fixture
def mod_dir(tmp_path):
    """
    A directory of two modules and a package
    """
    path = tmp_path / "modules"
    path.mkdir()
    (path / "one.py").write_text("def name():\n    return 'one'\n")
    (path / "two.py").write_text("def name():\n    return 'two'\n")
    (path / "package").mkdir()
    (path / "package" / "__init__.py").write_text("def name():\n    return 'p'\n")
    (path / "empty").mkdir()
    (path / "README").write_text("no module\n")
    return path


@pytest.fixture
def own(mod_dir):
    """
    Make the directory one of Salt's own, last changed long ago
    """
    later = time.time_ns() + 60 * 10**9
    with patch("salt.loader.lazy._OWN_DIRS", str(mod_dir.parent) + os.sep), patch(
        "salt.loader.lazy.time.time_ns", return_value=later
    ):
        yield mod_dir


def _loader(*paths, **opts):
    return salt.loader.lazy.LazyLoader([str(path) for path in paths], opts)


def _files(*paths, **opts):
    return sorted(_loader(*paths, **opts).file_mapping)


def _listed(function):
    """
    Return the directories that the function lists
    """
    with patch("os.listdir", wraps=os.listdir) as listdir:
        function()
    return [str(call.args[0]) for call in listdir.call_args_list]


def test_a_loader_lists_a_directory_once(mod_dir):
    listed = _listed(lambda: _loader(mod_dir))
    assert listed.count(str(mod_dir)) == 1


def test_own_directories_are_not_listed_again(own):
    assert _files(own) == ["one", "package", "two"]
    loader = []
    assert _listed(lambda: loader.append(_loader(own))) == []
    assert sorted(loader[0].file_mapping) == ["one", "package", "two"]
    assert loader[0]["two.name"]() == "two"
    assert loader[0]["package.name"]() == "p"


def test_a_lookup_that_fails_lists_nothing_of_ours(own):
    loader = _loader(own)
    # the lookup loads every module: a __pycache__ beside them would be a change
    with patch("sys.dont_write_bytecode", True):
        assert _listed(lambda: "three.name" in loader) == []


def test_other_directories_are_listed_each_time(mod_dir):
    _loader(mod_dir)
    assert str(mod_dir) in _listed(lambda: _loader(mod_dir))


def test_a_change_that_leaves_no_trace_in_another_directory(mod_dir):
    """
    Directories that modules are synced to need no clock and no mtime
    """
    stamp = os.stat(str(mod_dir))
    with patch("salt.utils.stamps.stamp", return_value=(1, 2, 3, 4, 5)):
        assert _files(mod_dir) == ["one", "package", "two"]
        (mod_dir / "three.py").write_text("")
        os.utime(str(mod_dir), ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert _files(mod_dir) == ["one", "package", "three", "two"]


def _add(path):
    (path / "three.py").write_text("")


def _remove(path):
    (path / "one.py").unlink()


def _file_to_package(path):
    (path / "one.py").unlink()
    (path / "one").mkdir()
    (path / "one" / "__init__.py").write_text("")


def _fill_package(path):
    (path / "empty" / "__init__.py").write_text("")


def _empty_package(path):
    (path / "package" / "__init__.py").unlink()


def _text_to_package(path):
    (path / "README").unlink()
    (path / "README").mkdir()
    (path / "README" / "__init__.py").write_text("")


def _add_pyc(path):
    (path / "__pycache__").mkdir(exist_ok=True)
    (path / "__pycache__" / "four.pyc").write_text("")


def _replace_directory(path):
    """
    Unpack another version whose directory has the mtime of the old one
    """
    stamp = os.stat(str(path))
    path.rename(path.parent / "old")
    path.mkdir()
    (path / "new.py").write_text("")
    os.utime(str(path), ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def _remove_directory(path):
    path.rename(path.parent / "old")


@pytest.mark.parametrize(
    "change, files",
    (
        (_add, ["one", "package", "three", "two"]),
        (_remove, ["package", "two"]),
        (_file_to_package, ["one", "package", "two"]),
        (_fill_package, ["empty", "one", "package", "two"]),
        (_empty_package, ["one", "two"]),
        (_text_to_package, ["README", "one", "package", "two"]),
        (_add_pyc, ["four", "one", "package", "two"]),
        (_replace_directory, ["new"]),
        (_remove_directory, []),
    ),
)
@pytest.mark.parametrize("again", ("new loader", "clear", "lookup"))
def test_changes_of_own_directories_are_noticed(own, change, files, again):
    loader = _loader(own)
    assert sorted(loader.file_mapping) == ["one", "package", "two"]
    change(own)
    if again == "new loader":
        loader = _loader(own)
    elif again == "clear":
        loader.clear()
    else:
        assert "nothing.of_this_name" not in loader
    assert sorted(loader.file_mapping) == files
    if files == ["one", "package", "two"]:
        assert loader.file_mapping["one"][1] == ""


def test_a_pycache_that_grows_is_noticed(own):
    (own / "__pycache__").mkdir()
    assert _files(own) == ["one", "package", "two"]
    _add_pyc(own)
    assert _files(own) == ["four", "one", "package", "two"]


def test_what_changed_a_moment_ago_is_listed_again(mod_dir):
    """
    A second change within the same tick of the file system's clock has the same stamp
    """
    with patch("salt.loader.lazy._OWN_DIRS", str(mod_dir.parent) + os.sep), patch(
        "salt.utils.stamps.stamp", return_value=(1, 2, 3, time.time_ns(), 5)
    ):
        assert _files(mod_dir) == ["one", "package", "two"]
        _add(mod_dir)
        assert _files(mod_dir) == ["one", "package", "three", "two"]


def test_what_is_remembered_is_nobodys(own):
    loader = _loader(own)
    loader.file_mapping.pop("one")
    loader.file_mapping["five"] = ("five.py", ".py", 0)
    assert _files(own) == ["one", "package", "two"]


def test_options_are_told_apart(own):
    (own / "__pycache__").mkdir()
    (own / "__pycache__" / "three.opt-1.pyc").write_text("")
    (own / "six.zip").write_text("")
    name = f"three.cpython-{salt.loader.lazy.sys.version_info[0]}"
    name += f"{salt.loader.lazy.sys.version_info[1]}"
    for level in ("", ".opt-1", ".opt-2"):
        (own / "__pycache__" / f"{name}{level}.pyc").write_text("")
    for _ in range(2):
        zipped = _loader(own, enable_zip_modules=True, disable_modules=["one"])
        assert "six" in zipped.file_mapping
        assert "one" not in zipped.file_mapping
        plain = _loader(own, enable_zip_modules=False, disable_modules=["two"])
        assert "six" not in plain.file_mapping
        assert "two" not in plain.file_mapping
        first = _loader(own, optimization_order=[0, 1, 2])
        assert first.file_mapping["three"][0].endswith(f"{name}.pyc")
        last = _loader(own, optimization_order=[2, 1, 0])
        assert last.file_mapping["three"][0].endswith(f"{name}.opt-2.pyc")


def test_orders_of_directories_are_told_apart(own, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "one.py").write_text("")
    for _ in range(2):
        assert _loader(own, other).file_mapping["one"][0] == str(own / "one.py")
        assert _loader(other, own).file_mapping["one"][0] == str(other / "one.py")


def test_a_collision_is_logged_each_time(own, caplog):
    (own / "package.py").write_text("")
    for count in (1, 2, 3):
        _loader(own)
        messages = [each for each in caplog.messages if "collision" in each]
        assert len(messages) == count


@pytest.mark.parametrize("kind", ("modules", "utils", "pillar", "renderers"))
def test_the_mapping_is_the_same_when_remembered(kind, minion_opts):
    """
    Also in its order, which is the order in which a name is looked for
    """
    path = salt.loader.lazy.SALT_BASE_PATH / kind
    first = salt.loader.lazy.LazyLoader([str(path)], minion_opts)
    second = salt.loader.lazy.LazyLoader([str(path)], minion_opts)
    assert first.file_mapping
    assert list(first.file_mapping.items()) == list(second.file_mapping.items())


def test_no_more_mappings_are_kept_than_allowed(tmp_path):
    with patch("salt.loader.lazy.FILE_MAPPINGS_KEPT", 3):
        for number in range(10):
            path = tmp_path / str(number)
            path.mkdir()
            (path / f"mod_{number}.py").write_text("")
            assert _files(path) == [f"mod_{number}"]
            assert len(salt.loader.lazy._file_mappings) <= 3
