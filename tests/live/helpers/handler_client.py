"""A client of a bed's master, as a process of its own: `handler_client.py MASTER_CONFIG`.

It runs on the Salt of the bed, takes one request a line as JSON on standard input, and answers with one line each. A
request is `{"do": "async" | "cmd" | "call" | "ask" | "fire", ...}`; an exception of Salt's is answered as
`{"raised": name, ...}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import salt.client
import salt.exceptions


def answer(client: salt.client.LocalClient, do: str, **request: Any) -> Any:
    """Return what comes of a request."""
    if do == "ask":
        # which stock Salt does not have
        from salt.job_handler import control  # noqa: PLC0415 - stock Salt has none

        return control.ask_sync(client.opts, request)
    if do == "fire":
        return client.event.fire_event(request["data"], request["tag"])
    if do == "call":
        return call(client, **request)
    if do == "async":
        count = request.pop("count")
        return [str(client.cmd_async(**request)) for _ in range(count)]
    return client.cmd(**request)


def call(client: salt.client.LocalClient, method: str, **request: Any) -> dict[str, Any]:
    """Return what a method of LocalClient returns, as one dictionary."""
    if method == "run_job":
        data = client.run_job(**request, listen=True)
        found = client.get_iter_returns(data["jid"], set(data["minions"]), request["timeout"])
        return {name: row for rows in found for name, row in (rows or {}).items()}
    found = getattr(client, method)(**request)
    return found if isinstance(found, dict) else {name: row for rows in found for name, row in rows.items()}


def main() -> None:
    """Answer requests until there are no more."""
    client = salt.client.LocalClient(c_path=sys.argv[1])
    # what Salt prints must not end up between the answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = {"answer": answer(client, **json.loads(line))}
        # the second one: the master has gone in the midst of an answer
        except (salt.exceptions.SaltException, OSError) as error:
            found = {
                "raised": type(error).__name__,
                "message": str(error),
                "retry_after": getattr(error, "retry_after", None),
            }
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
