"""
What it takes to evaluate a compound target
"""

import tracemalloc

import pytest

import salt.utils.minions
from tests.support.mock import patch

IDS = {f"minion-{number:05}" for number in range(1000)}


@pytest.fixture
def check(master_opts, tmp_path):
    master_opts["cachedir"] = master_opts["pki_dir"] = str(tmp_path)
    master_opts["nodegroups"] = {"few": "E@minion-0000[12]"}
    with patch.object(
        salt.utils.minions.CkMinions, "_pki_minions", side_effect=lambda: set(IDS)
    ):
        checker = salt.utils.minions.CkMinions(master_opts)
        yield lambda tgt: set(checker.check_minions(tgt, "compound")["minions"])


def test_memory_is_that_of_the_minions(check):
    """
    A target of 1,400 characters took 160 MB
    """
    target = " or ".join(["E@."] * 200)
    tracemalloc.start()
    try:
        assert check(target) == IDS
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20


@pytest.mark.parametrize(
    "target, numbers",
    [
        ("E@minion-0000[123] and E@minion-0000[234]", {2, 3}),
        ("E@minion-00001 or E@minion-0000[23]", {1, 2, 3}),
        ("E@minion-0000[1-4] and not E@minion-0000[23]", {1, 4}),
        ("not E@minion-00[1-9].* and not E@minion-000[1-9].", set(range(10))),
        ("( E@minion-00001 or E@minion-00002 ) and not N@few", set()),
        ("N@few or E@minion-00005", {1, 2, 5}),
        ("not ( E@minion-000[1-9]. or E@minion-00[1-9].. ) and N@few", {1, 2}),
        ("E@none or E@minion-00007", {7}),
        ("E@minion-00007 and E@none", set()),
        ("and E@minion-00007", set()),
        ("E@minion-00007 and", set()),
        ("E@minion-00007 E@minion-00007", set()),
        ("operand_0 or E@minion-00007", {7}),
    ],
)
def test_what_matches(check, target, numbers):
    assert check(target) == {f"minion-{number:05}" for number in numbers}
