"""
What a process imports that only talks to the master.
"""

import subprocess
import sys

import pytest

CLIENT = """
import sys
import salt.client
import salt.transport.tcp
import salt.transport.ws
import salt.transport.zeromq
print(*(name for name in ("salt.master", "salt.minion") if name in sys.modules))
"""


def test_clients_do_not_import_master_and_minion():
    done = subprocess.run(
        [sys.executable, "-c", CLIENT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", ["salt.runners.state", "salt.utils.reactor"])
def test_those_that_need_the_minion_import_it(name):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import {name}, sys; print('salt.minion' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "True"
