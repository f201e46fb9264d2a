"""
The interface of the virtual module ``service``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


@Interface.profile(
    "minimal",
    ["get_all", "start", "stop", "restart", "status", "enabled", "list", "running"],
)
@Interface.feature("boot", ["enabled", "enable", "disable", "disabled"])
@Interface.feature("masks", ["unmask", "mask", "masked"])
class ServiceInterface(Interface):
    """
    Services: start, stop, ask, and choose what starts with the system

    A service is called as the platform's service manager calls it. Functions say true
    if they worked; a device behind a proxy minion answers in words of its own.
    """

    __modulename__ = "service"
    __version__ = "1.0"
    __func_alias__ = {"list_": "list"}

    # --- Every module

    @Interface.returns((list, dict))
    def get_all(self):
        """
        List the names of all services
        """
        return []

    @Interface.returns(bool)
    def available(self, name):
        """
        Say whether there is a service of this name
        """
        return False

    @Interface.returns(bool)
    def missing(self, name):
        """
        Say whether there is no service of this name; the opposite of
        ``service.available``
        """
        return False

    @Interface.returns((bool, str, dict))
    def start(self, name):
        """
        Start a service
        """
        return False

    @Interface.returns((bool, str, dict))
    def stop(self, name):
        """
        Stop a service
        """
        return False

    @Interface.returns((bool, str, dict))
    def restart(self, name):
        """
        Stop a service if it runs, and start it
        """
        return False

    @Interface.returns((bool, str, dict, None))
    def status(self, name, sig=None):
        """
        Say whether a service runs

        ``name`` may be a pattern; then the answer is a dictionary of names to
        answers. ``sig`` is text to look for among processes, for services that the
        service manager can't ask.
        """
        return False

    # --- Feature: boot

    @Interface.returns((bool, None))
    def enabled(self, name):
        """
        Say whether a service starts with the system
        """
        return False

    @Interface.returns(bool)
    def enable(self, name):
        """
        Let a service start with the system
        """
        return False

    @Interface.returns(bool)
    def disable(self, name):
        """
        Don't let a service start with the system
        """
        return False

    @Interface.returns((bool, None))
    def disabled(self, name):
        """
        Say whether a service does not start with the system; the opposite of
        ``service.enabled``
        """
        return False

    # --- Feature: masks

    @Interface.returns(bool)
    def unmask(self, name, runtime=False, root=None):
        """
        Unmask the specified service with systemd
        """
        return False

    @Interface.returns(bool)
    def mask(self, name, runtime=False, root=None):
        """
        Mask the specified service with systemd
        """
        return False

    @Interface.returns(bool)
    def masked(self, name, runtime=False, root=None):
        """
        Check whether or not a service is masked
        """
        return False

    # --- Some modules

    @Interface.optional
    @Interface.returns((list, dict))
    def get_enabled(self):
        """
        List the services that start with the system
        """
        return []

    @Interface.optional
    @Interface.returns(bool)
    def systemctl_reload(self):
        """
        Reloads systemctl, an action needed whenever unit files are updated
        """
        return False

    @Interface.optional
    @Interface.returns(list)
    def get_running(self):
        """
        List the services that run
        """
        return []

    @Interface.optional
    @Interface.returns((list, dict))
    def get_disabled(self):
        """
        List the services that do not start with the system
        """
        return []

    @Interface.optional
    @Interface.returns(list)
    def get_static(self, root=None):
        """
        Return a list of all static services
        """
        return []

    @Interface.optional
    @Interface.not_applicable(kernel=["Windows"])
    @Interface.returns(bool)
    def reload(self, name):
        """
        Let a service read its configuration again without a restart
        """
        return False

    @Interface.optional
    @Interface.returns(bool)
    def force_reload(self, name):
        """
        Let a service read its configuration again, with a restart if it can't do
        without
        """
        return False

    # not promised: root, which mac_service does not take
    @Interface.optional
    def show(self, name):
        """
        Describe a service as the service manager does
        """

    @Interface.optional
    @Interface.returns(dict)
    def execs(self, root=None):
        """
        Return a list of all files specified as ``ExecStart`` for all services
        """
        return {}

    @Interface.optional
    @Interface.returns(bool)
    def firstboot(
        self,
        locale=None,
        locale_message=None,
        keymap=None,
        timezone=None,
        hostname=None,
        machine_id=None,
        root=None,
    ):
        """
        Call systemd-firstboot to configure basic settings of the system
        """
        return False

    @Interface.optional
    def offline(self):
        """
        Check if systemd is working in offline mode, where is not possible to talk
        with PID 1
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def get_service_name(self, *args):
        """
        The Display Name is what is displayed in Windows when services.msc is
        executed
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def info(self, name):
        """
        Get information about a service on the system
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def create_win_salt_restart_task(self):
        """
        Create a task in Windows task scheduler to enable restarting the salt-minion
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def execute_salt_restart_task(self):
        """
        Run the Windows Salt restart task
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def getsid(self, name):
        """
        Return the SID for this windows service
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def modify(
        self,
        name,
        bin_path=None,
        exe_args=None,
        display_name=None,
        description=None,
        service_type=None,
        start_type=None,
        start_delayed=None,
        error_control=None,
        load_order_group=None,
        dependencies=None,
        account_name=None,
        account_password=None,
        run_interactive=None,
    ):
        """
        Modify a service's parameters
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def create(
        self,
        name,
        bin_path,
        exe_args=None,
        display_name=None,
        description=None,
        service_type="own",
        start_type="manual",
        start_delayed=False,
        error_control="normal",
        load_order_group=None,
        dependencies=None,
        account_name=".\\LocalSystem",
        account_password=None,
        run_interactive=False,
        **kwargs,
    ):
        """
        Create the named service
        """

    @Interface.optional
    @Interface.supported(os_family=["RedHat", "Windows"])
    def delete(self, name, timeout=90):
        """
        Delete a service
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    def launchctl(self, sub_cmd, *args, **kwargs):
        """
        Run a launchctl command and raise an error if it fails
        """

    @Interface.optional
    def list_(self):
        """
        List services as the service manager does
        """

    @Interface.optional
    @Interface.supported(kernel=["Darwin"])
    @Interface.returns(bool)
    def loaded(self, name, runas=None):
        """
        Check if the specified service is loaded
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["SunOS"])
    @Interface.returns(list)
    def get_stopped(self):
        """
        Return the stopped services
        """
        return []

    @Interface.optional
    @Interface.returns(bool)
    def full_restart(self, name):
        """
        Do a full restart (stop/start) of the named service
        """
        return False

    @Interface.optional
    @Interface.returns(bool)
    def run(self, name, action):
        """
        Run the specified service with an action
        """
        return False

    @Interface.optional
    def running(self, name, sig=None):
        """
        The same as ``service.status``; for devices behind a proxy minion
        """
