"""
The hooks of the package managers, run as these do
"""

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest
import saltext.package_states.modules.pkgset as pkgset
from saltext.package_states.errors import PackageStateError

HERE = pathlib.Path(pkgset.__file__).parents[1] / "minion" / "plugin"
LAYOUTS = ["Packages", "Packages.db", "rpmdb.sqlite"]
FOLDERS = ["usr/lib/sysimage/rpm", "var/lib/rpm"]


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    for folder in (*FOLDERS, "var/lib/dpkg"):
        (made / folder).mkdir(parents=True)
    return made


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "minion"


@pytest.fixture
def environment(root, cache, tmp_path):
    # as it is installed: one may run it
    command = tmp_path / "pkgset-notify"
    command.write_text((HERE / "notify.sh").read_text())
    command.chmod(0o755)
    return {
        "PATH": os.environ["PATH"],
        "PKGSET_ROOT": str(root),
        "PKGSET_CACHE": str(cache),
        "PKGSET_NOTIFY": str(command),
    }


@pytest.fixture
def notify(environment):
    """
    Run the command, which always succeeds, and return what it says
    """

    def _notify(*args, **more):
        return subprocess.run(
            [environment["PKGSET_NOTIFY"], *args],
            env={**environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=60,
        ).stdout

    return _notify


def line(*files):
    text = b"".join(path.read_bytes() for path in files)
    mtime = max(int(path.stat().st_mtime) for path in files)
    return f"{hashlib.sha256(text).hexdigest()} {mtime}\n"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_cookie_of_rpm(notify, root, cache, layout, folder):
    """
    of the database that is there, whichever of rpm's layouts it has
    """
    database = root / folder / layout
    for content in (b"one", b"another"):
        database.write_bytes(content)
        assert notify("rpm") == ""
        assert (cache / "rpmdb.cookie").read_text() == line(database)
    assert os.listdir(str(cache)) == ["rpmdb.cookie"]


def test_the_layout_in_use(notify, root, cache):
    """
    after a conversion the old one may be left, and SQLite may have a second file
    """
    old, new = (root / FOLDERS[1] / name for name in ("Packages", "rpmdb.sqlite"))
    old.write_bytes(b"old")
    os.utime(str(old), (1000, 1000))
    new.write_bytes(b"new")
    wal = root / FOLDERS[1] / "rpmdb.sqlite-wal"
    wal.write_bytes(b"more")
    assert notify("rpm") == ""
    assert (cache / "rpmdb.cookie").read_text() == line(new, wal)


def test_the_cookie_of_dpkg(notify, root, cache):
    status = root / "var/lib/dpkg/status"
    status.write_bytes(b"one")
    assert notify("dpkg") == ""
    assert (cache / "dpkg.cookie").read_text() == line(status)


def test_a_link_that_waits_for_the_cookie_is_not_followed(environment, root, cache):
    """
    Whoever may write to the minion's cache knows the number of the process beforehand
    """
    status = root / "var/lib/dpkg/status"
    status.write_bytes(b"one")
    cache.mkdir(parents=True)
    victim = cache / "victim"
    victim.write_text("mine")
    plant = 'ln -s victim "$PKGSET_CACHE/dpkg.cookie.$$"; exec "$PKGSET_NOTIFY" dpkg'
    subprocess.run(["sh", "-c", plant], env=environment, check=True, timeout=60)
    assert victim.read_text() == "mine"
    assert (cache / "dpkg.cookie").read_text() == line(status)
    assert (cache / "dpkg.cookie").stat().st_mode & 0o777 == 0o644


def test_what_salt_changes_is_told_in_another_cookie(notify, root, cache):
    status = root / "var/lib/dpkg/status"
    status.write_bytes(b"one")
    assert notify("dpkg", SALT_RUNNING="1") == ""
    assert [one.name for one in cache.iterdir()] == ["dpkg.cookie.own"]
    assert (cache / "dpkg.cookie.own").read_text() == line(status)


@pytest.mark.parametrize(
    "args, said",
    [
        ((), "say which database"),
        (("apt",), "say which database"),
        (("dpkg",), "no database of dpkg"),
        (("rpm",), "no database of rpm"),
    ],
)
def test_nothing_to_tell_of(notify, cache, args, said):
    assert said in notify(*args)
    assert not cache.exists()


def test_no_place_for_the_cookie(notify, root, tmp_path):
    (root / "var/lib/dpkg/status").write_bytes(b"one")
    (tmp_path / "file").write_text("")
    said = notify("dpkg", PKGSET_CACHE=str(tmp_path / "file"))
    assert said.startswith("pkgset-notify: ")
    assert said.endswith("can't be written.\n")


def commit(environment, *frames):
    """
    Do what libzypp does at a commit, and return the answers
    """
    done = subprocess.run(
        ["bash", str(HERE / "zypp.bash")],
        input="".join(frame + "\0" for frame in frames),
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.endswith("\n\n\0")
    return [frame.split("\n")[0] for frame in done.stdout.split("\0")[:-1]]


def test_zypper(environment, root, cache):
    (root / FOLDERS[0] / "Packages.db").write_bytes(b"one")
    frames = [
        "PLUGINBEGIN\nuserdata:\n\n",
        '\nCOMMITBEGIN\n\n{"TransactionStepList": [\n\n]}',
        'COMMITEND\n\n{"TransactionStepList": []}',
        "NEWER\n\n",
        "PLUGINEND\n\n",
        "_DISCONNECT\n\n",
    ]
    answers = ["ACK", "ACK", "ACK", "_ENOMETHOD", "ACK", "_DISCONNECTED"]
    assert commit(environment, *frames) == answers
    assert (cache / "rpmdb.cookie").read_text() == line(
        root / FOLDERS[0] / "Packages.db"
    )


def test_zypper_that_only_looked(environment, root, cache):
    (root / FOLDERS[0] / "Packages.db").write_bytes(b"one")
    commit(environment, "PLUGINBEGIN\n\n", "PLUGINEND\n\n", "_DISCONNECT\n\n")
    assert not cache.exists()


def test_zypper_goes_on_without_the_command(environment, tmp_path):
    environment["PKGSET_NOTIFY"] = str(tmp_path / "none")
    frames = ["COMMITBEGIN\n\n", "PLUGINEND\n\n", "_DISCONNECT\n\n"]
    assert commit(environment, *frames) == ["ACK", "ACK", "_DISCONNECTED"]


def test_dnf(tmp_path):
    """
    calls the command, and goes on without it
    """
    (tmp_path / "dnf.py").write_text("class Plugin: pass\n")
    command = tmp_path / "command"
    command.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n')
    command.chmod(0o755)
    text = (HERE / "dnf4.py").read_text()
    for path, said in ((command, ""), (tmp_path / "none", "Salt is not told")):
        changed = text.replace("/usr/bin/pkgset-notify", str(path))
        assert changed != text
        done = subprocess.run(
            [sys.executable, "-c", f"{changed}\nPkgsetNotify().transaction()"],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
        assert said in done.stdout
    assert (tmp_path / "called").read_text() == "rpm\n"


@pytest.fixture
def machine(root):
    """
    A machine with every package manager
    """
    for folder in (
        "etc/dpkg/dpkg.cfg.d",
        "etc/zypp",
        "usr/lib/python3.9/site-packages/dnf-plugins",
        "usr/lib/python3/dist-packages/dnf-plugins",
        "etc/dnf/libdnf5-plugins/actions.d",
    ):
        (root / folder).mkdir(parents=True)
    return root


PLACES = [
    "etc/dnf/libdnf5-plugins/actions.d/pkgset-notify.actions",
    "etc/dpkg/dpkg.cfg.d/99pkgset-notify",
    "usr/bin/pkgset-notify",
    "usr/lib/python3.9/site-packages/dnf-plugins/pkgset_notify.py",
    "usr/lib/python3/dist-packages/dnf-plugins/pkgset_notify.py",
    "usr/lib/zypp/plugins/commit/pkgset-notify",
]


def files(root):
    return sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()
    )


def test_install_and_remove(machine):
    root = str(machine)
    paths = sorted(f"{root}/{place}" for place in PLACES)
    report = pkgset.install_plugin(root)
    assert (sorted(report["written"]), report["unchanged"]) == (paths, [])
    assert files(machine) == sorted(PLACES)
    runs = {place for place in PLACES if os.access(f"{root}/{place}", os.X_OK)}
    assert runs == {
        "usr/bin/pkgset-notify",
        "usr/lib/zypp/plugins/commit/pkgset-notify",
    }
    assert pkgset.install_plugin(root)["written"] == []
    # an older one is brought up to date, and a mode that somebody has changed
    (machine / PLACES[1]).write_text("# saltext-package-states, older\n")
    (machine / PLACES[-1]).chmod(0o644)
    assert sorted(pkgset.install_plugin(root)["written"]) == [
        f"{root}/{PLACES[1]}",
        f"{root}/{PLACES[-1]}",
    ]
    assert sorted(pkgset.remove_plugin(root)) == paths
    assert files(machine) == []
    assert pkgset.remove_plugin(root) == []


def test_somebody_elses_file_stays(machine):
    theirs = machine / "etc/dpkg/dpkg.cfg.d/99pkgset-notify"
    theirs.write_text("post-invoke=true\n")
    with pytest.raises(PackageStateError, match="99pkgset-notify is not of saltext"):
        pkgset.install_plugin(str(machine))
    assert pkgset.remove_plugin(str(machine)) == []
    assert files(machine) == ["etc/dpkg/dpkg.cfg.d/99pkgset-notify"]


def test_a_machine_without_package_managers(root):
    with pytest.raises(PackageStateError, match="none of them is here"):
        pkgset.install_plugin(str(root))
    assert files(root) == []
