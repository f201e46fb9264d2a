"""
The interface of the virtual module ``at``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class AtInterface(Interface):
    """
    Jobs that run once at a later time
    """

    __modulename__ = "at"
    __version__ = "1.0"

    # --- Every module

    @Interface.returns((dict, str))
    def atq(self, tag=None):
        """
        List all queued and running jobs or only those with an optional 'tag'
        """
        return {}

    @Interface.returns((dict, str))
    def atrm(self, *args):
        """
        Remove jobs from the queue
        """
        return {}

    def at(self, *args, **kwargs):
        """
        Add a job to the queue
        """

    def atc(self, jobid):
        """
        Print the at(1) script that will run for the passed job id
        """

    def jobcheck(self, **kwargs):
        """
        Check the job from queue
        """
