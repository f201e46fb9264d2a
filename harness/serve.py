"""A bed that stays up until Ctrl-C, to look around in.

`python -m harness up` is this; what a load run measures can be poked at by hand here.
"""

from __future__ import annotations

import shlex
import threading
from typing import TYPE_CHECKING

from harness.bed import Bed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.bed.settings import BedSettings

CHECK_S = 1.0
RAMP_UP_S = 1800.0


def describe(bed: Bed) -> Iterator[str]:
    """Yield lines that say how to use a bed."""
    yield f"master     requests {bed.master.request_port}, publications {bed.master.publish_port}, log {bed.master.log}"
    if bed.settings.api:
        yield f"salt-api   {bed.api.url} user {bed.api.user} password {bed.api.password} eauth {bed.api.eauth}"
    if bed.settings.postgres != "none":
        yield f"PostgreSQL psql {shlex.quote(bed.postgres.dsn)}"
    python_path = shlex.quote(bed.environment["PYTHONPATH"])
    yield f"salt       PYTHONPATH={python_path} {shlex.join([*bed.command('salt'), '*', 'test.ping'])}"


def serve(settings: BedSettings, say: Callable[[str], None] = print, *, fleet: bool = True) -> None:
    """Keep a bed up until Ctrl-C, with its simulated minions unless `fleet` is false; `say` takes lines for the user.

    Raises a HarnessError if the bed does not start, or if one of its services ends; KeyboardInterrupt only while it
    starts: later, Ctrl-C is how a user ends it.
    """
    with Bed(settings) as bed:
        for line in describe(bed):
            say(line)
        if fleet and settings.minions:
            minions = bed.start_fleet()
            status = minions.wait_ready(RAMP_UP_S)
            say(f"fleet      {status.ready:,} minions, samples in {minions.folder.resolve()}")
        say("Ctrl-C ends it.")
        try:
            forever = threading.Event()
            while not forever.wait(CHECK_S):
                bed.check()
        except KeyboardInterrupt:
            say("Stopping.")
    say(f"Everything is stopped; logs and samples are in {settings.folder}.")
