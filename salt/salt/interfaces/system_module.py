"""
The interface of the virtual module ``system``
"""

from __future__ import annotations

from salt.interfaces import Feature, Interface


class SystemInterface(Interface):
    """Halt, restart and names of the minion."""

    __modulename__ = "system"
    __deprecated__ = {
        "get_computer_description": "get_computer_desc",
        "restart": "reboot",
        "set_computer_description": "set_computer_desc",
    }

    def halt(self) -> str | bool:
        """Stop the machine"""

    def shutdown(self) -> str | bool:
        """Shut the machine down"""

    def reboot(self) -> str | bool:
        """Start the machine anew"""

    def poweroff(self) -> str | bool:
        """Shut the machine down and turn it off"""

    def get_computer_name(self) -> str | bool:
        """Return the name of the machine; false if it can't be read"""

    def set_computer_name(self, name) -> bool | dict:
        """Change the name of the machine; return whether it worked"""

    class Clock(Feature):
        """Date and time"""

        def get_system_date(self) -> str:
            """Return the date"""

        def set_system_date(self, newdate) -> bool | str:
            """Set the date"""

        def get_system_time(self) -> str:
            """Return the time of day"""

        def set_system_time(self, newtime) -> bool | str:
            """Set the time of day"""

        def set_system_date_time(
            self,
            years=None,
            months=None,
            days=None,
            hours=None,
            minutes=None,
            seconds=None,
        ) -> bool | str:
            """Set date and time; what is not given stays"""

    class Description(Feature):
        """The description of the computer"""

        def get_computer_desc(self) -> str | bool | None:
            """Return the description of the machine; false if there is none"""

        def set_computer_desc(self, desc) -> bool | dict:
            """Set the description of the machine"""

    class RebootRequired(Feature):
        """Whether a restart is due"""

        def get_reboot_required_witnessed(self) -> bool:
            """
            Say whether Salt has seen since the last start that a restart is needed
            """

        def set_reboot_required_witnessed(self) -> bool:
            """Remember until the next start that a restart is needed"""
