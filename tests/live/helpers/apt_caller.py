"""Salt without a master, in a process of its own: a JSON line `[function, arguments, keywords]` in, one answer out.

The function `beacon` looks with the beacon that its argument names, once, and returns its events.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import Any

import salt.client
import salt.config
import salt.loader


def main() -> None:
    """Answer until the input ends."""
    # what Salt prints, it prints to the errors
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    caller = salt.client.Caller(mopts=salt.config.minion_config("/etc/salt/minion"))

    def beacon(name: str) -> Any:
        """Look once with a beacon, in its defaults."""
        return salt.loader.beacons(caller.opts, caller.sminion.functions, context={})[f"{name}.beacon"]([])

    for line in sys.stdin:
        function, arguments, keywords = json.loads(line)
        try:
            do = beacon if function == "beacon" else partial(caller.cmd, function)
            found = {"answer": do(*arguments, **keywords)}
        except Exception as error:  # noqa: BLE001 - the test's business
            found = {"raised": f"{type(error).__name__}: {error}"}
        print(json.dumps(found, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
