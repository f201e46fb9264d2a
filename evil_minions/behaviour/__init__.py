"""Behaviours: how minions differ from healthy ones, as data in small files.

Nothing here knows of a network or a clock: a behaviour is read from its file, and decides. Minions carry it out.
"""
