"""The JavaScript libraries that go into an extension's wheel: pinned by hash, fetched from the npm registry.

`vendor.toml` beside an extension's `pyproject.toml` lists them. None of them is committed here.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tomllib
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from patches.errors import FetchError

if TYPE_CHECKING:
    from pathlib import Path

    from patches.layout import Layout

LIST = "vendor.toml"
REGISTRY = "https://registry.npmjs.org/"
ATTEMPTS = 3
SECONDS = 60


def add(layout: Layout, extension: Path, target: Path) -> None:
    """Put the libraries of an extension into a copy of its sources; do nothing for an extension without any.

    :raises FetchError: when one cannot be downloaded, or when its hash is another.
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

    :raises FetchError: when it cannot be downloaded, or when its hash is another.
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
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(content)
    part.rename(path)
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
