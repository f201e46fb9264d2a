"""The command `behaviours`: list the presets, describe one, check one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from evil_minions.behaviour import example
from evil_minions.behaviour.behaviour import load, names

if TYPE_CHECKING:
    from evil_minions.behaviour.behaviour import Behaviour

EXAMPLE: Final = """\
example (python is build/venv/bin/python, which `nox -s apply` makes):
  python -m evil_minions behaviours
  python -m evil_minions behaviours slow-tail
  python -m evil_minions behaviours --check my.toml

exit codes: 0 as asked, 1 an example of the file doesn't hold, 2 no such behaviour, or one that makes no sense
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    command = commands.add_parser(
        "behaviours",
        help="list behaviours, describe one, check one",
        description="List behaviours, describe one, check one.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("name", nargs="?", help="a preset, or a TOML file")
    command.add_argument("--check", metavar="NAME", help="check a preset or a TOML file, and run its examples")
    command.set_defaults(run=run)


def describe(behaviour: Behaviour) -> str:
    """Return a behaviour for people."""
    lines = [f"{behaviour.name}: {behaviour.description}", f"  file: {behaviour.source}"]
    lines += [f"  {rule.name}: {rule.describe()}" for rule in (*behaviour.rules, *behaviour.timers)]
    if not behaviour.paced:
        lines.append("  starts at once, without the fleet's pace")
    if behaviour.process_count_max:
        lines.append(f"  runs {behaviour.process_count_max} jobs at a time, the others wait in the minion's queue")
    return "\n".join([*lines, *(f"  example: {example.name}" for example in behaviour.examples)])


def run(options: argparse.Namespace) -> int:
    """Carry the command out; return its exit code."""
    if options.check is not None:
        behaviour = load(options.check)
        problems = example.failures(behaviour)
        if problems:
            print("\n".join(problems))
        else:
            count = len(behaviour.examples)
            print(f"{behaviour.name}: {'1 example holds' if count == 1 else f'{count} examples hold'}.")
        return 1 if problems else 0
    if options.name is not None:
        print(describe(load(options.name)))
        return 0
    presets = [load(name) for name in names()]
    width = max(len(behaviour.name) for behaviour in presets)
    print("\n".join(f"{behaviour.name:{width}}  {behaviour.description}" for behaviour in presets))
    return 0
