"""
The package managers' plugins in scripts/suse, run as their package managers do
"""

import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tokenize

import pytest

SUSE = pathlib.Path(__file__).parents[4] / "scripts" / "suse"
LAYOUTS = ["Packages", "Packages.db", "rpmdb.sqlite"]

# As libzypp's own module: frames on standard input and output, each a command, headers, an
# empty line, a body and a zero byte; a command is a method, and one that isn't there is an error.
ZYPP_PLUGIN = r"""
import os
import sys


class Plugin:
    def __init__(self):
        self.ck_path = None

    def ack(self):
        self.answer("ACK")

    def answer(self, command):
        sys.stdout.write(command + "\n\n\0")
        sys.stdout.flush()

    def main(self):
        self.ck_path = os.environ["CK_PATH"]
        self.rpm_paths = [
            os.path.join(folder, os.path.basename(path))
            for folder in os.environ["RPM_FOLDERS"].split(":")
            for path in self.rpm_paths[:3]
        ]
        frame = ""
        while True:
            char = sys.stdin.read(1)
            if not char:
                return
            if char != "\0":
                frame += char
                continue
            head, body = frame.lstrip("\n").split("\n\n", 1)
            command, *lines = head.split("\n")
            headers = dict(line.split(":", 1) for line in lines)
            frame = ""
            if command == "_DISCONNECT":
                self.answer("_DISCONNECTED")
                return
            if not hasattr(self, command):
                self.answer("_ENOMETHOD")
                continue
            getattr(self, command)(headers, body)
"""


@pytest.fixture
def folders(tmp_path):
    for name in ("sysimage", "lib"):
        (tmp_path / name).mkdir()
    return [tmp_path / "sysimage", tmp_path / "lib"]


@pytest.fixture
def cookie(tmp_path):
    return tmp_path / "cache" / "minion" / "rpmdb.cookie"


@pytest.fixture
def commit(tmp_path, folders, cookie):
    """
    Do what libzypp does at a commit, and return the plugin's answer to its end
    """
    (tmp_path / "zypp_plugin.py").write_text(ZYPP_PLUGIN)

    def _commit(**variables):
        plugin = SUSE / "zypper" / "plugins" / "commit" / "zyppnotify"
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(tmp_path),
            "CK_PATH": str(cookie),
            "RPM_FOLDERS": ":".join(str(folder) for folder in folders),
            **variables,
        }
        frames = [
            "PLUGINBEGIN\nuserdata:\n\n\0",
            'COMMITBEGIN\n\n{"TransactionStepList": []}\0',
            'COMMITEND\n\n{"TransactionStepList": []}\0',
            "PLUGINEND\n\n\0",
            "_DISCONNECT\n\n\0",
        ]
        done = subprocess.run(
            [sys.executable, str(plugin)],
            input="".join(frames),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            text=True,
            check=True,
            timeout=60,
        )
        answers = [frame.split("\n")[0] for frame in done.stdout.split("\0")[:-1]]
        assert answers[-1] == "_DISCONNECTED"
        return answers[3], done.stderr

    return _commit


def line(*files):
    text = b"".join(path.read_bytes() for path in files)
    mtime = max(int(path.stat().st_mtime) for path in files)
    return f"{hashlib.sha256(text).hexdigest()} {mtime}\n"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("folder", [0, 1], ids=["sysimage", "lib"])
def test_zypper_writes_the_cookie(commit, folders, cookie, layout, folder):
    """
    of the database that is there, whichever of rpm's three layouts it has
    """
    database = folders[folder] / layout
    database.write_bytes(b"one")
    assert commit() == ("ACK", "")
    assert cookie.read_text() == line(database)
    database.write_bytes(b"another")
    assert commit()[0] == "ACK"
    assert cookie.read_text() == line(database)
    assert os.listdir(str(cookie.parent)) == ["rpmdb.cookie"]


def test_zypper_takes_the_layout_in_use(commit, folders, cookie):
    """
    after a conversion the old one may be left, and SQLite may have a second file
    """
    old, new = folders[1] / "Packages", folders[1] / "rpmdb.sqlite"
    old.write_bytes(b"old")
    os.utime(str(old), (1000, 1000))
    new.write_bytes(b"new")
    wal = folders[1] / "rpmdb.sqlite-wal"
    wal.write_bytes(b"more")
    assert commit()[0] == "ACK"
    assert cookie.read_text() == line(new, wal)


