"""
Whose modules are loaded: code of a site runs as the master's user.
"""

import os

import pytest
import saltext.query
import saltext.query.context
import saltext.query.loader
from saltext.query.errors import QueryError

TYPE = """
from saltext.query.field import Field
from saltext.query.item import ItemType

def item_type():
    return ItemType(
        "licence", "Licences",
        [Field("name", "Name", "text", "Name", lambda item: item.name)],
        lambda context, names: iter(()),
    )
"""


@pytest.fixture(params=("module_dirs", "extension_modules"))
def site(tmp_path, request):
    """
    A master's options, and the folder and the file of a type of its site.
    """
    folder = tmp_path / "query_types"
    folder.mkdir(mode=0o755)
    file = folder / "licence.py"
    file.write_text(TYPE)
    file.chmod(0o644)
    found = str(tmp_path)
    opts = {request.param: [found] if request.param == "module_dirs" else found}
    return opts, folder, file


def test_a_type_that_only_the_master_may_write(site):
    opts, _, _ = site
    assert saltext.query.item_type(opts, "licence").name == "licence"
    assert "licence" in saltext.query.item_types(opts)


@pytest.mark.parametrize("which", ("parent", "folder", "file", "beside", "cache"))
@pytest.mark.parametrize("mode", (0o777, 0o775, 0o757))
def test_a_type_that_others_may_write(site, which, mode):
    """
    It is not loaded, and the error says what to change. The types of the extension stay.
    """
    opts, folder, file = site
    (folder / "other.py").write_text("")
    (folder / "other.py").chmod(0o644)
    (folder / "__pycache__").mkdir(mode=0o755)
    place = {
        "parent": folder.parent,
        "folder": folder,
        "file": file,
        "beside": folder / "other.py",
        "cache": folder / "__pycache__",
    }[which]
    place.chmod(mode)
    with pytest.raises(QueryError) as refused:
        saltext.query.item_type(opts, "licence")
    assert f"{place} " in str(refused.value)
    assert saltext.query.item_type(opts, "node").name == "node"
    place.chmod(0o755)
    assert saltext.query.item_type(opts, "licence").name == "licence"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("user,trusted", (("root", 65534), ("nobody", 1)))
def test_whose_files_are_loaded(site, user, trusted):
    """
    Those of root and of the master's user; nobody else's.
    """
    opts, folder, file = site
    opts["user"] = user
    assert saltext.query.item_type(opts, "licence")
    for place in (folder, file):
        os.chown(place, 1, -1)
        with pytest.raises(QueryError, match="belong"):
            saltext.query.item_type(opts, "licence")
        os.chown(place, 65534, -1)
        if user == "nobody":
            assert saltext.query.item_type(opts, "licence")
        else:
            with pytest.raises(QueryError, match="belong"):
                saltext.query.item_type(opts, "licence")
        os.chown(place, 0, -1)


def test_a_file_that_takes_the_place_of_another(site):
    """
    A type of others does not take the place of the extension's own.
    """
    opts, folder, _ = site
    (folder / "node.py").write_text(TYPE)
    (folder / "node.py").chmod(0o666)
    assert saltext.query.item_type(opts, "node").name == "node"


def test_a_file_that_is_somewhere_else(site, tmp_path):
    """
    What a link leads to counts.
    """
    opts, _, file = site
    target = tmp_path / "elsewhere.py"
    file.rename(target)
    file.symlink_to(target)
    target.chmod(0o666)
    with pytest.raises(QueryError, match="licence.py "):
        saltext.query.item_type(opts, "licence")


@pytest.mark.parametrize("kind", ("query_sources", "query_locks"))
def test_sources_and_locks(tmp_path, kind):
    """
    The same holds for all kinds of modules.
    """
    folder = tmp_path / kind
    folder.mkdir(mode=0o755)
    file = folder / "planted.py"
    file.write_text("def source(context):\n    return 1\n\nlocks = source\n")
    file.chmod(0o666)
    opts = {"module_dirs": [str(tmp_path)]}
    assert "planted.source" not in saltext.query.loader.modules(opts, kind)
    if kind == "query_sources":
        context = saltext.query.context.Context(opts, (), 0)
        with pytest.raises(QueryError, match="planted.py "):
            context.source("planted")


def test_locks_are_not_left_out_unnoticed(master, tmp_path):
    """
    A query that a module might have locks for says why it is not loaded.
    """
    folder = tmp_path / "modules" / "query_locks"
    folder.mkdir(mode=0o755, parents=True)
    file = folder / "planted.py"
    file.write_text("def locks(context):\n    return []\n")
    file.chmod(0o644)
    master.opts["module_dirs"] = [str(folder.parent)]
    assert not saltext.query.items(master.opts, "lock", ["name"])["data"]
    file.chmod(0o666)
    with pytest.raises(QueryError, match="planted.py .* finds locks"):
        saltext.query.items(master.opts, "lock", ["name"])
    assert not saltext.query.items(
        master.opts, "lock", ["name"], ["=", "name", "hold/web1/x"]
    )["data"]
