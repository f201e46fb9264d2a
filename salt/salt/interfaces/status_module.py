"""
The interface of the virtual module ``status``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface

# parameters have the names that they have in the modules
# pylint: disable=redefined-builtin


class StatusInterface(Interface):
    """
    Measurements: load, memory, processes, network
    """

    __modulename__ = "status"
    __version__ = "1.0"

    # --- Every module

    # not promised: count, which status does not take
    def procs(self):
        """
        Return the process data
        """

    # not promised: human_readable, which status does not take
    def uptime(self):
        """
        Return the uptime for this system
        """

    def loadavg(self):
        """
        Return the load averages for this minion
        """

    def cpustats(self):
        """
        Return the CPU stats for this minion
        """

    def meminfo(self):
        """
        Return the memory info for this minion
        """

    # not promised: human_readable, which status does not take
    # not promised: path, which status does not take
    @Interface.returns(dict)
    def diskusage(self):
        """
        Return the disk usage for this minion
        """
        return {}

    def vmstats(self):
        """
        salt '*' status.vmstats
        """

    @Interface.returns((None, bool))
    def master(self, master=None, connected=True):
        """
        Return the connection status with master
        """

    @Interface.returns(bool)
    def ping_master(self, master):
        """
        Sends ping request to the given master
        """
        return False

    def time(self, format="%A, %d. %B %Y %I:%M%p"):
        """
        Return the current time on the minion, formatted based on the format
        parameter
        """

    # --- Some modules

    @Interface.optional
    @Interface.returns(dict)
    def custom(self):
        """
        Return a custom composite of status data and info for this minion, based on
        the minion config file
        """
        return {}

    @Interface.optional
    def cpuinfo(self):
        """
        salt '*' status.cpuinfo
        """

    @Interface.optional
    def diskstats(self):
        """
        salt '*' status.diskstats
        """

    @Interface.optional
    def nproc(self):
        """
        Return the number of processing units available on this system
        """

    @Interface.optional
    def netstats(self):
        """
        Return the network stats for this minion
        """

    @Interface.optional
    def netdev(self):
        """
        salt '*' status.netdev
        """

    @Interface.optional
    def w(self):
        """
        Return a list of logged in users for this minion, using the w command
        """

    @Interface.optional
    @Interface.returns(dict)
    def all_status(self):
        """
        Return a composite of all status data and info for this minion
        """
        return {}

    @Interface.optional
    def pid(self, sig):
        """
        Return the PID or an empty string if the process is running or not
        """

    @Interface.optional
    def version(self):
        """
        Return the system version for this minion
        """

    @Interface.optional
    @Interface.returns(bool)
    def proxy_reconnect(self, proxy_name, opts=None):
        """
        Forces proxy minion reconnection when not alive
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def cpuload(self):
        """
        Return the processor load as a percentage
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def saltmem(self, human_readable=False):
        """
        Returns the amount of memory that salt is using
        """
