"""The functions that minions know, in a module for each of Salt's; each has them in its `FUNCTIONS`.

A module in this folder is found by itself, see `evil_minions.functions.table`.
"""
