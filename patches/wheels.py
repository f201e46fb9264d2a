"""Build the Salt extensions below `salt/extensions/` as wheels, the same bytes each time.

What goes into a wheel depends on the sources, the pinned libraries and the locked setuptools alone: the sources are
copied first, so that neither the modes nor the times of a checkout, nor what earlier builds left, get in.

`vendor.toml` beside an extension's `pyproject.toml` lists them. None of them is committed here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patches.errors import FetchError, ToolError, UsageError
from patches.layout import write_atomically

if TYPE_CHECKING:
    from patches.layout import Layout

LIST = "vendor.toml"
REGISTRY = "https://registry.npmjs.org/"
ATTEMPTS = 3
SECONDS = 60


def add(layout: Layout, extension: Path, target: Path) -> None:
    """Put the libraries of an extension into a copy of its sources; do nothing for an extension without any.

    Raises:
        FetchError: when one cannot be downloaded, or when its hash is another.
    """
    wanted = extension / LIST
    if not wanted.exists():
        return
    listed = tomllib.loads(wanted.read_text(encoding="utf-8"))
    folder = target / listed["folder"]
    folder.mkdir(parents=True)
    for package in listed["package"]:
        with tarfile.open(fetch(layout, package)) as archive:
            for name, place in package["files"].items():
                member = archive.extractfile(f"package/{name}")
                if member is None:
                    raise FetchError(f"{package['name']} {package['version']} has no file {name}: correct {LIST}.")
                (folder / place).write_bytes(member.read())


def fetch(layout: Layout, package: dict[str, Any]) -> Path:
    """Return the archive of a package, from the cache or from the registry.

    Raises:
        FetchError: when it cannot be downloaded, or when its hash is another.
    """
    path = layout.build / "npm" / str(package["path"]).rpartition("/")[2]
    if path.exists() and _is_pinned(path.read_bytes(), package):
        return path
    registry = os.environ.get("NPM_CONFIG_REGISTRY", REGISTRY)
    url = f"{registry.rstrip('/')}/{package['path']}"
    if not url.startswith(("https://", "http://")):
        raise FetchError(f"{registry} is no address of an npm registry: correct NPM_CONFIG_REGISTRY.")
    content = _download(url, package)
    if not _is_pinned(content, package):
        raise FetchError(f"{url} has another SHA-512 than {LIST} pins: do not trust this registry.")
    write_atomically(path, content)
    return path


def _download(url: str, package: dict[str, Any]) -> bytes:
    """Return what the registry has at `url`; a failed attempt is repeated."""
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as response:  # noqa: S310 - the scheme is checked
                return bytes(response.read())
        except (OSError, urllib.error.URLError) as error:
            reason = str(error)
    raise FetchError(
        f"{package['name']} {package['version']} could not be downloaded from {url} ({reason}): set https_proxy or "
        "NPM_CONFIG_REGISTRY if this machine needs them."
    )


def _is_pinned(content: bytes, package: dict[str, Any]) -> bool:
    return hashlib.sha512(content).hexdigest() == str(package["sha512"])


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
    """Return the folders of the extensions."""
    return tuple(sorted(path.parent.name for path in layout.extensions.glob("*/pyproject.toml")))


def build(layout: Layout, *, offline: bool = False) -> tuple[Wheel, ...]:
    """Build all extensions into `build/wheels/`, in place of what is there.

    Args:
        offline: warn of an extension whose libraries cannot be downloaded, and leave it out.

    Raises:
        UsageError: when there is no environment to build with.
        ToolError: when pip fails.
        FetchError: when a library of an extension cannot be downloaded.
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
    add(layout, layout.extensions / name, source)
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
