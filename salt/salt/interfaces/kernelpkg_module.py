"""
The interface of the virtual module ``kernelpkg``
"""

from __future__ import annotations

from salt.interfaces import Interface


class KernelpkgInterface(Interface):
    """Packages of the kernel."""

    __modulename__ = "kernelpkg"

    def active(self) -> str:
        """Return the version of the running kernel"""

    def latest_available(self) -> str:
        """Return the version of the latest kernel from the package repositories"""

    def latest_installed(self) -> str:
        """Return the version of the latest installed kernel"""

    def list_installed(self) -> list:
        """Return a list of all installed kernels"""

    def needs_reboot(self) -> bool:
        """Detect if a new kernel version has been installed but is not running"""

    def remove(self, release) -> dict:
        """Remove a specific version of the kernel"""

    def upgrade(self, reboot=False, at_time=None) -> dict:
        """Upgrade the kernel and optionally reboot the system"""

    def upgrade_available(self) -> bool:
        """Detect if a new kernel version is available in the repositories"""

    def cleanup(self, keep_latest=True) -> dict:
        """Remove all unused kernel packages from the system"""
