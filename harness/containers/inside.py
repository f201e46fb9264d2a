"""The program in each container of a bed: `python -m harness.containers.inside`.

The first line on standard input names the role (see `harness.containers.roles`), the others are requests; each is
answered by a line on standard output, when it is done. The end of the input ends the container, as the harness has
gone. Whatever else is printed goes to standard error, the container's log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.containers import roles

if TYPE_CHECKING:
    from harness.containers.roles import Action


Send = Callable[[int, dict[str, Any]], None]


def sender(output: BinaryIO) -> Send:
    """Return what writes the answer to the request of a number, whichever thread calls it."""
    lock = threading.Lock()

    def send(number: int, answer: dict[str, Any]) -> None:
        with lock:
            output.write(json.dumps({"number": number, **answer}).encode() + b"\n")
            output.flush()

    return send


def serve(requests: BinaryIO, send: Send) -> int:
    """Take the role that the first request names, answer the others, and return the exit code at their end."""
    line = requests.readline()
    if not line:
        return 0
    first = json.loads(line)
    with ExitStack() as stack:
        try:
            facts, actions = roles.ROLES[first["role"]](first, stack)
        except Exception as error:  # noqa: BLE001 - the harness gets any error as its answer
            send(first["number"], {"error": str(error) or type(error).__name__})
            # keep the container until the harness has fetched the logs and closes the line
            requests.read()
            return 1
        actions = {"clock": lambda _: {"time": time.time()}, **actions}
        send(first["number"], facts)
        for line in requests:
            request = json.loads(line)
            action = actions[request["do"]]
            threading.Thread(target=_answer, args=(action, request, send), daemon=True).start()
    return 0


def _answer(action: Action, request: dict[str, Any], send: Send) -> None:
    try:
        answer = action(request)
    except Exception as error:  # noqa: BLE001 - as above
        answer = {"error": str(error) or type(error).__name__}
    send(request["number"], answer)


def main() -> int:
    """Serve standard input."""
    # standard output is for answers: what a library prints goes to standard error
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return serve(sys.stdin.buffer, sender(output))
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
