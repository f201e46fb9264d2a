import subprocess

import pytest
import saltext.package_states.managers.aptlists as aptlists
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
