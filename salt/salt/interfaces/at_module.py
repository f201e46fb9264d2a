"""
The interface of the virtual module ``at``
"""

from __future__ import annotations

from salt.interfaces import Interface


class AtInterface(Interface):
    """Jobs of at(1): run a command once at a later time."""

    __modulename__ = "at"

    def at(self, *args, **kwargs) -> dict | str:
        """Add a job to the queue"""

    def atc(self, jobid) -> str | dict:
        """Print the at(1) script that will run for the passed job id"""

    def atq(self, tag=None) -> dict | str:
        """List all queued and running jobs or only those with an optional 'tag'"""

    def atrm(self, *args) -> dict | str:
        """Remove jobs from the queue"""

    def jobcheck(self, **kwargs) -> dict:
        """Check the job from queue"""
