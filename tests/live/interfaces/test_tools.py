"""What is generated from the interfaces: types that find misuses, and the contract that real managers keep."""

from __future__ import annotations

import ast
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.live.helpers.apt_root import AptRoot, roots
from tests.live.helpers.rpm_root import GRAINS, RpmRoot, rpm_root
from tests.live.interfaces.test_interfaces import INIT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]

MISUSES, FOUND = 200, 0.95
RECORD = "/tmp/returns.jsonl"  # noqa: S108 - in the root
#: Where a manager differs from the contract: the test, and why it stays
KNOWN = {
    "dnf": {
        "test_refresh": "refresh_db returns None if nothing is to be upgraded, which its users may rely on",
        "test_an_absent_repository": "del_repo returns its error as a string, which a test of Salt's wants",
    },
    "zypper": {
        "test_a_version_that_nobody_has": "install returns no changes; the state finds that out by itself",
    },
    "apt": {
        "test_purge": "purge returns what is removed and what is installed in two dictionaries",
        "test_files_of_an_absent_package": "file_list returns its error as a string",
        "test_details_of_an_absent_package": "info_installed raises its error",
    },
    "service": {"test_start_at_boot": "enable calls insserv, which Debian 12 does not have"},
}
#: Salt asks for this package before it locks anything
LOCKING = """eval "$(sed -n '/^make()/,/^}/p' /tmp/rpm_managers.sh)"
set -e
mkdir -p /tmp/rpmbuild
make python3-dnf-plugin-versionlock 1.0
rpm -U --force --nodeps /srv/rpms/noarch/python3-dnf-plugin-versionlock-1.0-1.noarch.rpm"""
HEAD = """from salt_stubs import Salt

__salt__: Salt


def run(x: object) -> None:
"""


def stubs(root: Path, folder: Path) -> dict[str, ast.FunctionDef]:
    """Write the stubs into a folder, and return the functions that have types."""
    make = "import sys, salt.runners.interfaces as it; print(it.stubs(sys.argv[1]))"
    argv = [sys.executable, "-W", "ignore", "-c", make, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(root / "salt")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=True)
    tree = ast.parse(Path(done.stdout.strip()).read_text())
    calls = {
        node.name: node.body[0]
        for node in tree.body
        if isinstance(node, ast.ClassDef) and isinstance(node.body[0], ast.FunctionDef)
    }
    return {name.replace("_", ".", 1): call for name, call in calls.items() if isinstance(call, ast.FunctionDef)}


def misuses(functions: dict[str, ast.FunctionDef], rand: random.Random) -> list[tuple[str, str]]:
    """Return as many calls as wanted, each right and with one mistake."""
    rows: list[tuple[str, str]] = []
    while len(rows) < MISUSES:
        key, call = rand.choice(sorted(functions.items(), key=lambda pair: pair[0]))
        names = [one.arg for one in call.args.args[1:]]
        needed = ["x"] * (len(names) - len(call.args.defaults))
        right = f"__salt__[{key!r}]({', '.join(needed)})"
        switches = [one.arg for one in call.args.args if ast.unparse(one.annotation or ast.Constant(0)) == "bool"]
        kinds: dict[str, str | None] = {
            "name": right.replace(key, key[:-1] + rand.choice("xyz") + key[-1]),
            "keyword": right[:-1] + (", " if needed else "") + "frob=x)",
            "too few": f"__salt__[{key!r}]()" if needed else None,
            "too many": None if call.args.vararg else f"__salt__[{key!r}]({', '.join('x' for _ in (*names, 1))})",
            "type": right[:-1] + (", " if needed else "") + f"{rand.choice(switches)}='no')" if switches else None,
            "result": None if ast.unparse(call.returns or ast.Constant(0)) == "Any" else right + ".frob",
        }
        wrong = kinds[rand.choice(sorted(kinds))]
        if wrong:
            rows.append((right, wrong))
    return rows


def complaints(folder: Path, calls: list[str]) -> set[int]:
    """Return the numbers of the calls that mypy complains of."""
    (folder / "use.py").write_text(HEAD + "".join(f"    {one}\n" for one in calls))
    argv = [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), "use.py"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert "errors prevented" not in done.stdout + done.stderr, done.stdout
    lines = {int(one) for one in re.findall(r"^use\.py:(\d+): error", done.stdout, re.MULTILINE)}
    first = HEAD.count("\n") + 1
    return {line - first for line in lines}


def test_types_find_misuses(root: Path, tmp_path: Path) -> None:
    """Of 200 calls with a mistake, at least 95 % are found, and nothing is said of the same calls without one."""
    rows = misuses(stubs(root, tmp_path), random.Random(44))  # noqa: S311 - a seed for a test
    assert complaints(tmp_path, [right for right, _ in rows]) == set()
    found = complaints(tmp_path, [wrong for _, wrong in rows])
    missed = [wrong for number, (_, wrong) in enumerate(rows) if number not in found]
    assert len(missed) <= MISUSES * (1 - FOUND), missed


