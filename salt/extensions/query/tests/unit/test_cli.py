"""
The command ``salt-query``, run as a command.
"""

import csv
import fcntl
import json
import os
import pathlib
import pty
import shlex
import struct
import subprocess
import sys
import termios

import pytest
import saltext.query
from conftest import Master

import salt.utils.jid

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
        "id: master_master\nnodegroups: {new: L@web2}\ntimeout: 1\n"
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


def test_blanks_between_names_of_fields(config):
    assert run(config, "node", "web1", "-o", "name, os , mtotal") == (
        0,
        "Node OS     MTotal\nweb1 Debian   1.0G\n",
        "",
    )


def test_names_that_are_not_there(config):
    """
    What is there is shown, what is not is named, and the exit status is 1.
    """
    status, printed, told = run(config, "node", "web1", "typo", "-o", "name")
    assert (status, printed) == (1, "Node\nweb1\n")
    assert told == "salt-query: no such node: typo\n"
    assert run(config, "job", "typo")[0] == 1


def test_a_cache_that_fails(config, tmp_path):
    """
    It is no missing data: one sentence, and an exit status of its own.
    """
    other = tmp_path / "etc"
    other.mkdir()
    text = (pathlib.Path(config) / "master").read_text()
    (other / "master").write_text(f"{text}cache: nope\nmaster_job_cache: nope\n")
    status, printed, told = run(str(other), "node", "-o", "name,os")
    assert (status, printed) == (69, "")
    assert told.startswith("salt-query: The master's cache can't be read: ")
    status, printed, told = run(str(other), "job")
    assert (status, printed) == (69, "")
    assert "Correct master_job_cache" in told and "Traceback" not in told


