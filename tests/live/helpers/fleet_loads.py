"""Publish a job and print every return as its minion sent it: `loads.py MASTER_CONFIG JOB`, JOB in JSON.

A script of its own, so that it runs on the Salt of the bed. JOB has `tgt`, `tgt_type`, `fun`, `arg` and optionally
`kwarg`, `metadata`, `after`: a second job to publish once the first has run for a second, whose returns are wanted,
`watch`: a glob of tags whose events are wanted too, `seconds`: how long to wait for all, and `quiet`: the seconds
without a return after which those that still lack are not waited for, as a master expects some targets of minions that
have ended, and `wanted`: minions that are waited for all the same, such as may have to sign in anew first.
"""

from __future__ import annotations

import fnmatch
import json
import sys
import time
from typing import Any

import salt.client
import salt.config

SECONDS = 60.0


def publish(client: salt.client.LocalClient, job: dict[str, Any]) -> dict[str, Any]:
    """Publish a job; return its id and minions."""
    extra = {name: job[name] for name in ("metadata", "start_event") if name in job}
    return dict(
        client.run_job(
            job["tgt"],
            job["fun"],
            arg=job["arg"],
            tgt_type=job["tgt_type"],
            kwarg=job.get("kwarg"),
            listen=True,
            **extra,
        )
    )


def main() -> None:
    """Print a JSON object of returns by minion."""
    job = json.loads(sys.argv[2])
    client = salt.client.LocalClient(c_path=sys.argv[1])
    published = publish(client, job)
    if "after" in job:
        time.sleep(1.0)
        published = publish(client, {**job, **job["after"]})
    deadline = time.monotonic() + job.get("seconds", SECONDS)
    loads: dict[str, Any] = {}
    watched: list[dict[str, Any]] = []
    heard = time.monotonic()
    while set(loads) < set(published["minions"]) and time.monotonic() < deadline:
        tag = f"salt/job/{published['jid']}/ret/"
        event = client.event.get_event(wait=1, full=True, auto_reconnect=True)
        here = set(loads) >= set(job.get("wanted", ()))
        if loads and here and time.monotonic() - heard > job.get("quiet", SECONDS):
            break
        if event is None:
            continue
        if fnmatch.fnmatchcase(event["tag"], job.get("watch", "")):
            watched.append(event)
        if event["tag"].startswith(tag):
            loads[event["data"]["id"]] = event["data"]
            heard = time.monotonic()
    print(json.dumps({"jid": published["jid"], "loads": loads, "watched": watched}))


if __name__ == "__main__":
    main()
