"""
What all modules of the virtual name pkg keep
"""

import pytest

from salt.exceptions import CommandExecutionError

NOSUCH = "no-such-package"


@pytest.fixture(scope="module")
def call(calls):
    return calls("pkg")


@pytest.fixture
def package(request, call):
    """
    Return a package that is not installed
    """
    name = request.config.getoption("--package")
    if not name:
        pytest.skip("name a small package with --package")
    call("remove", name)
    yield name
    call("remove", name)


def test_install(call, package):
    changes = call("install", package)
    version = changes[package]["new"]
    assert changes == {package: {"old": "", "new": version}}
    assert call("list_pkgs")[package] == version
    assert call("list_pkgs", versions_as_list=True)[package] == [version]
    assert call("version", package) == version
    assert call("install", package) == {}


def test_install_by_list(call, package):
    assert package in call("install", pkgs=[package])


def test_remove_twice(call, package):
    call("install", package)
    changes = call("remove", package)
    assert changes[package]["old"] and changes[package]["new"] == ""
    assert call("remove", package) == {}
    assert call("version", package) == ""
    assert package not in call("list_pkgs")


def test_a_name_that_nobody_knows(call, package):
    assert call("version", NOSUCH) == ""
    assert call("latest_version", NOSUCH, refresh=False) == ""
    assert call("upgrade_available", NOSUCH) is False
    assert call("remove", NOSUCH) == {}
    assert set(call("version", NOSUCH, package)) == {NOSUCH, package}
    names = call("latest_version", NOSUCH, package, refresh=False)
    assert names[NOSUCH] == "" and names[package]


def test_a_version_that_nobody_has(call, package):
    with pytest.raises(CommandExecutionError):
        call("install", package, version="99.99")
    assert call("version", package) == ""


def test_latest_version(call, package):
    newest = call("latest_version", package, refresh=False)
    assert call("install", package)[package]["new"] == newest
    assert call("latest_version", package, refresh=False) == ""
    assert call("upgrade_available", package) is False
    assert package not in call("list_upgrades", refresh=False)


def test_refresh(call):
    found = call("refresh_db")
    assert found is True or True in found.values()


def test_purge(call, package):
    call("install", package)
    assert call("purge", package)[package]["new"] == ""
    assert call("purge", package) == {}


def held(call):
    return call("list_holds", full=False)


def test_holds(call, package):
    call("install", package)
    done = call("hold", package)[package]
    assert done["result"] is True
    assert done["changes"]["new"] == "hold"
    assert package in held(call)
    again = call("hold", package)[package]
    assert again["result"] is True and not again["changes"]
    assert call("unhold", package)[package]["result"] is True
    assert package not in held(call)
    again = call("unhold", package)[package]
    assert again["result"] is True and not again["changes"]


def test_upgrades(call, package):
    versions = call("list_repo_pkgs", package).get(package, [])
    if len(versions) < 2:
        pytest.skip("the repositories have one version of the package")
    call("remove", package)
    call("install", package, version=versions[-1])
    assert package in call("list_upgrades")
    call("hold", package)
    while_held = call("list_upgrades")
    call("unhold", package)
    call("remove", package)
    assert package not in while_held


def test_test_mode(call, calls, package):
    call("install", package)
    done = calls("pkg", test=True)("hold", package)[package]
    assert done["result"] is None
    assert package not in held(call)


def test_files(call, package):
    call("install", package)
    assert call("file_list", package)["errors"] == []
    assert call("owner", "/nosuch") == ""


def test_files_of_an_absent_package(call):
    found = call("file_list", NOSUCH)
    assert found["files"] == [] and len(found["errors"]) == 1
    found = call("file_dict", NOSUCH)
    assert found["packages"] == {} and len(found["errors"]) == 1


def test_details(call, package):
    call("install", package)
    assert set(call("info_installed", package)) == {package}


def test_details_of_an_absent_package(call):
    assert call("info_installed", NOSUCH) == {}


def test_repositories(call):
    assert call("list_repos")
    assert call("get_repo", "nosuch") == {}


def test_an_absent_repository(call):
    with pytest.raises(CommandExecutionError):
        call("del_repo", "nosuch")


def test_versions(call):
    assert call("version_cmp", "1.0", "1.0") == 0
    assert call("version_cmp", "1.2", "1.10") == -1
    assert call("version_cmp", "1:0.5", "0.9") == 1
    assert call("version_cmp", "1:0.5", "0.9", ignore_epoch=True) == -1


def test_what_repositories_have(call, package):
    assert call("list_repo_pkgs", package)[package]


def test_names(call, package):
    assert call("normalize_name", package) == package
    assert call("parse_arch", package) == {"name": package, "arch": None}
