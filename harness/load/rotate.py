"""Has a master rotate its publication key: a program for the Python of a Salt tree.

`python -m harness.load.rotate CONFIG_FOLDER SECONDS` leaves the drop file by which Salt's own commands ask for it
(`salt.crypt.dropfile`) and waits until the master's maintenance, which looks once every `loop_interval` seconds, has
taken it. The exit code is 1 if it has not after SECONDS.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import StartError
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Ask for a rotation and wait for it."""
    import salt.config  # noqa: PLC0415  # only this program's process may load Salt
    import salt.crypt  # noqa: PLC0415  # likewise

    options = salt.config.master_config(str(Path(argv[0]) / "master"))
    seconds = float(argv[1])
    salt.crypt.dropfile(options["cachedir"], options["user"], options["id"])
    asked = Path(options["cachedir"], ".dfn")
    deadline = Deadline(seconds)
    try:
        until(
            lambda: not asked.exists(),
            deadline,
            lambda: f"the master has not rotated its key after {deadline.waited()}: give it a shorter `loop_interval`",
            time.sleep,
        )
    except StartError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