def test_a_master_that_is_down(config):
    status, printed, told = run(config, "node", "-o", "name,alive")
    assert (status, printed) == (69, "")
    assert "see whether salt-master runs" in told and "Traceback" not in told


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_somebody_else(config):
    """
    Who is not the master's user is told so.
    """
    code = f"import os, saltext.query.cli; os.setgid(65534); os.setuid(65534); {CODE}"
    done = subprocess.run(
        [sys.executable, "-c", code, "-c", config, "node"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(HOME="/"),
    )
    assert (done.returncode, done.stdout) == (77, "")
    assert "Traceback" not in done.stderr


def test_jobs_newest_first(config):
    """
    So many as people look at, and that there are more is told.
    """
    folder = pathlib.Path(config) / "cache" / "jobs"
    jids = [str(20261121093000000000 + number) for number in range(60)]
    for jid in jids:
        path = pathlib.Path(salt.utils.jid.jid_dir(jid, str(folder), "sha256"))
        path.mkdir(parents=True)
        (path / "jid").write_text(jid)
    status, printed, told = run(config, "job", "-o", "id", "--no-headers")
    assert (status, printed.split()) == (0, jids[:9:-1])
    offset = shlex.quote(json.dumps([[jids[10], ""], [[0, jids[10]]]]))
    assert told == f"salt-query: 50 of 60 items; go on with offset {offset}\n"
    status, printed, told = run(config, "job", "-o", "id", "--no-headers", "--all")
    assert (printed.split(), told) == (jids[::-1], "")
    _, printed, _ = run(config, "job", "-o", "id", "--sort=id", "--limit=2")
    assert printed.split()[1:] == jids[:2]


def test_sort_and_count(config):
    _, printed, _ = run(config, "node", "-o", "name", "--sort=-mtotal", "--no-headers")
    assert printed.split() == ["web10", "web1", "web2"]
    assert run(config, "node", "--count", "os")[:2] == (
        0,
        "OS     Count\nDebian     2\n?          1\n3 items in 2 groups\n",
    )


@pytest.mark.parametrize(
    "option,names",
    (
        (["-G", "os:Debian"], ["web1", "web10"]),
        (["-C", "web* and not web10"], ["web1", "web2"]),
        (["-L", "web2,web1"], ["web1", "web2"]),
        (["-E", "web1.*"], ["web1", "web10"]),
        (["-S", "10.0.0.0/8"], []),
        (["-N", "new"], ["web2"]),
        (["-G", "os:Debian", "-F", "mtotal > 2G"], ["web10"]),
        (["-G", "os:Debian", "web1"], ["web1"]),
    ),
)
def test_targets(config, option, names):
    status, printed, told = run(config, "node", "-o", "name", "--no-headers", *option)
    assert (status, printed.split(), told) == (0, names, "")


def test_formats(config):
    args = ["node", *FIELDS]
    _, printed, _ = run(config, *args, "--format=csv")
    assert list(csv.reader(printed.splitlines())) == [
        ["name", "mtotal", "os"],
        ["web1", "1024", "Debian"],
        ["web2", "", ""],
        ["web10", "10240", "Debian"],
    ]
    _, printed, _ = run(config, *args, "--format=jsonl")
    found = [json.loads(line) for line in printed.splitlines()]
    assert found[0] == {"name": "web1", "mtotal": 1024, "os": "Debian"}
    assert found[1]["_missing"] == {"mtotal": "nodata", "os": "nodata"}
    _, printed, _ = run(config, *args, "--units=m", "web1", "--no-headers")
    assert printed == "web1 1024 Debian\n"


def test_watch_in_a_pipe(config):
    """
    The titles come once, as whoever reads rows expects.
    """
    args = ["node", "web1", "-o", "name", "--watch=0.1", "--times=3"]
    assert run(config, *args) == (0, "Node\n" + "web1\n" * 3, "")
    assert run(config, *args, "--format=csv")[1] == "name\n" + "web1\n" * 3


def test_misspelt_columns(config):
    """
    Each of them is named with what is meant.
    """
    status, printed, told = run(config, "node", "web1", "-o", "Name,OS,MTotal,nope,os")
    assert (status, printed) == (1, "OS\nDebian\n")
    assert told.splitlines() == [
        "salt-query: no such field: Name; did you mean 'name'?",
        "salt-query: no such field: OS; did you mean 'os'?",
        "salt-query: no such field: MTotal; did you mean 'mtotal'?",
        "salt-query: no such field: nope; --list-fields shows those that there are",
    ]


def test_watch(config):
    args = ["--watch=0.1", "--times=3", "--no-headers"]
    assert run(config, "node", "web1", "-o", "name", *args) == (0, "web1\n" * 3, "")
    assert run(config, "node", "--watch=0")[0] == 64


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


def test_list_fields_of_sites(config):
    """
    What any site has is one field of each kind, unless somebody asks for its names.
    """
    args = ["--list-fields", "--separator=;", "--no-headers"]

    def names(*more):
        status, printed, told = run(config, "node", *more, *args)
        assert (status, told) == (0, "")
        return [line.split(";")[0] for line in printed.splitlines()]

    known = sorted(saltext.query.item_type({}, "node").fields)
    assert sorted(names()[:-3]) == known
    assert names()[-3:] == ["grain.KEY", "mine.KEY", "pillar.KEY"]
    assert names("mtotal") == ["mtotal"]
    grains = ["grain.id", "grain.mem_total", "grain.os"]
    assert names("grain") == grains
    assert names("grain", "os") == [*grains, "os"]
    assert "KEY" not in run(config, "os", *args)[1]


def test_terminal(config):
    """
    Colours on a terminal.
    """
    printed = terminal(config, 80, "node", "web2", "-o", "name,os")
    assert printed.startswith("Node OS\nweb2 \x1b[")
    plain = "Node OS\nweb2 ?\n"
    assert terminal(config, 80, "node", "web2", "-o", "name,os", "--no-color") == plain
    assert terminal(config, 6, "node", "web2", "-o", "name,os", NO_COLOR="1") == plain


def test_help_lists_the_types_that_there_are(config):
    code, out, err = run(config, "--help")
    assert code == 0, err
    types = " ".join(out.partition("Types: ")[2].partition(", and")[0].split())
    assert types.split(", ") == saltext.query.item_types({})
