"""Processes of a bed: who starts them, who stops them, on which ports, and what they cost."""
