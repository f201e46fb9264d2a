"""
The interface of the virtual module ``service``
"""

from __future__ import annotations

from salt.interfaces import Feature, Interface


class ServiceInterface(Interface):
    """Services, and whether they start at boot."""

    __modulename__ = "service"

    def available(self, name) -> bool:
        """Say whether there is a service of this name"""

    def missing(self, name) -> bool:
        """Return whether there is no service of this name"""

    def status(self, name, sig=None) -> bool | str | dict | None:
        """
        Say whether a service runs

        ``name`` may be a pattern; then the answer is a dictionary of names to answers.
        ``sig`` is text to look for among processes, for services that the service
        manager can't ask.
        """

    def get_all(self) -> list | dict:
        """List the names of all services"""

    def start(self, name) -> bool | str | dict:
        """Start a service"""

    def stop(self, name) -> bool | str | dict:
        """Stop a service"""

    def restart(self, name) -> bool | str | dict:
        """Stop a service if it runs, and start it"""

    def enable(self, name) -> bool:
        """Let a service start with the system"""

    def disable(self, name) -> bool:
        """Don't let a service start with the system"""

    def enabled(self, name) -> bool | None:
        """Say whether a service starts with the system"""

    def disabled(self, name) -> bool | None:
        """Return whether a service does not start at boot"""

    class BootLists(Feature):
        """Services that start at boot"""

        def get_enabled(self) -> list | dict:
            """List the services that start with the system"""

        def get_disabled(self) -> list | dict:
            """List the services that do not start with the system"""

    class Reload(Feature):
        """Reload of the configuration"""

        def reload(self, name) -> bool:
            """Let a service read its configuration again without a restart"""

    class ForcedReload(Feature):
        """Reload, or else restart"""

        def force_reload(self, name) -> bool:
            """Reload the configuration, with a restart if need be"""

    class RunningList(Feature):
        """Services that run"""

        def get_running(self) -> list:
            """List the services that run"""
