"""Facts of the machine and the software of a run: without them two runs can't be compared."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
from typing import TYPE_CHECKING, Any

import psutil

from harness.paths import ROOT
from harness.results import trees as known

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 1
_LIBRARIES = ("locust", "pyzmq", "msgpack", "psycopg2-binary")


def facts(trees: Mapping[str, Path]) -> dict[str, Any]:
    """Return the facts of this machine, of the libraries and of `trees` (name: folder), and the project's commit."""
    content = known.facts(trees)
    edited = any(tree["edited"] for tree in content.values())
    return {
        "format": FORMAT,
        "machine": {
            "processor": _processor(),
            "cores": psutil.cpu_count() or 1,
            "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
            "distribution": _distribution(),
            "load_average_at_start": round(os.getloadavg()[0], 2),
        },
        "versions": {
            "python": platform.python_version(),
            **{f"salt_{name}": salt_version(folder) for name, folder in trees.items()},
            **{name: _version(name) for name in _LIBRARIES},
        },
        # git ignores upstream's files, so edits of the patched tree are asked for
        "git": {
            "commit": _git("rev-parse", "HEAD"),
            "uncommitted_changes": edited or bool(_git("status", "--porcelain")),
        },
        "trees": content,
    }


def cores(folder: Path) -> int:
    """Return the cores of the machine of the run in `folder`, 1 if nobody noted them."""
    try:
        found = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        return int(found["machine"]["cores"])
    except (OSError, ValueError, LookupError, TypeError):
        return 1


def salt_version(folder: Path) -> str:
    """Return the version of the Salt in `folder`, a source distribution or an environment, "unknown" if none says."""
    installed = folder.glob("lib/python*/site-packages/salt-*.dist-info/METADATA")
    try:
        text = next(installed, folder / "PKG-INFO").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    found = re.search(r"^Version: (\S+)$", text, re.MULTILINE)
    return found.group(1) if found else "unknown"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123  # no path that anybody would change
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _git(*arguments: str) -> str:
    """Return what git says of the project, "" where there is no git or no repository."""
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
