"""Connections to a master: sockets, the links of a minion above them, the transports, and simulated networks."""
