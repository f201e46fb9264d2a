"""The transports of Salt, a module for each, and what the rest of the package needs to know of one.

A transport is two kinds of wire, which know its frames, and two kinds of link above them, which do what a real minion
does when an answer or a connection is missing. Nothing else in the package asks which transport is in use.
"""
