"""The command line: `python -m evil_minions COMMAND`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

try:
    from evil_minions import pipe
    from evil_minions.errors import EvilMinionsError
    from evil_minions.fleet import commands
except ModuleNotFoundError as error:
    if str(error.name).startswith("evil_minions"):
        raise
    missing = f"{error.name} is missing: run `nox -s apply` first, then build/venv/bin/python -m evil_minions."
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMPLE: Final = """\
example (python is build/venv/bin/python, which `nox -s apply` makes):
  python -m evil_minions run --master 127.0.0.1 --request-port 4506 --minions 1000 --folder /tmp/fleet
  python -m evil_minions status --folder /tmp/fleet
  python -m evil_minions stop --folder /tmp/fleet
  python -m evil_minions record --minion web1 --output web1.json --jobs 5
  python -m evil_minions run --recording web1.json --master 127.0.0.1 --minions 1000 --folder /tmp/fleet

exit codes: 0 as asked, 1 the fleet failed, 2 options that can't be used, 3 not ready in time,
            141 the reader of the output has ended
"""

# keys, samples and recordings are for no other user of the machine
_PRIVATE: Final = 0o077


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m evil_minions",
        description="Simulated Salt minions for a real master.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    added = top.add_subparsers(dest="command", required=True)
    for add in (commands.add_run, commands.add_record, commands.add_control, commands.add_behaviours):
        add(added)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = parser().parse_args(arguments)
    try:
        # a command that has no exit code of its own ends with 0
        return options.run(options) or 0
    except EvilMinionsError as error:
        print(f"evil_minions: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    os.umask(_PRIVATE)
    sys.exit(pipe.run(main))
