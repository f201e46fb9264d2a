"""The process that compiles states for a worker's minions: Salt's own compiler, on files that a minion asks for.

Nothing of a state is executed here, nor of what templates call: states are looked at for the files that they need, and
calls go to the simulated minion.
"""
