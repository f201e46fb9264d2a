"""Workers of other hosts that share in a load, as its user asks for them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import SettingsError
from harness.load.wire import PORT, address_of
from harness.paths import write_private
from harness.scenarios.clients import OVER_API

if TYPE_CHECKING:
    import argparse

    from harness.scenarios.scenario import Scenario

NAMES = ("remote_workers", "workers_address", "workers_key_file")
KEY_FILE = "workers.key"


@dataclass(frozen=True)
class Remote:
    """Workers of other hosts: how many, where they find the bed, and the word that lets them in.

    The word is in a file, as everybody can read the command lines of a machine's processes. Unless its user chooses
    one, it comes with the folder of the run.
    """

    workers: int
    address: str
    port: int = PORT
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    key_file: Path | None = None

    @property
    def told(self) -> str:
        """Return what has to be done on the other hosts."""
        several = "s" if self.workers > 1 else ""
        return (
            f"{self.workers} worker{several} of other hosts may join. On each, in a checkout of the same version, "
            f"with a copy of {self.key_file}: "
            f"build/venv/bin/python -m harness worker {self.address}:{self.port} --key-file {KEY_FILE}"
        )

    def with_file(self, folder: Path) -> Remote:
        """Return the same with a file that holds the word, which is written into `folder` unless there is one."""
        if self.key_file:
            return self
        write_private(folder / KEY_FILE, f"{self.key}\n")
        return replace(self, key_file=folder / KEY_FILE)

    def check(self, scenario: Scenario) -> None:
        """Raise SettingsError if a scenario has clients that can be at work on the master's machine only."""
        names = [f"`{clients.name}` ({clients.kind})" for clients in scenario.clients if clients.kind not in OVER_API]
        if names:
            raise SettingsError(
                f"Workers of other hosts reach salt-api only, and the clients {', '.join(names)} run Salt's own "
                "commands: leave them out of the scenario, or --remote-workers."
            )


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group("workers of other hosts (docs/load-reference.md)")
    group.add_argument(
        "--remote-workers", type=int, metavar="N", help="workers of other hosts that send a part of the requests too"
    )
    group.add_argument(
        "--workers-address", metavar="IP[:PORT]", help=f"where they reach this machine (default port: {PORT})"
    )
    group.add_argument(
        "--workers-key-file",
        type=Path,
        metavar="FILE",
        help=f"file with their key (default: {KEY_FILE} in the run's folder, with a new key)",
    )


def settings(options: argparse.Namespace) -> Remote | None:
    """Return which workers of other hosts are asked for, None for none.

    Raises SettingsError for options that need others, or a number that makes no sense.
    """
    given = [name for name in NAMES if getattr(options, name) is not None]
    if not given:
        return None
    if options.remote_workers is None or options.workers_address is None:
        raise SettingsError("--remote-workers and --workers-address belong together: give both.")
    if options.remote_workers < 1:
        raise SettingsError("--remote-workers has to be at least 1.")
    if options.docker:
        raise SettingsError("--remote-workers and --docker exclude each other: leave one out.")
    host, port = address_of(options.workers_address)
    if options.workers_key_file is None:
        return Remote(options.remote_workers, host, port)
    return Remote(options.remote_workers, host, port, read_key(options.workers_key_file), options.workers_key_file)


def read_key(file: Path) -> str:
    """Return the word in a file. Raises SettingsError if there is none."""
    try:
        word = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The key of the workers can't be read: {error}; give another file.") from error
    if not word:
        raise SettingsError(f"{file} is empty: write a word into it that nobody can guess.")
    return word


def words(options: argparse.Namespace) -> list[str]:
    """Return these options as words of a command line; a new key is another one the next time."""
    found = []
    for name in NAMES:
        if getattr(options, name) is not None:
            found += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return found
