"""
The interface of the virtual module ``sysctl``
"""

from __future__ import annotations

from salt.interfaces import Interface


class SysctlInterface(Interface):
    """Parameters of the kernel."""

    __modulename__ = "sysctl"

    def get(self, name) -> str:
        """Return a single sysctl parameter for this minion"""

    def assign(self, name, value) -> dict:
        """Assign a single sysctl parameter for this minion"""

    def persist(self, name, value, config=None) -> str:
        """Assign and persist a simple sysctl parameter for this minion"""

    def show(self, config_file=False) -> dict | list | None:
        """Return a list of sysctl parameters for this minion"""
