"""`python -m harness.zoo`: run bugs of the zoo on releases of Salt.

Exit codes: 0 no bug was found; 1 one was found, or runs disagree; 2 wrong use; 3 a check failed; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.zoo import bugs, table

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="nox -s zoo --",
        description="Run bugs of Salt under load, each on several releases.",
        epilog="example:\n  nox -s zoo -- 61656 --salt 3008.5,patched\n\n" + str(__doc__).partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("numbers", nargs="*", metavar="NUMBER", help="of an issue of Salt (default: all)")
    made.add_argument(
        "--salt",
        default="",
        help=f"releases or patched, with commas between them (default: {','.join(table.USUAL)}, and for some bugs "
        "a release that has it)",
    )
    made.add_argument("--repeat", type=int, default=1, metavar="N", help="how often each is run (default: 1)")
    made.add_argument("--record", action="store_true", help="put the runs into docs/evidence and docs/zoo.md")
    made.add_argument("--list", action="store_true", help="list the bugs, and run nothing")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; an error is a line on standard error."""
    options = parser().parse_args(argv)
    try:
        return _run(options)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    listed = [bugs.load(number) for number in options.numbers or bugs.numbers()]
    if options.list:
        for bug in listed:
            print(f"#{bug.number}: {bug.title}. Counted: {bug.counts}.")
        return 0
    code = 0
    for bug in listed:
        for salt in options.salt.split(",") if options.salt else (*table.USUAL, *bug.also):
            outcomes = [bugs.run(bug, salt, os.environ) for _ in range(max(1, options.repeat))]
            states = [one.state for one in outcomes]
            if options.record:
                table.record(bug.number, salt, outcomes)
            if options.json:
                longest = max(one.seconds for one in outcomes)
                found = {"states": states, "found": outcomes[-1].found, "seconds": longest}
                print(json.dumps({"bug": bug.number, "salt": salt, **found}), flush=True)
            else:
                told = "".join(f"\n  {sentence}" for sentence in outcomes[-1].found)
                print(f"#{bug.number} on {salt}: {', '.join(states)}{told}", flush=True)
            if bugs.WRONG in states or len(set(states)) > 1:
                code = 1
    if options.record:
        table.write()
    return code


if __name__ == "__main__":
    sys.exit(main())
