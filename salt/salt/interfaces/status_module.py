"""
The interface of the virtual module ``status``
"""

from __future__ import annotations

from salt.interfaces import Interface


class StatusInterface(Interface):
    """State and load of the minion."""

    __modulename__ = "status"

    def cpustats(self) -> dict:
        """Return the CPU stats for this minion"""

    def diskusage(self) -> dict:
        """Return the disk usage for this minion"""

    def loadavg(self) -> dict | float:
        """Return the load averages for this minion"""

    def master(self, master=None, connected=True) -> bool | None:
        """Return the connection status with master"""

    def meminfo(self) -> dict:
        """Return the memory info for this minion"""

    def ping_master(self, master) -> bool:
        """Sends ping request to the given master"""

    def procs(self) -> dict:
        """Return the process data"""

    # pylint: disable-next=redefined-builtin
    def time(self, format="%A, %d. %B %Y %I:%M%p") -> str:
        """Return the time of the minion in a format of strftime(3)."""

    def uptime(self) -> dict | str:
        """Return the uptime for this system"""

    def vmstats(self) -> dict:
        """Return the statistics of virtual memory."""
