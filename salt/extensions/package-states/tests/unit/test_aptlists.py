import subprocess
from types import SimpleNamespace

import pytest
import saltext.package_states.managers as managers
import saltext.package_states.managers.aptlists as aptlists
import saltext.package_states.modules.package_state as package_state
from saltext.package_states.errors import PackageStateError

LIST = "Package: foo\nVersion: 1.0\nDescription: x\n\nPackage: foo\nVersion: 2.0\nArchitecture: i386\n"


class Apt:
    """
    A package manager that runs commands
    """

    def native(self):
        return "amd64"

    def run(self, *command):
        return subprocess.run(
            command, stdout=subprocess.PIPE, check=True, encoding="utf-8"
        ).stdout


@pytest.fixture
def helper(tmp_path, monkeypatch):
    found = tmp_path / "helper"
    script = aptlists._SCRIPT  # pylint: disable=protected-access
    monkeypatch.setattr(
        aptlists, "_SCRIPT", script.replace(aptlists.HELPER, str(found))
    )
    return found


def _helper(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_versions_of_a_list(helper, tmp_path):
    (tmp_path / "list").write_text(LIST)
    _helper(helper, 'cat "$2"')
    found = aptlists.packages(Apt(), str(tmp_path / "list"))
    assert found == {"foo": ["1.0"], "foo:i386": ["2.0"]}
    (tmp_path / "list").write_text("")
    assert aptlists.packages(Apt(), str(tmp_path / "list")) == {}


@pytest.mark.parametrize("text", ("exit 100", 'cat "$2"; exit 1', None))
def test_a_list_that_can_not_be_read_is_not_an_empty_one(helper, tmp_path, text):
    (tmp_path / "list").write_text(LIST)
    if text:
        _helper(helper, text)
    with pytest.raises(PackageStateError, match="run apt-get update on the minion"):
        aptlists.packages(Apt(), str(tmp_path / "list"))


def test_a_list_that_is_gone_is_an_error(tmp_path, monkeypatch):
    gone = aptlists.List(str(tmp_path / "gone"), "main", False)
    monkeypatch.setattr(aptlists, "lists", lambda _: [gone])
    with pytest.raises(PackageStateError, match="run apt-get update on the minion"):
        aptlists.digests(Apt(), str(tmp_path / "digests"))


def test_the_packages_are_told_without_the_repositories(monkeypatch, caplog):
    def fail():
        raise PackageStateError("it can't be read; try again.")

    manager = SimpleNamespace(
        name="apt",
        inventory=dict,
        digests=fail,
        security=fail,
        refreshed=lambda: None,
    )
    monkeypatch.setattr(managers, "get", lambda *_: manager)
    for name in ("__salt__", "__opts__", "__grains__", "__context__"):
        monkeypatch.setattr(package_state, name, {}, raising=False)
    found = package_state.inventory()
    assert (found["platform"], found["packages"]) == ("apt", {})
    assert not {"repositories", "security"} & set(found)
    assert "it can't be read" in caplog.text
