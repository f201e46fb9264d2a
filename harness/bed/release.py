"""Salt as others have it: a release out of the package index, in an environment of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

# older releases ask for a certifi that not every index has any more
OVERRIDE = "certifi>=2026\n"
TRUST = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}


def release(root: Path, version: str) -> Path:
    """Return the environment of a release without extensions, made once and kept in `build/releases/`."""
    folder = root / "build" / "releases"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / version
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            shutil.rmtree(made, ignore_errors=True)
            override = folder / "override.txt"
            override.write_text(OVERRIDE)
            subprocess.run([sys.executable, "-m", "virtualenv", "--quiet", str(made)], check=True)
            install(made, "--override", str(override), f"salt=={version}", "psycopg2-binary", "pytest")
            (made / "complete").touch()
    return made


def install(environment: Path, *arguments: str) -> None:
    """Install packages into an environment."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
    subprocess.run([*command, *arguments], env={**TRUST, **os.environ}, check=True)