def contract(root: Path, system: AptRoot, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the contract of an interface in a root."""
    folder = root / "salt" / "tests" / "pytests" / "contract"
    argv = [
        str(root / "build/venv/bin/python"),
        "-W",
        "ignore",
        "-m",
        "pytest",
        "-q",
        "-rsfE",
        "--tb=line",
        "--show-capture=no",
        "-p",
        "no:cacheprovider",
    ]
    argv += ["-c", "/dev/null", f"--rootdir={folder}", f"--confcutdir={folder}", f"--record={RECORD}", *options]
    system.write(RECORD, "")
    return system.run(*argv, env={"PYTHONPATH": str(root / "salt")}, check=False)


def known(manager: str) -> list[str]:
    """Return the options that leave out where a manager differs."""
    return ["-k", " and ".join(f"not {one}" for one in KNOWN[manager])] if KNOWN[manager] else []


def record(done: subprocess.CompletedProcess[str], system: AptRoot, name: str) -> None:
    """Check that a run passed, and keep the results of the calls where `SALTBED_RECORD` says."""
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = os.environ.get("SALTBED_RECORD")
    if folder:
        Path(folder, f"{name}.jsonl").write_text(system.read(RECORD))


@pytest.mark.needs_root
@pytest.mark.parametrize("manager", ["zypper", "dnf"])
def test_contract_of_rpm(root: Path, rpm: RpmRoot, manager: str) -> None:
    """Both managers of rpm keep the contract of pkg."""
    rpm.begin()
    rpm.run("bash", "-c", LOCKING)
    options = {"file_client": "local", "id": manager, "grains": GRAINS[manager], "log_level": "error"}
    rpm.write("/etc/salt/minion", yaml.safe_dump(options))
    test = root / "salt/tests/pytests/contract/pkg_contract.py"
    record(contract(root, rpm, str(test), "--package=sb-tool", *known(manager)), rpm, manager)


@pytest.mark.needs_root
def test_contract_of_apt(root: Path, apt: AptRoot) -> None:
    """The manager of Debian keeps the contract of pkg, and init scripts that of service."""
    apt.write("/etc/salt/minion", yaml.safe_dump({"file_client": "local", "id": "apt", "log_level": "error"}))
    folder = root / "salt/tests/pytests/contract"
    record(contract(root, apt, str(folder / "pkg_contract.py"), "--package=sb-tool", *known("apt")), apt, "apt")
    record(
        contract(root, apt, str(folder / "service_contract.py"), "--service=sb-daemon", *known("service")),
        apt,
        "service",
    )


@pytest.fixture(scope="module")
def rpm(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpmRoot]:
    """Yield a root with dnf and zypper."""
    with rpm_root(root, tmp_path_factory) as made:
        yield made


@pytest.fixture(scope="module")
def apt(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root with apt, and with a service that has an init script."""
    for made in roots(root, tmp_path_factory):
        made.write("/etc/init.d/sb-daemon", INIT, 0o755)
        made.run("rm", "-f", "/usr/bin/systemctl", "/bin/systemctl", "/usr/sbin/runlevel", "/sbin/runlevel")
        made.write("/usr/sbin/runlevel", "#!/bin/sh\necho N 2\n", 0o755)
        yield made


@pytest.mark.parametrize(
    ("right", "wrong", "test"),
    [
        ("", "", ""),
        ('versions.get(name, "")', "versions.get(name, {})", "test_a_name_that_nobody_knows"),
        ("key not in gone}", "key not in gone or 1 / 0}", "test_remove_twice"),
    ],
)
def test_contract_of_an_author(root: Path, tmp_path: Path, right: str, wrong: str, test: str) -> None:
    """A module for a made-up manager keeps the contract, and one that is wrong in one place does not."""
    folder = root / "salt" / "tests" / "pytests" / "contract"
    source = (folder / "wood_pkg.py").read_text()
    assert right in source
    (tmp_path / "wood_pkg.py").write_text(source.replace(right, wrong) if right else source)
    options = {"root_dir": str(tmp_path), "cachedir": str(tmp_path / "cache"), "id": "author", "log_level": "error"}
    (tmp_path / "minion").write_text(yaml.safe_dump(options))
    argv = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-c", "/dev/null"]
    argv += [f"--rootdir={folder}", f"--confcutdir={folder}", str(folder / "pkg_contract.py"), "--package=plank"]
    argv += [f"--module={tmp_path / 'wood_pkg.py'}", f"--minion-config={tmp_path / 'minion'}"]
    env = {**os.environ, "PYTHONPATH": str(root / "salt")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=False)
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE)
    assert (test in failed) if test else (done.returncode == 0), done.stdout
