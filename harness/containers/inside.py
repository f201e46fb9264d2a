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
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.containers import roles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.containers.roles import Action


class Answers:
    """Writes answers, a line each, whichever thread they come from."""

    def __init__(self, output: BinaryIO) -> None:
        """Write to `output`."""
        self._output = output
        self._lock = threading.Lock()

    def send(self, number: int, answer: Mapping[str, Any]) -> None:
        """Write the answer to the request of this number."""
        with self._lock:
            self._output.write(json.dumps({"number": number, **answer}).encode() + b"\n")
            self._output.flush()


def serve(requests: BinaryIO, answers: Answers) -> int:
    """Take the role that the first request names, answer the others, and return the exit code at their end."""
    line = requests.readline()
    if not line:
        return 0
    first = json.loads(line)
    with ExitStack() as stack:
        try:
            facts, actions = roles.ROLES[first["role"]](first, stack)
        except Exception as error:  # noqa: BLE001 - the harness gets any error as its answer
            answers.send(first["number"], {"error": str(error) or type(error).__name__})
            # keep the container until the harness has fetched the logs and closes the line
            requests.read()
            return 1
        actions = {"clock": lambda _: {"time": time.time()}, **actions}
        answers.send(first["number"], facts)
        for line in requests:
            request = json.loads(line)
            action = actions[request["do"]]
            threading.Thread(target=_answer, args=(action, request, answers), daemon=True).start()
    return 0


def _answer(action: Action, request: dict[str, Any], answers: Answers) -> None:
    try:
        answer = action(request)
    except Exception as error:  # noqa: BLE001 - as above
        answer = {"error": str(error) or type(error).__name__}
    answers.send(request["number"], answer)


def main() -> int:
    """Serve standard input."""
    # standard output is for answers: what a library prints goes to standard error
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return serve(sys.stdin.buffer, Answers(output))
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
