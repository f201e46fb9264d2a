"""
The interface of the virtual module ``system``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


@Interface.feature(
    "clock",
    [
        "get_system_time",
        "set_system_time",
        "set_system_date_time",
        "get_system_date",
        "set_system_date",
    ],
)
@Interface.feature("description", ["set_computer_desc", "get_computer_desc"])
@Interface.feature(
    "reboot required",
    ["set_reboot_required_witnessed", "get_reboot_required_witnessed"],
)
@Interface.feature(
    "startup disk", ["get_startup_disk", "list_startup_disks", "set_startup_disk"]
)
@Interface.feature("remote login", ["get_remote_login", "set_remote_login"])
@Interface.feature("remote events", ["get_remote_events", "set_remote_events"])
@Interface.feature(
    "domain",
    ["join_domain", "unjoin_domain", "get_domain_workgroup", "set_domain_workgroup"],
)
@Interface.feature("hostname", ["get_hostname", "set_hostname"])
@Interface.feature("restart delay", ["get_restart_delay", "set_restart_delay"])
@Interface.feature("subnet name", ["get_subnet_name", "set_subnet_name"])
@Interface.feature("boot architecture", ["get_boot_arch", "set_boot_arch"])
@Interface.feature(
    "keyboard on lock", ["get_disable_keyboard_on_lock", "set_disable_keyboard_on_lock"]
)
@Interface.feature("time service", ["start_time_service", "stop_time_service"])
class SystemInterface(Interface):
    """
    The machine as a whole: its power, its clock, its name

    When an action begins is said in another way on each platform, so the interface
    promises none of it: without options the action begins at once, or with the delay that
    the platform has.
    """

    __modulename__ = "system"
    __version__ = "1.0"

    # --- Every module

    @Interface.returns((str, bool))
    def halt(self):
        """
        Stop the machine
        """
        return ""

    # not promised: message, which mac_system, system does not take
    # not promised: at_time, which solaris_system, win_system does not take
    @Interface.returns((str, bool))
    def shutdown(self):
        """
        Shut the machine down
        """
        return ""

    # not promised: name, which system does not take
    @Interface.not_applicable(kernel=["SunOS"])
    @Interface.returns((bool, dict))
    def set_computer_name(self, name):
        """
        Change the name of the machine; says whether it worked, and on Windows what
        is pending
        """
        return False

    @Interface.not_applicable(kernel=["SunOS"])
    @Interface.returns((str, bool))
    def get_computer_name(self):
        """
        Return the name of the machine; false if it can't be read
        """
        return ""

    @Interface.returns((str, bool))
    def reboot(self):
        """
        Start the machine anew
        """
        return ""

    # --- Feature: clock

    # not promised: utc_offset, which win_system does not take
    def get_system_time(self):
        """
        Return the time of day
        """

    # not promised: utc_offset, which win_system does not take
    def set_system_time(self, newtime):
        """
        Set the time of day
        """

    # not promised: utc_offset, which win_system does not take
    def set_system_date_time(
        self, years=None, months=None, days=None, hours=None, minutes=None, seconds=None
    ):
        """
        Set date and time; what is not given stays
        """

    # not promised: utc_offset, which win_system does not take
    def get_system_date(self):
        """
        Return the date
        """

    # not promised: utc_offset, which win_system does not take
    def set_system_date(self, newdate):
        """
        Set the date
        """

    # --- Feature: description

    @Interface.returns((bool, dict))
    def set_computer_desc(self, desc):
        """
        Set the description of the machine
        """
        return False

    @Interface.returns((str, bool, None))
    def get_computer_desc(self):
        """
        Return the description of the machine; false if there is none
        """
        return ""

    # --- Feature: reboot required

    def set_reboot_required_witnessed(self):
        """
        Remember until the next start that a restart is needed
        """

    def get_reboot_required_witnessed(self):
        """
        Say whether Salt has seen since the last start that a restart is needed
        """

    # --- Feature: startup disk

    @Interface.supported(kernel=["Darwin"])
    def get_startup_disk(self):
        """
        Displays the current startup disk
        """

    @Interface.supported(kernel=["Darwin"])
    def list_startup_disks(self):
        """
        List all valid startup disks on the system
        """

    @Interface.supported(kernel=["Darwin"])
    def set_startup_disk(self, path):
        """
        Set the current startup disk to the indicated path
        """

    # --- Feature: remote login

    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def get_remote_login(self):
        """
        Displays whether remote login (SSH) is on or off
        """
        return False

    @Interface.supported(kernel=["Darwin"])
    def set_remote_login(self, enable):
        """
        Set the remote login (SSH) to either on or off
        """

    # --- Feature: remote events

    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def get_remote_events(self):
        """
        Displays whether remote apple events are on or off
        """
        return False

    @Interface.supported(kernel=["Darwin"])
    def set_remote_events(self, enable):
        """
        Set whether the server responds to events sent by other computers (such as
        AppleScripts)
        """

    # --- Feature: domain

    @Interface.supported(kernel=["Windows"])
    @Interface.returns((dict, str))
    def join_domain(
        self,
        domain,
        username=None,
        password=None,
        account_ou=None,
        account_exists=False,
        restart=False,
    ):
        """
        Join a computer to an Active Directory domain
        """
        return {}

    @Interface.supported(kernel=["Windows"])
    @Interface.returns((bool, dict, str))
    def unjoin_domain(
        self,
        username=None,
        password=None,
        domain=None,
        workgroup="WORKGROUP",
        disable=False,
        restart=False,
    ):
        """
        Unjoin a computer from an Active Directory Domain
        """
        return False

    @Interface.supported(kernel=["Windows"])
    @Interface.returns((None, dict))
    def get_domain_workgroup(self):
        """
        Get the domain or workgroup the computer belongs to
        """

    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def set_domain_workgroup(self, workgroup):
        """
        Set the domain or workgroup the computer belongs to
        """
        return False

    # --- Feature: hostname

    @Interface.supported(kernel=["Windows"])
    def get_hostname(self):
        """
        Get the hostname of the windows minion
        """

    @Interface.supported(kernel=["Windows"])
    def set_hostname(self, hostname):
        """
        Set the hostname of the windows minion, requires a restart before this will
        be updated
        """

    # --- Feature: restart delay

    @Interface.supported(kernel=["Darwin"])
    def get_restart_delay(self):
        """
        Get the number of seconds after which the computer will start up after a
        power failure
        """

    @Interface.supported(kernel=["Darwin"])
    def set_restart_delay(self, seconds):
        """
        Set the number of seconds after which the computer will start up after a
        power failure
        """

    # --- Feature: subnet name

    @Interface.supported(kernel=["Darwin"])
    def get_subnet_name(self):
        """
        Gets the local subnet name
        """

    @Interface.supported(kernel=["Darwin"])
    def set_subnet_name(self, name):
        """
        Set the local subnet name
        """

    # --- Feature: boot architecture

    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(str)
    def get_boot_arch(self):
        """
        Get the kernel architecture setting from ``com.apple.Boot.plist``
        """
        return ""

    @Interface.supported(kernel=["Darwin"])
    def set_boot_arch(self, arch="default"):
        """
        Set the kernel to boot in 32 or 64 bit mode on next boot
        """

    # --- Feature: keyboard on lock

    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def get_disable_keyboard_on_lock(self):
        """
        Get whether or not the keyboard should be disabled when the X Serve
        enclosure lock is engaged
        """
        return False

    @Interface.supported(kernel=["Darwin"])
    def set_disable_keyboard_on_lock(self, enable):
        """
        Get whether or not the keyboard should be disabled when the X Serve
        enclosure lock is engaged
        """

    # --- Feature: time service

    @Interface.supported(kernel=["Windows"])
    def start_time_service(self):
        """
        Start the Windows time service
        """

    @Interface.supported(kernel=["Windows"])
    def stop_time_service(self):
        """
        Stop the Windows time service
        """

    # --- Some modules

    # not promised: runlevel, which solaris_system does not take
    @Interface.optional
    def init(self, runlevel):
        """
        Change the run level
        """

    @Interface.optional
    def poweroff(self):
        """
        Shut the machine down and turn it off
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def shutdown_hard(self):
        """
        Shutdown a running system with no timeout or warning
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def shutdown_abort(self):
        """
        Abort a shutdown
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def lock(self):
        """
        Lock the workstation
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_computer_name(self):
        """
        Get a pending computer name
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns((bool, dict))
    def set_computer_description(self, desc=None):
        """
        Set the Windows computer description
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def get_system_info(self):
        """
        Get system information
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_computer_description(self):
        """
        Get the Windows computer description
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_component_servicing(self):
        """
        Determine whether there are pending Component Based Servicing tasks that
        require a reboot
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_domain_join(self):
        """
        Determine whether there is a pending domain join action that requires a
        reboot
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_file_rename(self):
        """
        Determine whether there are pending file rename operations that require a
        reboot
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_servermanager(self):
        """
        Determine whether there are pending Server Manager tasks that require a
        reboot
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_update(self):
        """
        Determine whether there are pending updates that require a reboot
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_reboot(self):
        """
        Determine whether there is a reboot pending
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_reboot_details(self):
        """
        Determine which check is signalling that the system is pending a reboot
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pending_windows_update(self):
        """
        Check the Windows Update system for a pending reboot state
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def sleep(self, at_time=None):
        """
        Sleep the system
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def restart(self, at_time=None):
        """
        Restart the system
        """

    @Interface.optional
    @Interface.returns(bool)
    def has_settable_hwclock(self):
        """
        Returns ``True`` if the system has a hardware clock capable of being set
        from software
        """
        return False

    @Interface.optional
    def get_system_date_time(self, utc_offset=None):
        """
        Get the system date/time
        """
