"""
Files that somebody else has prepared the place of
"""

import os
from types import SimpleNamespace

import pytest
import saltext.package_states.compile.files as files
import saltext.package_states.managers.journal as journal
import saltext.package_states.managers.lockfile as lockfile
import saltext.package_states.managers.pins as pins
import saltext.package_states.master.sets as sets
import saltext.package_states.minion.replace as replace
from saltext.package_states.errors import InvalidInput

PIN = pins.Pin("foo", "1", 1001, "installed")
WRITERS = {
    "files": lambda folder: files.write(str(folder), "web", "text"),
    "shipped": lambda folder: files.ship(str(folder)),
    "transfer": lambda folder: sets.write(str(folder / "x.yaml"), "text"),
    "journal": lambda folder: journal.write(str(folder / "x.json"), {}),
    "pins": lambda folder: pins.write(str(folder / "00salt"), [PIN]),
    "locks": lambda folder: lockfile.ZyppLocks(str(folder / "locks")).write([], ["a"]),
}
# what each of them writes
PLACES = {
    "files": "susemanager/packages-web.sls",
    "shipped": "susemanager/packages.sls",
    "transfer": "x.yaml",
    "journal": "x.json",
    "pins": "00salt",
    "locks": "locks",
}


@pytest.fixture
def victim(tmp_path):
    """
    Return the file of another user
    """
    victim = tmp_path / "victim"
    victim.write_text("mine")
    return victim


def _place(tmp_path, name):
    place = tmp_path / "there" / PLACES[name]
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


@pytest.mark.parametrize("name", WRITERS)
def test_a_planted_temporary_name_is_not_followed(tmp_path, victim, name):
    place = _place(tmp_path, name)
    for end in (".new", f".{os.getpid()}.new", f".{os.getpid()}", "~", ".tmp"):
        place.with_name(f"{place.name}{end}").symlink_to(victim)
    planted = set(os.listdir(place.parent))
    WRITERS[name](tmp_path / "there")
    assert victim.read_text() == "mine"
    assert place.read_text() != "mine" and not place.is_symlink()
    assert set(os.listdir(place.parent)) == {*planted, place.name}


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"transfer"}))
def test_a_link_in_the_place_is_replaced(tmp_path, victim, name):
    place = _place(tmp_path, name)
    place.symlink_to(victim)
    WRITERS[name](tmp_path / "there")
    assert victim.read_text() == "mine"
    assert not place.is_symlink()


def test_a_link_of_another_user_is_refused(tmp_path, victim, monkeypatch):
    link = tmp_path / "x.yaml"
    link.symlink_to(victim)
    # nobody needs to be root for this test
    other = SimpleNamespace(st_mode=link.lstat().st_mode, st_uid=os.geteuid() + 1)
    monkeypatch.setattr(os, "lstat", lambda _: other)
    with pytest.raises(InvalidInput, match="is a link of another user; give"):
        sets.write(str(tmp_path / "x.yaml"), "text")
    assert victim.read_text() == "mine"


def test_the_temporary_file_is_its_owners_alone(tmp_path):
    path = str(tmp_path / "x")
    with replace.replaced(path, 0o644) as handle:
        assert os.fstat(handle.fileno()).st_mode & 0o777 == 0o600
        assert not os.path.exists(path)
        handle.write("text")
    assert os.stat(path).st_mode & 0o777 == 0o644


def test_what_fails_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), replace.replaced(str(tmp_path / "x"), 0o644):
        raise KeyError
    assert os.listdir(tmp_path) == []
