"""Salt without a master, in a process of its own: a JSON line `[function, arguments, keywords]` in, one answer out."""

from __future__ import annotations

import json
import os
import sys

import salt.client
import salt.config


def main() -> None:
    """Answer until the input ends."""
    # what Salt prints, it prints to the errors
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    caller = salt.client.Caller(mopts=salt.config.minion_config("/etc/salt/minion"))
    for line in sys.stdin:
        function, arguments, keywords = json.loads(line)
        try:
            found = {"answer": caller.cmd(function, *arguments, **keywords)}
        except Exception as error:  # noqa: BLE001 - the test's business
            found = {"raised": f"{type(error).__name__}: {error}"}
        print(json.dumps(found, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
