"""The command `record`: record the answers of a real minion."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Final

EXAMPLE: Final = """\
example (python is build/venv/bin/python, which `nox -s apply` makes), on the minion's master:
  python -m evil_minions record --minion web1 --output web1.json --jobs 5

exit codes: 0 as asked, 2 options that can't be used
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    record = commands.add_parser(
        "record",
        help="record the answers of a real minion, on its master",
        description="Record the answers of a real minion, on its master.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    record.add_argument("--minion", required=True, help="id of a real minion of the master that runs here")
    record.add_argument("--output", type=Path, required=True, help="the recording to write")
    record.add_argument("--config", type=Path, default=Path("/etc/salt/master"), help="the master's configuration")
    record.add_argument("--jobs", type=int, help="end after this many returns (default: Ctrl-C ends)")
    record.add_argument("--seconds", type=float, help="end after so long")
    record.add_argument(
        "--public", action="append", default=[], metavar="PATH", help="part of the pillar that is no secret: 'roles:*'"
    )
    record.add_argument("--json", action="store_true", help="print what was recorded as JSON")
    record.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Record a real minion."""
    # Salt's client, pillar and file server would cost every fleet 30 MB
    recorder = importlib.import_module("evil_minions.recording.record")
    recording = recorder.record(
        options.config,
        options.minion,
        options.output,
        jobs=options.jobs,
        seconds=options.seconds,
        public=options.public,
    )
    answers, events = len(recording.answers), len(recording.events)
    if options.json:
        print(json.dumps({"minion": recording.minion, "answers": answers, "events": events}))
    else:
        print(f"{options.output}: {answers} answers and {events} further events of {recording.minion}.")
