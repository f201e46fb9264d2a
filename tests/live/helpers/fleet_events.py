"""Print the master's events as JSON lines, and publish the jobs that come in: `events.py MASTER_CONFIG`.

A script of its own, so that it runs on the Salt of the bed. Each line on stdin is a job as JSON: `name`, `tgt`,
`tgt_type`, `fun`, `arg`; it is answered by a line with that name and the job's id. Long values are printed as length.
`keys` has the names of everything in an event.
"""

from __future__ import annotations

import json
import os
import selectors
import sys
from typing import Any

import salt.client
import salt.config
import salt.utils.event

WAIT = 0.1
LONG = 1000


def short(value: object) -> object:
    """Return a value, or the length of a long text."""
    return len(value) if isinstance(value, str) and len(value) > LONG else value


def main() -> None:
    """Go on until stdin ends."""
    client = salt.client.LocalClient(c_path=sys.argv[1])
    opts = salt.config.client_config(sys.argv[1])
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    buffer = b""

    def say(**line: Any) -> None:
        print(json.dumps(line, default=str), flush=True)

    with salt.utils.event.get_event("master", opts=opts, listen=True) as bus:
        say(tag="listening")
        while True:
            event = bus.get_event(wait=WAIT, full=True, auto_reconnect=True)
            if event is not None:
                data = event["data"]
                found = {key: short(data.get(key)) for key in ("id", "jid", "fun", "return", "act", "result")}
                say(tag=event["tag"], keys=sorted(data), **found)
            if not selector.select(0):
                continue
            more = os.read(sys.stdin.fileno(), 65536)
            if not more:
                return
            *lines, buffer = (buffer + more).split(b"\n")
            for line in lines:
                job = json.loads(line)
                name = job.pop("name")
                say(tag="published", name=name, jid=client.run_job(listen=False, **job)["jid"])


if __name__ == "__main__":
    main()
