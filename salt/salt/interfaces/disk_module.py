"""
The interface of the virtual module ``disk``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class DiskInterface(Interface):
    """
    Disks and file systems: what is there and how full it is
    """

    __modulename__ = "disk"
    __version__ = "1.0"
    __func_alias__ = {"format_": "format"}

    # --- Every module

    # not promised: args, which win_disk does not take
    @Interface.returns(dict)
    def usage(self):
        """
        Return usage information for volumes mounted on this minion
        """
        return {}

    # --- Some modules

    @Interface.optional
    @Interface.returns(dict)
    def inodeusage(self, args=None):
        """
        Return inode usage information for volumes mounted on this minion
        """
        return {}

    @Interface.optional
    def percent(self, args=None):
        """
        Return partition information for volumes mounted on this minion
        """

    @Interface.optional
    @Interface.returns(dict)
    def blkid(self, device=None, token=None):
        """
        Return block device attributes: UUID, LABEL, etc
        """
        return {}

    @Interface.optional
    def tune(self, device, **kwargs):
        """
        Set attributes for the specified device
        """

    @Interface.optional
    @Interface.returns(bool)
    def wipe(self, device):
        """
        Remove the filesystem information
        """
        return False

    @Interface.optional
    @Interface.returns((bool, dict))
    def dump(self, device, args=None):
        """
        Return all contents of dumpe2fs for a specified device
        """
        return False

    @Interface.optional
    @Interface.returns((None, bool))
    def resize2fs(self, device):
        """
        Resizes the filesystem
        """

    @Interface.optional
    @Interface.returns(bool)
    def format_(
        self,
        device,
        fs_type="ext4",
        inode_size=None,
        lazy_itable_init=None,
        fat=None,
        force=False,
    ):
        """
        Format a filesystem onto a device
        """
        return False

    @Interface.optional
    def fstype(self, device):
        """
        Return the filesystem name of the specified device
        """

    @Interface.optional
    @Interface.returns(dict)
    def hdparms(self, disks, args="aAbBcCdgHiJkMmNnQrRuW"):
        """
        Retrieve disk parameters
        """
        return {}

    @Interface.optional
    @Interface.returns((None, dict))
    def hpa(self, disks, size=None):
        """
        Get/set Host Protected Area settings
        """

    @Interface.optional
    @Interface.returns(dict)
    def smart_attributes(self, dev, attributes=None, values=None):
        """
        Fetch SMART attributes Providing attributes will deliver only requested
        attributes Providing values will deliver only requested values for
        attributes
        """
        return {}

    @Interface.optional
    def iostat(self, interval=1, count=5, disks=None):
        """
        Gather and return (averaged) IO stats
        """

    @Interface.optional
    def get_fstype_from_path(self, path):
        """
        Return the filesystem type of the underlying device for a specified path
        """
