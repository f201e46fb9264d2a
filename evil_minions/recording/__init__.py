"""A real minion as a fleet's model: recorded on its master, with secrets masked, and replayed by simulated minions."""
