"""A bed that stays up until Ctrl-C, to look around in.

`python -m harness up` is this; what a load run measures can be poked at by hand here.
"""

from __future__ import annotations

import json
import shlex
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.bed import Bed
from harness.choices import WITHOUT_API
from harness.paths import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.bed.settings import BedSettings

CHECK_S = 1.0
RAMP_UP_S = 1800.0
FORMAT = 2
# of the temporary folder; the second is PostgreSQL's own kind of file
PASSWORD, PASSFILE = "api.password", "pgpass"
# the output may go to a file that somebody reads while the bed is up
SAY = partial(print, flush=True)


def describe(bed: Bed) -> Iterator[str]:
    """Yield lines that say how to use a bed."""
    ports = f"requests {bed.master.request_port}, publications {bed.master.publish_port}"
    yield f"master     {ports}, accepts minions by {bed.master.word_file}, log {bed.master.log}"
    if bed.settings.api:
        user = f"user {bed.api.user} eauth {bed.api.eauth} password in {bed.temporary / PASSWORD}"
        yield f"salt-api   {bed.api.url} {user}"
    elif bed.settings.transport in WITHOUT_API:
        yield f"salt-api   none, as it does not work over {bed.settings.transport}"
    if bed.settings.postgres != "none":
        yield f"PostgreSQL PGPASSFILE={bed.temporary / PASSFILE} psql {shlex.quote(bed.postgres.address)}"
    # a Salt with an environment of its own needs no path
    path = bed.environment.get("PYTHONPATH")
    variable = f"PYTHONPATH={shlex.quote(path)} " if path else ""
    yield f"salt       {variable}{shlex.join([*bed.command('salt'), '*', 'test.ping'])}"


def facts(bed: Bed) -> dict[str, Any]:
    """Return what `describe` says, for a program; without a salt-api or a PostgreSQL these are missing."""
    master = {name: getattr(bed.master, name) for name in ("request_port", "publish_port")}
    found: dict[str, Any] = {"format": FORMAT, "master": {**master, "log": str(bed.master.log)}}
    found["master"]["word_file"] = str(bed.master.word_file)
    if bed.settings.api:
        found["api"] = {name: getattr(bed.api, name) for name in ("url", "user", "eauth")}
        found["api"]["password_file"] = str(bed.temporary / PASSWORD)
    if bed.settings.postgres != "none":
        found["postgresql"] = f"{bed.postgres.address} passfile={bed.temporary / PASSFILE}"
    found["salt"] = {"PYTHONPATH": bed.environment.get("PYTHONPATH"), "command": bed.command("salt")}
    return found


def _keep(bed: Bed) -> None:
    """Write the passwords into files of the temporary folder: output may go to a log that others read."""
    if bed.settings.api:
        write_private(bed.temporary / PASSWORD, f"{bed.api.password}\n")
    if bed.settings.postgres != "none":
        write_private(bed.temporary / PASSFILE, bed.postgres.passfile)


def serve(settings: BedSettings, say: Callable[[str], None] = SAY, *, as_json: bool = False) -> None:
    """Keep a bed up until Ctrl-C, with its simulated minions; `say` takes lines for the user.

    With `as_json` there is one line only, an object with the `facts` and the fleet, when all is ready.
    Raises a HarnessError if the bed does not start, or if one of its services ends; KeyboardInterrupt only while it
    starts: later, Ctrl-C is how a user ends it.
    """
    tell: Callable[[str], None] = (lambda _: None) if as_json else say
    with Bed(settings) as bed:
        _keep(bed)
        for line in describe(bed):
            tell(line)
        found = facts(bed) if as_json else {}
        if settings.minions:
            minions = bed.start_fleet()
            status = minions.wait_ready(RAMP_UP_S)
            tell(f"fleet      {status.ready:,} minions, samples in {minions.folder.resolve()}")
            found["fleet"] = {"minions": status.ready, "samples": str(minions.folder.resolve())}
        try:
            # a program that reads this line may end the bed at once
            if as_json:
                say(json.dumps(found))
            tell("Ctrl-C ends it.")
            forever = threading.Event()
            while not forever.wait(CHECK_S):
                bed.check()
        except KeyboardInterrupt:
            tell("Stopping.")
    tell(f"Everything is stopped; logs and samples are in {settings.folder}.")
