"""
What the runner does: save, assign, ask minions, exchange files.
"""