def test_zypper_run_by_salt_writes_nothing(commit, folders, cookie):
    (folders[1] / "Packages.db").write_bytes(b"one")
    assert commit(SALT_RUNNING="1")[0] == "ACK"
    assert not cookie.exists()


def test_zypper_goes_on_if_there_is_no_place_for_the_cookie(commit, folders, tmp_path):
    (folders[1] / "Packages.db").write_bytes(b"one")
    (tmp_path / "file").write_text("")
    answer, said = commit(CK_PATH=str(tmp_path / "file" / "cookie"))
    assert answer == "ACK"
    assert said.startswith("Unable to save the cookie file")


def test_zypper_without_a_database(commit, cookie):
    assert commit()[0] == "ACK"
    assert cookie.read_text().endswith(" 0\n")


def run(path, variables, argv=(), code=""):
    """
    Run a script as it is, except for its paths
    """
    text = path.read_text()
    for name, value in variables.items():
        head, rest = text.split(f"\n{name} = ", 1)
        end = rest.index("\n]\n") + 2 if rest.startswith("[") else rest.index("\n")
        text = f"{head}\n{name} = {value!r}{rest[end:]}"
    env = {"PATH": os.environ["PATH"], **dict(argv)}
    subprocess.run([sys.executable, "-c", text + code], env=env, check=True, timeout=60)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dnf_writes_the_cookie(folders, cookie, layout):
    """
    as the plugin of dnf 4 and as a command of dnf 5
    """
    database = folders[1] / layout
    database.write_bytes(b"one")
    paths = [str(folders[1] / name) for name in LAYOUTS]
    variables = {"CK_PATH": str(cookie), "RPM_PATHS": paths}
    script = SUSE / "dnf" / "plugins" / "dnfnotify.py"
    run(script, variables, {"SALT_RUNNING": "1"})
    assert not cookie.exists()
    run(script, variables)
    assert cookie.read_text() == line(database)
    database.write_bytes(b"another")
    run(script, variables, code="\nDnfNotify.transaction(None)\n")
    assert cookie.read_text() == line(database)


def test_dpkg_writes_the_cookie(tmp_path, cookie):
    status = tmp_path / "status"
    status.write_bytes(b"one")
    variables = {"CK_PATH": str(cookie), "DPKG_PATH": str(status)}
    script = SUSE / "dpkg" / "dpkgnotify"
    run(script, variables, {"SALT_RUNNING": "1"})
    assert not cookie.exists()
    run(script, variables)
    assert cookie.read_text() == line(status)


def test_dpkg_goes_on_if_there_is_no_place_for_the_cookie(tmp_path):
    (tmp_path / "file").write_text("")
    variables = {"CK_PATH": str(tmp_path / "file" / "cookie")}
    run(SUSE / "dpkg" / "dpkgnotify", variables)


def test_yum_plugin_is_python_2():
    """
    yum runs with Python 2, to which a formatted string literal is a syntax error
    """
    text = (SUSE / "yum" / "plugins" / "yumnotify.py").read_text()
    names = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.STRING
        or tokenize.tok_name[token.type] == "FSTRING_START"
    ]
    assert not [name for name in names if name[:1] in "fF"]


def test_yum_writes_the_cookie(folders, cookie):
    database = folders[1] / "Packages"
    database.write_bytes(b"one")
    script = SUSE / "yum" / "plugins" / "yumnotify.py"
    text = script.read_text()
    for old, new in {
        "/var/cache/salt/minion/rpmdb.cookie": str(cookie),
        "/var/lib/rpm/Packages": str(database),
        "from yum.plugins import TYPE_CORE": "TYPE_CORE = 0",
    }.items():
        assert old in text
        text = text.replace(old, new)
    for variables, there in (({"SALT_RUNNING": "1"}, False), ({}, True)):
        env = {"PATH": os.environ["PATH"], **variables}
        code = text + "\nposttrans_hook(None)\n"
        subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)
        assert cookie.exists() is there
    assert cookie.read_text() == line(database)
