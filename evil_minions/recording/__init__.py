"""A real minion's answers: recorded on its master, with secrets masked, and replayed by simulated minions."""
