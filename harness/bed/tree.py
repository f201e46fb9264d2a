"""A Salt tree: the commands of one version of Salt, and the environment that they run in.

Every Salt process of a bed runs from the tree's own scripts with the tree first in Python's search path, so that stock
and patched Salt share one virtual environment. A Salt of another release brings its own environment, with everything
that it depends on in the versions that it wants.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Compiled modules halve the start of each of Salt's commands. They are kept out of the trees, whose content is checked.
COMPILED = ROOT / "build" / "pycache"
# a caller's Salt must not leak into the bed, nor what would change how Python behaves there
DROPPED = ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONWARNINGS", "SALT_MASTER_CONFIG", "SALT_MINION_CONFIG")
# systemd gives a service these folders, and an ordinary user's shell does not: Salt calls ip, service and others there
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Tree:
    """One version of Salt.

    `path` is a folder that holds the package `salt` and the folder `scripts`, or a virtual environment with Salt in it.
    """

    path: Path

    def found(self) -> bool:
        """Say whether there is a Salt."""
        return self.is_source() or self._installed()

    def is_source(self) -> bool:
        """Say whether it is a folder with the package and the scripts, which needs an environment from elsewhere."""
        return (self.path / "scripts" / "salt-master").is_file()

    def _installed(self) -> bool:
        """Say whether this is an environment of its own."""
        return (self.path / "bin" / "salt-master").is_file()

    def python(self) -> str:
        """Return the path of the Python that can import this Salt."""
        return str(self.path.absolute() / "bin" / "python") if self._installed() else sys.executable

    def command(self, name: str, config_dir: Path) -> list[str]:
        """Return the start of a command line; `name` is one of Salt's, such as salt, salt-run or salt-master."""
        if self._installed():
            return [str(self.path.absolute() / "bin" / name), f"--config-dir={config_dir}"]
        return [sys.executable, str(self.path.absolute() / "scripts" / name), f"--config-dir={config_dir}"]

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return `environment` changed so that Python finds this tree's Salt, no other, and Salt the system's tools."""
        kept = {name: value for name, value in environment.items() if name not in DROPPED}
        kept |= {"PYTHONPYCACHEPREFIX": str(COMPILED), "PYTHONUNBUFFERED": "1", "PATH": _with_sbin(environment)}
        # the fault handler lets a process that does not start tell its stack, see harness.processes.process
        kept["PYTHONFAULTHANDLER"] = "1"
        if self._installed():
            kept.pop("PYTHONPATH", None)
            return kept
        return kept | {"PYTHONPATH": str(self.path.absolute())}


def _with_sbin(environment: Mapping[str, str]) -> str:
    """Return the PATH of an environment, with the folders of the system's tools last unless they are there."""
    path = environment.get("PATH", os.defpath)
    missing = [folder for folder in SBIN if folder not in path.split(os.pathsep)]
    return os.pathsep.join([path, *missing])
