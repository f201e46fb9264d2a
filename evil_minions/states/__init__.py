"""State runs on the master's own state files: compiled once for all similar minions, and requested by each of them.

Salt's own compiler runs in a process beside the worker, see `evil_minions.states.compile`. Its questions to the master
are written down as a plan, and every minion that the plan fits makes the same requests over its own connections.
"""
