"""Simulated Salt minions that a real master can't tell from real ones.

A fleet costs a few kilobytes for each minion, so that thousands fit on one machine; everything that the master
notices (protocol, retries, start sequence, targets, return data) is what a salt-minion of the same version does.
"""

from evil_minions.behaviour.table import Table, nearest, read

__all__ = ["Table", "nearest", "read"]
