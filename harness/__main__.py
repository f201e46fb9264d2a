"""`python -m harness`: load runs, their results and reports, and a bed to try things in.

Exit codes: 0 all is well; 1 a threshold of the scenario was missed, or a result does not agree with its samples; 2
wrong use or settings; 3 the bed or the run failed; 130 interrupted; 141 nobody reads the output any more.
"""

from __future__ import annotations

from harness import interrupt

if __name__ == "__main__":
    interrupt.before()

import os
import sys
from typing import TYPE_CHECKING

try:
    from evil_minions import pipe
    from harness.commands import parser
    from harness.errors import HarnessError
    from harness.paths import PRIVATE
except ModuleNotFoundError as error:
    if str(error.name).startswith("harness"):
        raise
    missing = f"{error.name} is missing: run `nox -s apply` first, then build/venv/bin/python -m harness."
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one line on standard error."""
    words = sys.argv[1:] if argv is None else argv
    options = parser().parse_args(words)
    options.words = words
    do: Callable[[argparse.Namespace], int] = options.do
    with interrupt.during():
        return _guarded(do, options)


def _guarded(do: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command; whatever goes wrong is one line on standard error and an exit code."""
    try:
        return do(options)
    except KeyboardInterrupt:
        print("Interrupted: everything that was started has been stopped.", file=sys.stderr)
        return interrupt.CODE
    except HarnessError as error:
        if options.debug:
            raise
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception as error:  # a user gets a sentence for whatever goes wrong, the fleet's own errors included
        if options.debug or (isinstance(error, BrokenPipeError) and pipe.unread()):
            raise
        print(f"{error} ({type(error).__name__}; --debug shows where)", file=sys.stderr)
        return HarnessError.exit_code


if __name__ == "__main__":
    os.umask(PRIVATE)
    sys.exit(pipe.run(main))
