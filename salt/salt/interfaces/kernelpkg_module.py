"""
The interface of the virtual module ``kernelpkg``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class KernelpkgInterface(Interface):
    """
    Packages of the Linux kernel: list, upgrade, remove old ones
    """

    __modulename__ = "kernelpkg"
    __version__ = "1.0"

    # --- Every module

    def active(self):
        """
        Return the version of the running kernel
        """

    @Interface.returns(list)
    def list_installed(self):
        """
        Return a list of all installed kernels
        """
        return []

    def latest_available(self):
        """
        Return the version of the latest kernel from the package repositories
        """

    def latest_installed(self):
        """
        Return the version of the latest installed kernel
        """

    @Interface.returns(bool)
    def needs_reboot(self):
        """
        Detect if a new kernel version has been installed but is not running
        """
        return False

    @Interface.returns(dict)
    def upgrade(self, reboot=False, at_time=None):
        """
        Upgrade the kernel and optionally reboot the system
        """
        return {}

    @Interface.returns(bool)
    def upgrade_available(self):
        """
        Detect if a new kernel version is available in the repositories
        """
        return False

    @Interface.returns(dict)
    def remove(self, release):
        """
        Remove a specific version of the kernel
        """
        return {}

    @Interface.returns(dict)
    def cleanup(self, keep_latest=True):
        """
        Remove all unused kernel packages from the system
        """
        return {}
