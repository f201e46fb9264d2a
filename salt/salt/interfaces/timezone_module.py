"""
The interface of the virtual module ``timezone``
"""

from __future__ import annotations

from salt.interfaces import Interface


class TimezoneInterface(Interface):
    """Time zone and hardware clock."""

    __modulename__ = "timezone"

    def get_zone(self) -> str | bool:
        """Return the name of the time zone, as in ``America/Denver``"""

    def set_zone(self, timezone) -> bool | str:
        """Set the time zone; true if it worked"""

    def zone_compare(self, timezone) -> bool:
        """Say whether the time zone is the one given"""

    def get_zonecode(self) -> str:
        """Return the short name of the time zone, as in ``MST``"""

    def get_offset(self) -> str:
        """Return how far the time is from UTC, as in ``-0700``"""

    def get_hwclock(self) -> str | bool | None:
        """Return what the hardware clock holds: ``UTC`` or ``localtime``"""

    def set_hwclock(self, clock) -> bool:
        """Set what the hardware clock holds: ``UTC`` or ``localtime``"""
