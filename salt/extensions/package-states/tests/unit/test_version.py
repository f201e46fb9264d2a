import os
import random
import shutil
import subprocess
import sys

import pytest
import saltext.package_states.model.version as version

# pairs in order, the older one first
DEBIAN = [
    ("1.0~rc1", "1.0"),
    ("1.0~~", "1.0~"),
    ("1.0", "1.0+b1"),
    ("1.0a", "1.0+"),
    ("1.2", "1.10"),
    ("0.9", "1:0.5"),
    ("1.0", "1.0-1"),
    ("1.0-1", "1.0-1.1"),
    ("1.0-1~bpo12+1", "1.0-1"),
    ("1", "1.0"),
    ("2:9.0.1378-2", "2:9.0.1378-2+deb12u2"),
]
RPM = [
    ("1.0~rc1-1", "1.0-1"),
    ("1.0-1", "1.0^git1-1"),
    ("1.2-1", "1.10-1"),
    ("0.9-1", "1:0.5-1"),
    ("1.0-1.el8", "1.0-2.el8"),
    ("1.0a-1", "1.0.1-1"),
]


@pytest.mark.parametrize(
    "manager,old,new",
    [("apt", *pair) for pair in DEBIAN]
    + [(name, *pair) for pair in RPM for name in ("zypper", "dnf")],
)
def test_order(manager, old, new):
    assert version.compare(manager, old, new) == -1
    assert version.compare(manager, new, old) == 1
    assert version.compare(manager, new, new) == 0


def test_a_version_without_release_is_that_of_any_release():
    assert version.compare("dnf", "1.0-5", "1.0") == 0
    assert version.compare("dnf", "1:1.0-5", "1.0") == 1
    assert version.compare("apt", "1.0-5", "1.0") == 1


def test_an_epoch_of_zero_is_none():
    for manager in version.MANAGERS:
        assert version.compare(manager, "0:1.0", "1.0") == 0


@pytest.mark.skipif(
    shutil.which("dpkg") is None, reason="dpkg is not there: apt-get install dpkg"
)
def test_order_is_that_of_dpkg():
    chance = random.Random(8)

    def part(most):
        marks = "0019a~+.Zb"
        return "".join(chance.choice(marks) for _ in range(chance.randint(1, most)))

    def some():
        revision = f"-{part(3)}" if chance.random() < 0.4 else ""
        return f"{chance.choice(('', '0:', '1:'))}{chance.randint(0, 9)}{part(5)}{revision}"

    for _ in range(100):
        one, two = some(), some()
        operator = {-1: "lt", 0: "eq", 1: "gt"}[version.compare("apt", one, two)]
        answer = subprocess.run(
            ["dpkg", "--compare-versions", one, operator, two], check=False
        )
        assert answer.returncode == 0, (one, operator, two)


def test_newest_and_sort():
    assert version.newest("apt", ["1.2", "1.10", "1.9"]) == "1.10"
    assert version.newest("apt", []) == ""
    assert version.sort("apt", ["1.10", "1.2", "1.2"]) == ["1.2", "1.10"]


@pytest.mark.parametrize("manager", version.MANAGERS)
def test_equal_versions_have_one_order_in_every_process(manager):
    """
    Minions of the same repositories must have the same digests, and a set has another
    order in each process
    """
    code = (
        "import saltext.package_states.model.version as v;"
        f"print(v.sort({manager!r}, ['1.0-1', '1.00-1', '0:1.0-1', '2-1', '1.000-1']))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(found) == 1


def test_digits_without_end():
    """
    Python makes no int of more than some thousand digits
    """
    many = "9" * 5000
    assert version.compare("apt", many, "1") == 1
    assert version.compare("apt", f"{many}:1", "1:1") == 1
    assert version.compare("apt", f"1.{many}", f"1.0{many}") == 0
    assert version.sort("apt", ["\u00b2:1", "1"]) == ["1", "\u00b2:1"]
