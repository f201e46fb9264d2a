"""Salt as others have it: a release out of the package index, in an environment of its own, with extensions or not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.bed.settings import install, release

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RELEASES", "install", "newer_wheel", "release", "wheels", "with_extensions"]

#: The newest release of each line that fleets run, oldest first; the last one is the base of the patches.
RELEASES = ("3006.30", "3007.17", "3008.5")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")


def wheels(root: Path, folder: Path) -> list[Path]:
    """Build the extensions, and return copies of them in a folder: another test may build them anew."""
    command = [sys.executable, "-m", "patches", "wheels", "--json"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [Path(shutil.copy(one["path"], folder)) for one in json.loads(found.stdout)["wheels"]]


def newer_wheel(root: Path, name: str, folder: Path, step: str, version: str | None = "99.0") -> Path:
    """Build an extension, as another version or as the one that it is, whose tables need one more step."""
    shutil.copytree(root / "salt" / "extensions" / name, folder / name, ignore=LEFT_OUT)
    source = folder / name
    project = source / "pyproject.toml"
    if version is not None:
        project.write_text(re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', project.read_text()))
    (place,) = source.rglob("migrations")
    (place / "099_next.sql").write_text(step)
    run = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*run, "--wheel-dir", str(folder), str(source)], check=True)
    return next(folder.glob("*.whl"))


def with_extensions(base: Path, folder: Path, wheels: Sequence[Path]) -> Path:
    """Return a copy of an environment in which these wheels are installed, as `salt-pip install` does it.

    :param base: what `release` returned.
    :param folder: where the copy goes.
    """
    site = next((base / "lib").glob("python3*")).name
    subprocess.run([sys.executable, "-m", "virtualenv", "--quiet", str(folder)], check=True)
    # what is in the base is seen, and never written to
    (folder / "lib" / site / "site-packages" / "base.pth").write_text(f"{base}/lib/{site}/site-packages\n")
    for script in (base / "bin").glob("salt*"):
        text = script.read_text()
        copy = folder / "bin" / script.name
        copy.write_text(text.replace(str(base), str(folder)))
        copy.chmod(0o755)
    run = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    if wheels:
        subprocess.run([*run, *map(str, wheels)], check=True)
    return folder
