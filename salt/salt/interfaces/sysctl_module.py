"""
The interface of the virtual module ``sysctl``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class SysctlInterface(Interface):
    """
    Settings of the kernel
    """

    __modulename__ = "sysctl"
    __version__ = "1.0"

    # --- Every module

    @Interface.returns((None, dict, list))
    def show(self, config_file=False):
        """
        Return a list of sysctl parameters for this minion
        """

    def get(self, name):
        """
        Return a single sysctl parameter for this minion
        """

    @Interface.returns(dict)
    def assign(self, name, value):
        """
        Assign a single sysctl parameter for this minion
        """
        return {}

    # not promised: config, which is '/etc/sysctl.conf' or None by default
    # not promised: apply_change, which linux_sysctl does not take
    @Interface.returns(str)
    def persist(self, name, value):
        """
        Assign and persist a simple sysctl parameter for this minion
        """
        return ""

    # --- Some modules

    @Interface.optional
    @Interface.supported(kernel=["Linux"])
    @Interface.returns(str)
    def default_config(self):
        """
        Linux hosts using systemd 207 or later ignore ``/etc/sysctl.conf`` and only
        load from ``/etc/sysctl.d/*.conf``
        """
        return ""
