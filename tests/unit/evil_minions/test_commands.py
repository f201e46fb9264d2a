"""The help of the fleet's command line."""

from __future__ import annotations

import argparse

import pytest

from evil_minions.__main__ import parser

COMMANDS = next(action.choices for action in parser()._actions if isinstance(action, argparse._SubParsersAction))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_fleet_command_says_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each command has its description, and the Python that the examples mean."""
    with pytest.raises(SystemExit):
        parser().parse_args([command, "--help"])
    text = capsys.readouterr().out
    description = text.split("\n\n")[1]
    assert description[0].isupper()
    assert description.endswith(".")
    assert "build/venv/bin/python" in text
