"""The program in each container of a bed: `python -m harness.containers.inside`.

The first line on standard input names the role (see `harness.containers.roles`), the others are requests; each is
answered by a line on standard output, when it is done. The end of the input ends the container, as the harness has
gone. Whatever else is printed goes to standard error, the container's log.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from evil_minions import decode, encode
from harness.containers import roles

if TYPE_CHECKING:
    from harness.containers.roles import Action


Send = Callable[[int, dict[str, Any]], None]
# of a file in one answer
CHUNK = 4 * 2**20


def sender(output: BinaryIO) -> Send:
    """Return what writes the answer to the request of a number, whichever thread calls it."""
    lock = threading.Lock()

    def send(number: int, answer: dict[str, Any]) -> None:
        with lock:
            output.write(encode({"number": number, **answer}))
            output.flush()

    return send


def serve(requests: BinaryIO, send: Send) -> int:
    """Take the role that the first request names, answer the others, and return the exit code at their end."""
    line = requests.readline()
    if not line:
        return 0
    first = decode(line)
    actions: dict[str, Action] = {"clock": lambda _: {"time": time.time()}, "files": _files, "read": _read}
    # also while the role starts, or if it does not: the harness fetches the logs then
    reader = threading.Thread(target=_answer_all, args=(requests, actions, send), daemon=True)
    reader.start()
    with ExitStack() as stack:
        try:
            facts, more = roles.ROLES[first["role"]](first, stack)
            actions |= more
        except Exception as error:  # noqa: BLE001 - the harness gets any error as its answer
            facts = {"error": str(error) or type(error).__name__}
        send(first["number"], facts)
        reader.join()
    return int("error" in facts)


def _answer_all(requests: BinaryIO, actions: Mapping[str, Action], send: Send) -> None:
    for line in requests:
        request = decode(line)
        threading.Thread(target=_answer, args=(actions[request["do"]], request, send), daemon=True).start()


def _files(request: dict[str, Any]) -> dict[str, Any]:
    """Return the names of all files below a folder."""
    folder = Path(request["path"])
    return {"files": [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]}


def _read(request: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a file, which is empty at its end."""
    with Path(request["path"]).open("rb") as file:
        file.seek(request["offset"])
        return {"data": base64.b64encode(file.read(CHUNK)).decode()}


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
