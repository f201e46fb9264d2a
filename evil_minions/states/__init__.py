"""State runs on the master's own state files: compiled once for all minions that are alike, asked for by each.

The compiler is Salt's own, in a process beside the worker, see `evil_minions.compile`. What it asks the master for on
the way is written down as a plan, and every minion that the plan fits makes the same requests over its own connections.
"""
