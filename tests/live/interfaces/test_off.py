"""Interfaces that are off: Salt answers as stock Salt does, to right calls, wrong ones and missed look-ups."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(5400)]

CALLS = 1500
#: Where what a module returns is not what the interface says, and why it stays
KNOWN = {
    "pkg.file_dict": "the error about an absent package is returned as a string",
    "lowpkg.list_pkgs": "the same",
    "user.get_loginclass": "it is False where there are no login classes",
}
#: Arguments, right and wrong; none is a small number, which is an open file
ODD: list[Any] = ["", "no-such-thing", "a b", "bäh", 4711, -1.5, True, None, [], ["bash"], {"bash": "1"}]
PACKAGES = ["bash", "libc6", "dpkg", "bash:amd64", "no-such-package", "bash,dpkg"]
SERVICES = ["cron", "ssh", "dbus", "procps", "no-such-service", "cron.service"]
PEOPLE = ["root", "daemon", "nobody", "www-data", "no-such-user", 0]
ADDRESSES = ["127.0.0.1", "10.0.0.0/8", "::1", "256.0.0.1", "lo", "eth0", "no-such-interface"]
PATHS = ["/etc/passwd", "/etc/hostname", "/bin/sh", "/no/such/file", "{}", "{}/text", "{}/link", "{}/nothing"]
KERNEL = ["kernel.ostype", "kernel.hostname", "vm.swappiness", "net.ipv4.ip_forward", "no.such.key"]
#: Functions that change nothing: what they take, and their names
FUNCTIONS: list[tuple[list[Any], dict[str, Any], str, str]] = [
    (
        PACKAGES,
        {},
        "pkg",
        "file_dict file_list get_selections info_installed list_pkgs normalize_name owner parse_arch",
    ),
    (PACKAGES, {}, "pkg", "get_repo list_downloaded list_repo_pkgs list_repos show version version_cmp which"),
    (PACKAGES, {"refresh": False}, "pkg", "available_version latest_version list_upgrades"),
    (PACKAGES, {}, "lowpkg", "bin_pkg_info file_dict file_list info list_pkgs"),
    (PACKAGES, {}, "kernelpkg", "active latest_installed list_installed needs_reboot"),
    (SERVICES, {}, "service", "available disabled enabled get_all get_disabled get_enabled get_running get_static"),
    (SERVICES, {}, "service", "execs masked missing offline show status"),
    (PEOPLE, {}, "user", "get_loginclass getent info list_groups list_users primary_group"),
    (PEOPLE, {}, "group", "getent info"),
    (PEOPLE, {}, "shadow", "default_hash info list_users"),
    (KERNEL, {}, "sysctl", "default_config get"),
    (["UTC", "Etc/UTC", "Europe/Berlin", "No/Where"], {}, "timezone", "get_offset get_zone get_zonecode zone_compare"),
    (["+0200", "0200"], {}, "system", "get_computer_desc get_computer_name get_reboot_required_witnessed"),
    (ADDRESSES, {}, "network", "calc_net convert_cidr default_route get_hostname get_route hw_addr hwaddr"),
    (ADDRESSES, {}, "network", "ifacestartswith in_subnet interface interface_ip interfaces ip_addrs ip_addrs6"),
    (
        ADDRESSES,
        {},
        "network",
        "ip_in_subnet ip_networks ip_networks6 ipaddrs ipaddrs6 iphexval is_loopback is_private",
    ),
    (ADDRESSES, {}, "network", "reverse_ip routes subnets subnets6"),
    (ADDRESSES, {}, "ip", "get_bond get_interface get_network_settings get_routes"),
    (PATHS, {}, "file", "access basename check_hash contains contains_glob contains_regex directory_exists dirname"),
    (PATHS, {}, "file", "file_exists find get_devmm get_gid get_group get_hash get_mode get_sum get_uid get_user grep"),
    (PATHS, {}, "file", "is_blkdev is_chrdev is_fifo is_hardlink is_link join list_backup list_backups lstat normpath"),
    (PATHS, {}, "file", "list_backups_dir path_exists_glob read readdir readlink search seek_read stats"),
    (PEOPLE, {}, "file", "gid_to_group group_to_gid uid_to_user user_to_uid"),
    (["/", "/proc"], {}, "status", "cpuinfo nproc version"),
]
#: Functions whose results are never the same: their types are
CHANGING = {
    "file.statvfs": ["/"],
    "network.active_tcp": [],
    "network.netstat": [],
    "status.cpustats": [],
    "status.diskstats": [],
    "status.diskusage": ["/"],
    "status.loadavg": [],
    "status.meminfo": [],
    "status.netdev": [],
    "status.netstats": [],
    "status.pid": ["no-such-process"],
    "status.procs": [],
    "status.time": [],
    "status.uptime": [],
    "status.vmstats": [],
    "status.w": [],
    "sysctl.show": [],
    "system.get_system_date": [],
    "system.get_system_date_time": [],
    "system.get_system_time": [],
}
#: Where another topic mends what stock Salt answers
MENDED = {
    "pkg.list_holds": "pkg-answers: apt has it",
    "pkg.latest_version": "pkg-answers: an unknown name counts, and is an empty string",
    "pkg.available_version": "pkg-answers: a second name of pkg.latest_version",
}
#: What reads the lists of all packages; the first are called once, the others with names only
SLOW = {"pkg.list_downloaded", "pkg.list_upgrades", "service.execs"}
NAMED = {f"{module}.{name}" for module in ("pkg", "lowpkg") for name in ("file_dict", "file_list", "list_repo_pkgs")}
#: Names that these virtual modules have elsewhere or nowhere
MISSED = "nosuch list_patches group_list chgid_ atq __init__ _private Install install.x purge_ get_user_sid"


def is_mended(call: dict[str, Any]) -> bool:
    """Return whether a topic changes the answer of a call."""
    name = call["function"]
    if name not in MENDED or call["look_up"]:
        return bool(name == "pkg.list_holds")
    return any(one not in ("bash", "libc6", "dpkg") for one in call["args"])


def calls(folder: Path) -> list[dict[str, Any]]:
    """Return calls of each function: right ones, and with too few, too many and unknown arguments and odd types."""
    rand = random.Random(44)  # noqa: S311 - a seed for a test
    rows: list[dict[str, Any]] = []

    def add(name: str, args: list[Any], **more: Any) -> None:
        args = [one.format(folder) if isinstance(one, str) else one for one in args]
        marks = {mark: more.pop(mark, False) for mark in ("look_up", "changing", "right")}
        rows.append({"function": name, "args": args, "kwargs": more, **marks})

    for pool, always, module, names in FUNCTIONS:
        for name in names.split():
            key = f"{module}.{name}"
            right, odd = rand.sample(pool, min(3, len(pool))), rand.sample(ODD, 3)
            if key not in NAMED:
                add(key, [], **always)
            if key in SLOW:
                continue
            for args in (*([one] for one in right + odd), right[:2], [right[0], odd[0]], odd[:2], [right[0]] * 7):
                add(key, args, right=len(args) == 1 and args[0] in right, **always)
            add(key, right[:1], frob=1, **always)
        for name in MISSED.split():
            add(f"{module}.{name}", [], look_up=True)
            add(f"{module}.{name}", [])
    variants: list[tuple[list[Any], dict[str, Any]]] = [([], {}), ([], {"frob": 1}), (["a", "b", "c", "d"], {})]
    for (key, args), (more, kwargs) in itertools.product(CHANGING.items(), variants):
        add(key, [*args, *more], changing=True, **kwargs)
    for key in ("at.atq", "at", "", ".", "pkg.", "nosuch.list", "win_pkg.version", *MENDED):
        add(key, [], look_up=True)
    return [row for row in rows if not is_mended(row)]


def run(tree: Path, folder: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answers of a tree to all calls, from a new root."""
    shutil.rmtree(folder / "root", ignore_errors=True)
    options = {"file_client": "local", "id": "off", "root_dir": str(folder / "root")}
    (folder / "minion").write_text(yaml.safe_dump(options))
    (folder / "calls.json").write_text(json.dumps(rows))
    results = folder / "results.json"
    script = Path(__file__).parents[1] / "helpers" / "module_calls.py"
    argv = [sys.executable, "-W", "ignore", str(script), *(str(folder / one) for one in ("minion", "calls.json"))]
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*argv, str(results)], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=2400, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(results.read_text())
    assert Path(found["salt"]).is_relative_to(tree)
    return found


def test_off_is_stock(root: Path, stock: Path, tmp_path: Path) -> None:
    """With smi off, all calls and look-ups of the virtual modules answer as on stock Salt."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "text").write_text("one\ntwo\n")
    (files / "link").symlink_to("text")
    rows = calls(files)
    assert len(rows) >= CALLS
    found = {tree: run(tree, tmp_path, rows) for tree in (stock, root / "salt")}
    ours, theirs = found[root / "salt"]["answers"], found[stock]["answers"]
    different = [(row, one, other) for row, one, other in zip(rows, ours, theirs, strict=True) if one != other]
    assert not different
    # the calls are not all refused
    returned = sum(not (isinstance(one, dict) and "raises" in one) for one in ours)
    assert returned >= 400
    # what the right ones return is what the interface says
    assert found[root / "salt"]["compared"] >= 100
    unexplained = found[root / "salt"]["unexplained"]
    assert {line.partition("[")[0] for line in unexplained} == set(KNOWN), unexplained
