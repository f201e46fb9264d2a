"""
Whose criteria modules are loaded: they run as the master's user.
"""

import logging
import os

import pytest

import salt.job_handler.config
import salt.loader

CALM = """
import salt.job_criteria

def criteria(settings, leases):
    return salt.job_criteria.Criteria(settings, leases)
"""


def load(opts):
    section = salt.job_handler.config.settings(opts)
    return salt.job_handler.config.load_criteria(opts, section, None)


@pytest.fixture(params=("module_dirs", "extension_modules", "job_criteria_dirs"))
def site(master_opts, tmp_path, request):
    """
    A master's options, and the folder and the file of a criteria module of its site.
    """
    parent = tmp_path / "site"
    folder = parent / "job_criteria"
    for one in (parent, folder):
        one.mkdir()
        one.chmod(0o755)
    file = folder / "calm.py"
    file.write_text(CALM)
    file.chmod(0o644)
    found = {
        "module_dirs": [str(parent)],
        "extension_modules": str(parent),
        "job_criteria_dirs": [f"{folder}/"],
    }
    master_opts[request.param] = found[request.param]
    master_opts["rate_limiting"] = {"criteria": "calm"}
    master_opts["user"] = "root" if os.geteuid() == 0 else None
    return master_opts, folder, file


def test_a_module_that_only_the_master_may_write(site):
    opts, _, _ = site
    assert salt.job_handler.config.errors(opts) == []
    assert load(opts).settings["criteria"] == "calm"


@pytest.mark.parametrize("which", ("parent", "folder", "file", "beside", "cache"))
@pytest.mark.parametrize("mode", (0o777, 0o775, 0o757))
def test_a_module_that_others_may_write(site, caplog, which, mode):
    """
    It is not loaded, and the error says what to change. The modules of Salt stay.
    """
    opts, folder, file = site
    (folder / "other.py").write_text("")
    (folder / "other.py").chmod(0o644)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__").chmod(0o755)
    place = {
        "parent": folder.parent,
        "folder": folder,
        "file": file,
        "beside": folder / "other.py",
        "cache": folder / "__pycache__",
    }[which]
    place.chmod(mode)
    with caplog.at_level(logging.ERROR):
        (error,) = salt.job_handler.config.errors(opts)
    assert "'calm.criteria' is not available; there are" in error
    assert f"Take from others the right to write {place} (chmod go-w)" in caplog.text
    loader = salt.loader.job_criteria(opts)
    assert "calm.criteria" not in loader
    assert "capacity.criteria" in loader
    place.chmod(0o755)
    assert salt.job_handler.config.errors(opts) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("user", ("root", "nobody"))
def test_whose_modules_are_loaded(site, user, caplog):
    """
    Those of root and of the master's user; nobody else's.
    """
    opts, folder, file = site
    opts["user"] = user
    assert "calm.criteria" in salt.loader.job_criteria(opts)
    for place in (folder, file):
        os.chown(place, 1, -1)
        assert "calm.criteria" not in salt.loader.job_criteria(opts)
        assert f"Give {place} to root or to the master's user" in caplog.text
        os.chown(place, 65534, -1)
        loaded = "calm.criteria" in salt.loader.job_criteria(opts)
        assert loaded == (user == "nobody")
        os.chown(place, 0, -1)


def test_a_module_does_not_take_the_place_of_one_of_salt(site):
    opts, folder, _ = site
    file = folder / "capacity.py"
    file.write_text("def criteria(settings):\n    return 1\n")
    file.chmod(0o666)
    opts["rate_limiting"] = {"criteria": "capacity", "max_master_jobs": 7}
    assert salt.job_handler.config.errors(opts) == []
    assert load(opts).limit() == 7


def test_a_module_that_is_somewhere_else(site, tmp_path, caplog):
    """
    What a link leads to counts.
    """
    opts, _, file = site
    target = tmp_path / "elsewhere.py"
    file.rename(target)
    file.symlink_to(target)
    assert salt.job_handler.config.errors(opts) == []
    target.chmod(0o666)
    assert len(salt.job_handler.config.errors(opts)) == 1
    assert "calm.py " in caplog.text
