"""
What a process imports that only talks to the master.
"""

import subprocess
import sys

import pytest

COMMAND = """
import salt.cli.batch
import salt.cli.salt
import salt.transport.tcp
import salt.transport.ws
import salt.transport.zeromq
"""


def _imported(code, *names):
    """
    Return which of these modules, by default master and minion, a process has that runs
    this code.
    """
    names = names or ("salt.master", "salt.minion")
    code += f"\nimport sys; print(*{set(names)} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_salt_command_does_not_import_master_and_minion():
    assert _imported(COMMAND) == []


def test_runners_state_imports_the_minion():
    """
    It uses salt.minion, also where no other module has imported that.
    """
    assert _imported("import salt.runners.state") == ["salt.minion"]


@pytest.mark.parametrize(
    "name, used",
    (
        ("salt.key", "salt.output"),
        ("salt.states.file", "salt.output"),
        ("salt.runners.manage", "salt.client.ssh.client"),
        ("salt.utils.systemd", "salt.utils.json"),
    ),
)
def test_who_uses_a_module_imports_it(name, used):
    assert _imported(f"import {name}", used) == [used]


@pytest.mark.parametrize(
    "code, used",
    (
        (
            "import salt.key\nsalt.key.KeyCLI._get_args_kwargs(None, lambda: 0)",
            "salt.minion",
        ),
        (
            "import salt.modules.cmdmod as cmd\n"
            "try:\n    cmd._gather_pillar(None, None)\n"
            # there are no grains of a loader
            "except NameError:\n    pass",
            "salt.pillar",
        ),
    ),
)
def test_a_function_imports_what_it_uses(code, used):
    assert _imported(code, used) == [used]
