"""State runs on the master's own state files: compiled once for all minions that are alike, asked for by each.

Salt's own compiler runs in a process beside the worker, see `evil_minions.states.compile`. Its questions to the master
are written down as a plan, and every minion that the plan fits makes the same requests over its own connections.
"""
