"""A local apt repository of small packages in several versions, made with `dpkg-deb` and `dpkg-scanpackages`.

| package | versions | what it is for |
|---|---|---|
| sb-tool | 1.0, 1.2, 1.10, 2.0~rc1, 2.0 | operators, ranges; has a configuration file, so removing and purging differ |
| sb-epoch | 0.9, 1:0.5 | the lower number is the later version |
| sb-lib | 1.0, 2.0, amd64 and i386 | several architectures side by side (`Multi-Arch: same`) |
| sb-app | 1.0, 2.0 | depends on sb-lib of at least its own version |
| sb-puller | 1.0 | depends on sb-unwanted |
| sb-unwanted | 1.0, 2.0 | what a lock keeps away |
| sb-core | 1.0, 2.0 | protected |
| sb-bad | 1.0 | its installation fails |
| sb-n00 ... sb-n49 | 1.0 | many |
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MANY = 50
FOREIGN = "i386"


@dataclass(frozen=True)
class Package:
    """A package in one version; `fields` are further ones of its control file."""

    name: str
    version: str
    architecture: str = "all"
    fields: Mapping[str, str] = field(default_factory=dict)
    conffile: bool = False
    postinst: str = ""

    @property
    def file(self) -> str:
        """Return the file's name."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


def standard(native: str) -> list[Package]:
    """Return the packages of the table above for a machine whose own architecture is `native`."""
    found = [Package("sb-tool", version, conffile=True) for version in ("1.0", "1.2", "1.10", "2.0~rc1", "2.0")]
    found += [Package("sb-epoch", version) for version in ("0.9", "1:0.5")]
    for version in ("1.0", "2.0"):
        found += [Package("sb-lib", version, arch, {"Multi-Arch": "same"}) for arch in (native, FOREIGN)]
        found += [
            Package("sb-app", version, fields={"Depends": f"sb-lib (>= {version})"}),
            Package("sb-unwanted", version),
            Package("sb-core", version, fields={"Protected": "yes"}),
        ]
    found += [
        Package("sb-puller", "1.0", fields={"Depends": "sb-unwanted"}),
        Package("sb-bad", "1.0", postinst="exit 1"),
    ]
    return found + [Package(f"sb-n{number:02d}", "1.0") for number in range(MANY)]


class Repository:
    """A folder of packages with their index."""

    def __init__(self, folder: Path) -> None:
        """Take the folder; nothing is in it yet."""
        self.folder = folder

    @classmethod
    def standard(cls, folder: Path) -> Self:
        """Make the repository of the table above."""
        native = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
        made = cls(folder)
        made.add(standard(native.stdout.strip()))
        return made

    def add(self, packages: Iterable[Package]) -> None:
        """Build packages and index them; a root sees them after its `update`."""
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._build, packages))
        self.index()

    def _build(self, package: Package) -> None:
        source = self.folder / "sources" / package.file.removesuffix(".deb")
        (source / "DEBIAN").mkdir(parents=True)
        lines = {
            "Package": package.name,
            "Version": package.version,
            "Architecture": package.architecture,
            "Maintainer": "Saltbed <nobody@saltbed.example>",
            "Description": "a package of the tests",
            **package.fields,
        }
        text = "".join(f"{name}: {value}\n" for name, value in lines.items())
        (source / "DEBIAN" / "control").write_text(text)
        if package.conffile:
            (source / "etc").mkdir()
            (source / "etc" / f"{package.name}.conf").write_text("as shipped\n")
            (source / "DEBIAN" / "conffiles").write_text(f"/etc/{package.name}.conf\n")
        if package.postinst:
            script = source / "DEBIAN" / "postinst"
            script.write_text(f"#!/bin/sh\n{package.postinst}\n")
            script.chmod(0o755)
        argv = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(source), str(self.folder / package.file)]
        subprocess.run(argv, check=True, capture_output=True)

    def index(self) -> None:
        """Write the index of all packages that are there."""
        argv = ["dpkg-scanpackages", "--multiversion", "."]
        done = subprocess.run(argv, cwd=self.folder, check=True, capture_output=True)
        (self.folder / "Packages").write_bytes(done.stdout)
