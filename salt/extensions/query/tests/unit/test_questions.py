"""
Questions of administrators: each command of the project's page gives what it should.
"""

import contextlib
import importlib
import os
import pathlib
import re
import shlex
import sys
import time

import pytest
from fleet import answering
from saltext.query import cli
from test_points import job

import salt.utils.files
from salt.utils import parsers

PAGE = pathlib.Path(__file__).parents[5] / "docs" / "query-questions.md"

#: What stands first in each line of the answers.
ANSWERS = {
    "Which Debian machines have little memory?": ["web1"],
    "Which hosts run a kernel older than 5.15?": ["web1"],
    "Which minions run a Salt older than 3006.10?": ["web1"],
    "Which minions do not answer?": ["db1", "new2"],
    "Is web1 alive now?": ["web1"],
    "Which have not sent their grains for a week?": ["db1"],
    "Which of them do not answer now either?": ["db1"],
    "Which accepted minions have never sent grains?": ["new2"],
    "Which have an old mine, or none?": ["db1", "new1", "new2", "web2"],
    "Which keys wait to be accepted?": ["new1"],
    "Who has the address 10.0.0.7?": ["web1"],
    "Who is a database, and no backup?": ["db1"],
    "Who has no grain `datacentre`?": ["db1", "new1", "new2", "web1"],
    "The same, without those that sent no grains at all": ["db1", "web1"],
    "Which ids begin with web, without web2?": ["web1"],
    "Which five hosts have the most memory?": ["db1", "web2", "web1", "new1", "new2"],
    "How many hosts run each release?": ["Debian", "?", "SUSE"],
    "How much memory has each system, and the fleet?": ["Debian", "?", "SUSE"],
    "How many processors are there in all?": ["accepted", "pending"],
    "Who failed the last highstate?": ["web1"],
    "Who failed it, or never had one?": ["db1", "new2", "web1"],
    "What was the last job of web1?": ["web1"],
    "Which minions are busy at this moment?": [],
    "How far is a job, and who has not returned?": ["NOW"],
    "Which jobs of the last day failed somewhere?": ["NOW"],
    "Which minions have not returned the newest highstate?": [],
    "Which jobs wait or run now, with the job handler?": [],
    "Which jobs have not got all returns?": ["NOW"],
    "Which jobs upgraded packages on web1?": [],
    "Which jobs did alice start?": [],
    "Who holds vim, and at which version?": ["web1"],
    "Who has an openssl older than 3.0.2?": ["openssl"],
    "The same on Debian, where the library is `libssl3` or `libssl1.1`": ["libssl1.1"],
    "The same, with epochs: `1:1.1.1k` is newer": ["openssl"],
    "Which packages are locked, at which version?": ["web1"],
    "Which installed packages are held?": ["vim"],
    "Which virtual machines are there, and on which host?": ["virt:vm-a", "virt:vm-b"],
    "On which hosts is vm-a known, and since when?": ["virt:vm-a"],
    "Whose packages are not known?": ["db1", "new1", "new2", "web2"],
    "Act on the minions of an answer": ["web1"],
    "Exit code 2 if there are none": ["web1"],
}


def _questions():
    """
    Return the command of each question.
    """
    if not PAGE.exists():
        return {}
    with salt.utils.files.fopen(PAGE) as handle:
        rows = re.findall(r"^\| ([^|]*) \| `(sal.*)` \|$", handle.read(), re.MULTILINE)
    return {
        question: re.sub(r".*\$\((salt-query .*?)\)\".*", r"\1", command)
        for question, command in rows
    }


@pytest.fixture
def config(master, monkeypatch):
    """
    A master whose minions have what the questions are about.
    """
    common = {"kernel": "Linux", "id": "x"}
    web = {**common, "os": "Debian", "os_family": "Debian", "os_release": "12"}
    old = {"kernelrelease": "5.4.0", "saltversion": "3006.9", "mem_total": 2048}
    new = {"kernelrelease": "5.15.0-91", "saltversion": "3006.10", "mem_total": 8192}
    db = {"os": "SUSE", "roles": ["db"], "kernelrelease": "6.1", "mem_total": 9000}
    web1 = {**web, **old, "ipv4": ["10.0.0.7"], "roles": ["web"]}
    web2 = {**web, **new, "roles": ["db", "backup"], "datacentre": "a"}
    for name, grains in {"web1": web1, "web2": web2, "db1": db}.items():
        master.minion(name, **{**grains, "id": name})
    path = pathlib.Path(master.put("grains", "db1", {**db, "id": "db1"}))
    week_ago = time.time() - 8 * 86400
    os.utime(path, (week_ago, week_ago))
    master.key("new1", "pending")
    master.key("new2", "accepted")
    packages = {
        "openssl": "3.0.1-1",
        "vim": "9",
        "libssl1.1": "1.1.1n-0",
        "libssl": "1",
    }
    mine = {"pkg.list_pkgs": packages, "pkg.list_holds": ["vim"]}
    mine["virt.vm_info"] = {"vm-a": {"state": "running"}, "vm-b": {"state": "shutdown"}}
    master.put("mine", "web1", mine)
    jid = time.strftime("%Y%m%d%H%M%S000000", time.gmtime(time.time() - 3600))
    job(master, jid, "state.highstate", ["web1", "web2", "new1"], web1=2, web2=0)
    opts = {**master.opts, "user": "root", "__cli": "salt-query"}

    def parse_args(parser):
        # without the set-up of logging
        plain = parsers.optparse.OptionParser
        parser.options, parser.args = plain.parse_args(parser)
        parser.config = opts

    monkeypatch.setattr(cli.SaltQuery, "parse_args", parse_args)
    return jid


@pytest.mark.parametrize("master", [False], indirect=True)
@pytest.mark.parametrize("question", _questions())
def test_a_question(config, question, monkeypatch, capsys):
    words = shlex.split(_questions()[question].replace("JID", config))
    monkeypatch.setattr(sys, "argv", words)
    living = dict.fromkeys(("web1", "web2"), {})
    with answering(living), contextlib.suppress(SystemExit):
        cli.main()
    found = capsys.readouterr()
    lines = found.out.splitlines()
    if "--format" not in words:
        lines = lines[1:]
    if "--count" in words:
        lines = lines[:-1]
    first = [line.split()[0].replace(config, "NOW") for line in lines]
    assert first == ANSWERS[question], found.err


def test_every_question_is_tested():
    assert not PAGE.exists() or _questions().keys() == ANSWERS.keys()


def test_the_columns_of_each_type():
    """The first table names the columns that each type shows without ``-o``."""
    if not PAGE.exists():
        pytest.skip("the page belongs to the project's tree")
    with salt.utils.files.fopen(PAGE) as handle:
        text = handle.read()
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| `(.*?)` \|", text, re.MULTILINE)
    usual = {
        one: importlib.import_module(f"saltext.query.types.{one}").item_type().usual
        for one, _ in rows
    }
    assert len(rows) == 6
    assert {one: ",".join(names) for one, names in usual.items()} == dict(rows)
