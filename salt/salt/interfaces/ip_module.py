"""
The interface of the virtual module ``ip``
"""

from __future__ import annotations

import typing

from salt.interfaces import Feature, Interface


class IpInterface(Interface):
    """Configuration of network interfaces, as text or data of the platform."""

    __modulename__ = "ip"

    def get_interface(self, iface) -> typing.Any:
        """Return the contents of an interface script"""

    def get_routes(self, iface) -> typing.Any:
        """Return the routes for the interface"""

    def up(self, iface, iface_type=None) -> typing.Any:
        """Start up a network interface"""

    def down(self, iface, iface_type=None) -> typing.Any:
        """Shutdown a network interface"""

    class Configuration(Feature):
        """Files that configure the network at boot"""

        def build_interface(self, iface, iface_type, enabled, **kwargs) -> typing.Any:
            """Build an interface script for a network interface"""

        def build_routes(self, iface, **kwargs) -> typing.Any:
            """Add route scripts for a network interface using up commands"""

        def build_network_settings(self, **kwargs) -> typing.Any:
            """Build the global network script"""

        def get_network_settings(self) -> typing.Any:
            """Return the contents of the global network script"""

        def apply_network_settings(self, **kwargs) -> typing.Any:
            """Apply global network configuration"""
