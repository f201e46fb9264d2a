"""
The command ``salt-query``, run as a command.
"""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from conftest import Master

CODE = "import saltext.query.cli; saltext.query.cli.main()"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    root = tmp_path_factory.mktemp("query")
    master = Master(root)
    master.key("web2")
    for number in (1, 10):
        master.minion(f"web{number}", os="Debian", mem_total=1024 * number)
    import getpass

    (root / "master").write_text(
        f"root_dir: {root}\npki_dir: /pki\ncachedir: /cache\nuser: {getpass.getuser()}\n"
    )
    return str(root)


def command(config, *args):
    return [sys.executable, "-c", CODE, "-c", config, *args]


def environment(**more):
    return {**os.environ, "PYTHONWARNINGS": "ignore", **more}


def run(config, *args):
    done = subprocess.run(
        command(config, *args),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    return done.returncode, done.stdout, done.stderr


def terminal(config, columns, *args, **env):
    """
    Run it on a terminal that is so wide, and return what it prints there.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = environment(**env)
    for name in ("COLUMNS", "LINES"):
        env.pop(name, None)
    process = subprocess.Popen(  # pylint: disable=consider-using-with
        command(config, *args), stdout=theirs, env=env
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        printed += part
    os.close(ours)
    assert process.wait() == 0
    return printed.decode().replace("\r\n", "\n")


FIELDS = ("-o", "name,mtotal,os")


def test_pipe(config):
    assert run(config, "node", *FIELDS) == (
        0,
        "Node  MTotal OS\nweb1    1.0G Debian\nweb2       ? ?\nweb10  10.0G Debian\n",
        "",
    )


def test_separator_and_names(config):
    args = ["node", "web10", "web1", *FIELDS, "--separator=;", "--no-headers"]
    assert run(config, *args) == (0, "web10;10240;Debian\nweb1;1024;Debian\n", "")


def test_unknown_fields(config):
    """
    They are hidden, named on the standard error output, and the exit status is 1.
    """
    status, printed, told = run(
        config, "node", "web2", "-o", "name,nope,os", "--verbose"
    )
    assert (status, printed) == (1, "Node OS\nweb2 (nodata)\n")
    assert "nope" in told


@pytest.mark.parametrize(
    "args,word",
    (
        (["nodes"], "nodes"),
        (["node", "-F", "nope"], "nope"),
        (["node", "web1", "-F", "os"], "either"),
        (["node", "--limit", "-1"], "limit"),
    ),
)
def test_wrong_requests(config, args, word):
    status, printed, told = run(config, *args)
    assert (status, printed) == (64, "")
    assert word in told and "Traceback" not in told


def test_filter_and_json(config):
    status, printed, _ = run(config, "node", "-F", "mtotal > 2000", "--json", *FIELDS)
    assert status == 0
    assert json.loads(printed)["data"] == [[[0, "web10"], [0, 10240], [0, "Debian"]]]


def test_list_fields(config):
    status, printed, _ = run(config, "os", "--list-fields", "name", "--separator=;")
    assert (status, printed.splitlines()[1].split(";")[:3]) == (
        0,
        ["name", "text", "Name"],
    )


def test_terminal(config):
    """
    Colours on a terminal, and blocks if it is narrow.
    """
    printed = terminal(config, 80, "node", "web2", "-o", "name,os")
    assert printed.startswith("Node OS\nweb2 \x1b[")
    plain = "Node OS\nweb2 ?\n"
    assert terminal(config, 80, "node", "web2", "-o", "name,os", "--no-color") == plain
    narrow = terminal(config, 6, "node", "web2", "-o", "name,os", NO_COLOR="1")
    assert narrow == "Node: web2\nOS:   ?\n"
