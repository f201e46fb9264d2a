"""Build the Salt extensions below `salt/extensions/` as wheels, the same bytes each time.

What goes into a wheel depends on the sources, the pinned libraries and the locked setuptools alone: the sources are
copied first, so that neither the modes nor the times of a checkout, nor what earlier builds left, get in.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patches import vendored
from patches.errors import FetchError, ToolError, UsageError

if TYPE_CHECKING:
    from patches.layout import Layout

# the time of all files in a wheel: 1 January 2026
EPOCH = "1767225600"
# what a wheel is made of
PARTS = ("pyproject.toml", "README.md", "LICENSE", "src")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")


@dataclass(frozen=True)
class Wheel:
    """A wheel that was built."""

    name: str
    path: Path
    sha256: str


def names(layout: Layout) -> tuple[str, ...]:
    """Give the folders of the extensions."""
    return tuple(sorted(path.parent.name for path in layout.extensions.glob("*/pyproject.toml")))


def build(layout: Layout, *, offline: bool = False) -> tuple[Wheel, ...]:
    """Build all extensions into `build/wheels/`, in place of what is there.

    :param offline: warn of an extension whose libraries cannot be downloaded, and leave it out.
    :raises UsageError: when there is no environment to build with.
    :raises ToolError: when pip fails.
    :raises FetchError: when a library of an extension cannot be downloaded.
    """
    if not layout.python.exists():
        raise UsageError("There is no environment to build with: run 'nox -s wheels'.")
    layout.wheels.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.wheels.parent) as scratch:
        made = Path(scratch, "wheels")
        made.mkdir()
        built = []
        for name in names(layout):
            try:
                built.append(_build(layout, name, Path(scratch), made))
            except FetchError as error:
                if not offline:
                    raise
                print(f"patches: the extension {name} is left out: {error}", file=sys.stderr)
        shutil.rmtree(layout.wheels, ignore_errors=True)
        made.rename(layout.wheels)
    return tuple(Wheel(one.name, layout.wheels / one.path.name, one.sha256) for one in built)


def _build(layout: Layout, name: str, scratch: Path, made: Path) -> Wheel:
    source = scratch / name
    source.mkdir()
    for part in PARTS:
        origin = layout.extensions / name / part
        if origin.is_dir():
            shutil.copytree(origin, source / part, ignore=LEFT_OUT)
        elif origin.exists():
            shutil.copyfile(origin, source / part)
    vendored.add(layout, layout.extensions / name, source)
    for path in (source, *source.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = set(made.iterdir())
    command = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run = subprocess.run(
        [str(layout.python), *command, "--wheel-dir", str(made), str(source)],
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONWARNINGS": "ignore", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
        # the modes of what setuptools writes get into the wheel
        umask=0o022,
    )
    if run.returncode:
        raise ToolError(f"pip could not build the extension {name}: {(run.stderr or run.stdout).strip()[-2000:]}")
    (path,) = set(made.iterdir()) - before
    path.chmod(0o644)
    return Wheel(name, path, hashlib.sha256(path.read_bytes()).hexdigest())
