"""The simulated shell behind cmd.run."""

from __future__ import annotations

import pytest

from evil_minions.functions.modules.cmd import NOT_FOUND, Printed, execute
from harness.scenarios import scenario as scenarios


@pytest.mark.parametrize(
    ("shell", "text"),
    [("/bin/bash", "/bin/bash: line 1: no_such: command not found"), ("/bin/sh", "/bin/sh: 1: no_such: not found")],
)
def test_unknown_command(shell: str, text: str) -> None:
    """A command that isn't there is answered in the words of the minion's shell."""
    assert execute("no_such a", {"shell": shell}) == Printed(text, NOT_FOUND)


@pytest.mark.parametrize("name", scenarios.names())
def test_scenarios_run_known_commands(name: str) -> None:
    """Every command that a scenario of ours runs is one that the simulated shell has: a failing one is no answer."""
    commands = [
        clients.args for clients in scenarios.load(scenarios.find(name)).clients if clients.function == "cmd.run"
    ]
    assert [execute(str(args[0]), {}).code for args in commands] == [0] * len(commands)
