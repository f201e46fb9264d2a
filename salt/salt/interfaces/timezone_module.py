"""
The interface of the virtual module ``timezone``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


@Interface.feature("date and time", ["get_date", "set_date", "get_time", "set_time"])
@Interface.feature(
    "time server",
    [
        "get_using_network_time",
        "set_using_network_time",
        "get_time_server",
        "set_time_server",
    ],
)
class TimezoneInterface(Interface):
    """
    The time zone of the system, and of its hardware clock
    """

    __modulename__ = "timezone"
    __version__ = "1.0"
    __func_alias__ = {"list_": "list"}

    # --- Every module

    @Interface.returns((str, bool))
    def get_zone(self):
        """
        Return the name of the time zone, as in ``America/Denver``
        """
        return ""

    @Interface.returns(str)
    def get_zonecode(self):
        """
        Return the short name of the time zone, as in ``MST``
        """
        return ""

    @Interface.returns(str)
    def get_offset(self):
        """
        Return how far the time is from UTC, as in ``-0700``
        """
        return ""

    # not promised: timezone, which mac_timezone does not take
    @Interface.returns((bool, str))
    def set_zone(self, timezone):
        """
        Set the time zone; true if it worked
        """
        return False

    # not promised: timezone, which mac_timezone does not take
    @Interface.returns(bool)
    def zone_compare(self, timezone):
        """
        Say whether the time zone is the one given
        """
        return False

    @Interface.returns((str, bool, None))
    def get_hwclock(self):
        """
        Say what the hardware clock holds: ``UTC`` or ``localtime``; false on macOS,
        which has no say
        """
        return ""

    @Interface.returns(bool)
    def set_hwclock(self, clock):
        """
        Say what the hardware clock holds: ``UTC`` or ``localtime``; returns whether
        that was possible
        """
        return False

    # --- Feature: date and time

    @Interface.supported(kernel=["Darwin"])
    def get_date(self):
        """
        Displays the current date
        """

    @Interface.supported(kernel=["Darwin"])
    def set_date(self, date):
        """
        Set the current month, day, and year
        """

    @Interface.supported(kernel=["Darwin"])
    def get_time(self):
        """
        Get the current system time
        """

    @Interface.supported(kernel=["Darwin"])
    def set_time(self, time):
        """
        Sets the current time
        """

    # --- Feature: time server

    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def get_using_network_time(self):
        """
        Display whether network time is on or off
        """
        return False

    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def set_using_network_time(self, enable):
        """
        Set whether network time is on or off
        """
        return False

    @Interface.supported(kernel=["Darwin"])
    def get_time_server(self):
        """
        Display the currently set network time server
        """

    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def set_time_server(self, time_server="time.apple.com"):
        """
        Designates a network time server
        """
        return False

    # --- Some modules

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(list)
    def list_zones(self):
        """
        Displays a list of available time zones
        """
        return []

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def list_(self, unix_style=True):
        """
        Return a list of Timezones that this module supports
        """
