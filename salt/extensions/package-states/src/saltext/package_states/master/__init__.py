"""What the runner does: save, assign, ask minions, read and write files."""
